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
pub struct Chunks(Place);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In the line that says how long the chunk is; nothing of the number may have come.
    Size {
        size: u64,
        digits: u8,
    },
    /// In the rest of that line, which says nothing to us.
    Extension {
        size: u64,
    },
    Data(u64),
    /// Before the line break behind the data.
    Break,
    /// In a line behind the last chunk, with this many bytes so far. An empty one is the end.
    Trailer(u16),
    End,
}

/// A body that is not what its head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a chunk of the body has no valid size")]
pub struct InvalidChunk;

/// As many hexadecimal digits as a size may have.
const LONGEST_SIZE: u8 = 16;

impl Body {
    /// There is none.
    pub const NONE: Self = Self::Length(0);
    /// One in chunks, before the first of them.
    pub const CHUNKED: Self = Self::Chunked(Chunks(Place::START));

    /// Whether nothing more of it is to come.
    pub fn is_complete(self) -> bool {
        matches!(self, Self::Length(0) | Self::Chunked(Chunks(Place::End)))
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
            Self::Chunked(Chunks(place)) => {
                let mut taken = 0;
                while taken < bytes.len() && *place != Place::End {
                    taken += place.step(&bytes[taken..], see)?;
                }
                Ok(taken)
            }
        }
    }
}

impl Place {
    const START: Self = Self::Size { size: 0, digits: 0 };

    /// Takes at least one byte.
    fn step(&mut self, bytes: &[u8], see: &mut impl FnMut(&[u8])) -> Result<usize, InvalidChunk> {
        if let Self::Data(left) = self {
            let taken = shorter(*left, bytes.len());
            see(&bytes[..taken]);
            *left -= taken as u64;
            if *left == 0 {
                *self = Self::Break;
            }
            return Ok(taken);
        }
        *self = self.after(bytes[0])?;
        Ok(1)
    }

    /// Where we are behind one byte that is not data.
    fn after(self, byte: u8) -> Result<Self, InvalidChunk> {
        Ok(match (self, byte) {
            (Self::Size { digits: 0, .. }, b'\n' | b'\r' | b';' | b' ' | b'\t') => {
                return Err(InvalidChunk);
            }
            (Self::Size { size, .. } | Self::Extension { size }, b'\n') => match size {
                0 => Self::Trailer(0),
                _ => Self::Data(size),
            },
            (Self::Size { size, .. }, b'\r' | b';' | b' ' | b'\t') => Self::Extension { size },
            (Self::Size { digits: LONGEST_SIZE, .. }, _) => return Err(InvalidChunk),
            (Self::Size { size, digits }, digit) => {
                let digit = char::from(digit).to_digit(16).ok_or(InvalidChunk)?;
                Self::Size { size: size << 4 | u64::from(digit), digits: digits + 1 }
            }
            (Self::Break, b'\n') => Self::START,
            (Self::Break, b'\r') => Self::Break,
            (Self::Break, _) => return Err(InvalidChunk),
            (Self::Trailer(0), b'\n') => Self::End,
            (Self::Trailer(_), b'\n') => Self::Trailer(0),
            (Self::Trailer(length), b'\r') => Self::Trailer(length),
            (Self::Trailer(length), _) => Self::Trailer(length.saturating_add(1)),
            (state @ (Self::Extension { .. } | Self::Data(_) | Self::End), _) => state,
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
    fn what_is_no_size_is_refused() {
        for bytes in [&b"x\r\n"[..], b"\r\n", b"-1\r\n", b"00000000000000001\r\n", b"1\r\nab"] {
            assert_eq!(read(Body::CHUNKED, &[bytes]), Err(InvalidChunk), "{bytes:?}");
        }
    }
}
