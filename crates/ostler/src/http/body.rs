//! Where the body of a message ends.
//!
//! Whoever passes a body on as it is has to know nothing of it but its end.

/// How a message says where its body ends, and how far into it we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// This many bytes are to come.
    Length(u64),
    /// Each part says how long it is.
    Chunked(Chunks),
    /// Everything until the other side closes.
    UntilClose,
}

/// Where in a chunked body we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunks {
    place: Place,
    /// How much came that is neither data nor a size.
    extra: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In the line that says how long the chunk is; nothing of the number may have come.
    Size {
        size: u64,
        digits: u8,
    },
    /// In a space behind that number.
    Space {
        size: u64,
    },
    /// In the rest of that line, which says nothing to us.
    Extension {
        size: u64,
    },
    /// In the break of that line.
    SizeBreak {
        size: u64,
    },
    Data(u64),
    /// Before the line break behind the data.
    DataEnd,
    DataBreak,
    /// In a line behind the last chunk. An empty one is the end.
    Trailer {
        is_empty: bool,
    },
    TrailerBreak {
        was_empty: bool,
    },
    End,
}

/// A body that is not what its head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a chunk of the body is not valid")]
pub struct InvalidChunk;

/// As many hexadecimal digits as a size may have.
const LONGEST_SIZE: u8 = 16;
/// Of what is neither data nor a size.
const MOST_EXTRA: u16 = 16 << 10;

impl Body {
    /// There is none.
    pub const NONE: Self = Self::Length(0);
    /// One in chunks, before the first of them.
    pub const CHUNKED: Self = Self::Chunked(Chunks::START);

    /// Whether nothing more of it is to come.
    pub fn is_complete(self) -> bool {
        matches!(self, Self::Length(0) | Self::Chunked(Chunks { place: Place::End, .. }))
    }

    /// Goes on by as many of `bytes` as belong to the body, and says how many that are. The content
    /// among them is given to `see`.
    pub fn advance(
        &mut self,
        bytes: &[u8],
        see: &mut impl FnMut(&[u8]),
    ) -> Result<usize, InvalidChunk> {
        match self {
            Self::Length(left) => {
                let taken = shorter(*left, bytes.len());
                see(&bytes[..taken]);
                *left -= taken as u64;
                Ok(taken)
            }
            Self::UntilClose => {
                see(bytes);
                Ok(bytes.len())
            }
            Self::Chunked(chunks) => {
                let mut taken = 0;
                while taken < bytes.len() && chunks.place != Place::End {
                    taken += chunks.step(&bytes[taken..], see)?;
                }
                Ok(taken)
            }
        }
    }
}

impl Chunks {
    const START: Self = Self { place: Place::SIZE, extra: 0 };

    /// Takes at least one byte.
    fn step(&mut self, bytes: &[u8], see: &mut impl FnMut(&[u8])) -> Result<usize, InvalidChunk> {
        if let Place::Data(left) = &mut self.place {
            let taken = shorter(*left, bytes.len());
            see(&bytes[..taken]);
            *left -= taken as u64;
            if *left == 0 {
                self.place = Place::DataEnd;
            }
            return Ok(taken);
        }
        self.place = self.place.after(bytes[0])?;
        if matches!(self.place, Place::Extension { .. } | Place::Trailer { .. }) {
            self.extra += 1;
        }
        if self.extra > MOST_EXTRA { Err(InvalidChunk) } else { Ok(1) }
    }
}

impl Place {
    const SIZE: Self = Self::Size { size: 0, digits: 0 };

    /// Where we are behind one byte that is not data. Whatever others could understand in another way is refused.
    fn after(self, byte: u8) -> Result<Self, InvalidChunk> {
        Ok(match (self, byte) {
            (Self::Size { size, digits: 1.. } | Self::Space { size }, b' ' | b'\t') => {
                Self::Space { size }
            }
            (Self::Size { size, digits: 1.. } | Self::Space { size }, b';') => {
                Self::Extension { size }
            }
            (
                Self::Size { size, digits: 1.. } | Self::Space { size } | Self::Extension { size },
                b'\r',
            ) => Self::SizeBreak { size },
            (Self::Size { size, digits: digits @ ..LONGEST_SIZE }, digit) => {
                let digit = char::from(digit).to_digit(16).ok_or(InvalidChunk)?;
                Self::Size { size: size << 4 | u64::from(digit), digits: digits + 1 }
            }
            (Self::Extension { size }, byte) if byte != b'\n' => Self::Extension { size },
            (Self::SizeBreak { size: 0 } | Self::TrailerBreak { was_empty: false }, b'\n') => {
                Self::Trailer { is_empty: true }
            }
            (Self::SizeBreak { size }, b'\n') => Self::Data(size),
            (Self::DataEnd, b'\r') => Self::DataBreak,
            (Self::DataBreak, b'\n') => Self::SIZE,
            (Self::Trailer { is_empty }, b'\r') => Self::TrailerBreak { was_empty: is_empty },
            (Self::Trailer { .. }, byte) if byte != b'\n' => Self::Trailer { is_empty: false },
            (Self::TrailerBreak { was_empty: true }, b'\n') => Self::End,
            _ => return Err(InvalidChunk),
        })
    }
}

fn shorter(left: u64, available: usize) -> usize {
    usize::try_from(left).map_or(available, |left| left.min(available))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNKED: &[u8] =
        b"5\r\nhello\r\n1;x=y\r\n!\r\nA\r\n0123456789\r\n0\r\nTrailer: 1\r\n\r\nnext";

    fn read(mut body: Body, parts: &[&[u8]]) -> Result<(Vec<u8>, usize, bool), InvalidChunk> {
        let (mut content, mut taken) = (Vec::new(), 0);
        for part in parts {
            taken += body.advance(part, &mut |bytes| content.extend_from_slice(bytes))?;
        }
        Ok((content, taken, body.is_complete()))
    }

    #[test]
    fn the_end_of_a_chunked_body_is_found_wherever_it_is_cut() {
        let expected = (b"hello!0123456789".to_vec(), CHUNKED.len() - 4, true);
        for cut in 0..CHUNKED.len() {
            let (one, other) = CHUNKED.split_at(cut);
            assert_eq!(read(Body::CHUNKED, &[one, other]), Ok(expected.clone()), "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = CHUNKED.chunks(1).collect();
        assert_eq!(read(Body::CHUNKED, &bytes), Ok(expected));
    }

    #[test]
    fn a_body_with_a_length_takes_no_more_than_that() {
        assert_eq!(read(Body::Length(3), &[b"ab", b"cd"]), Ok((b"abc".to_vec(), 3, true)));
        assert_eq!(read(Body::Length(u64::MAX), &[b"ab"]), Ok((b"ab".to_vec(), 2, false)));
        assert_eq!(read(Body::UntilClose, &[b"ab"]), Ok((b"ab".to_vec(), 2, false)));
    }

    #[test]
    fn what_could_be_understood_in_another_way_is_refused() {
        let sizes =
            ["x\r\n", "\r\n", "-1\r\n", "00000000000000001\r\n", " 1\r\n", "1 1\r\n", ";\r\n"];
        let breaks = ["1\n", "1;x\n", "1\rx", "1\r\r\n", "1\r\nab", "1\r\na\n", "1\r\na\r\r\n"];
        let trailers = ["0\r\n\n", "0\r\nX: y\n", "0\r\nX: y\r\r\n", "0\r\n\rx"];
        for text in sizes.into_iter().chain(breaks).chain(trailers) {
            assert_eq!(read(Body::CHUNKED, &[text.as_bytes()]), Err(InvalidChunk), "{text:?}");
        }
        assert!(read(Body::CHUNKED, &[b"1 \t;x=y;\r\na\r\nB ;\r\n"]).is_ok());
    }

    #[test]
    fn what_is_no_data_has_an_end() {
        let most = usize::from(MOST_EXTRA);
        let long =
            [format!("1;{}", "x".repeat(most)), format!("0\r\n{}", "X: y\r\n".repeat(most / 4))];
        for text in long {
            assert_eq!(read(Body::CHUNKED, &[text.as_bytes()]), Err(InvalidChunk));
        }
    }
}
