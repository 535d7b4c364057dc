//! Incremental parser that finds the end of a body.
//!
//! A relay passes a body on unchanged and only needs to know where it ends. [`Body::advance`] takes the received bytes,
//! in pieces of any size, and returns how many of them belong to the body.

/// Framing of a body, and the position within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// This many bytes remain.
    Length(u64),
    /// Chunked transfer encoding.
    Chunked(Chunks),
    /// Everything until the peer closes the connection.
    UntilClose,
}

/// Position within a chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunks {
    state: ChunkState,
    /// Bytes of extensions and trailers so far.
    extra: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkState {
    /// In the size of a chunk, after this many digits.
    Size {
        size: u64,
        digits: u8,
    },
    /// In white space after the size.
    Space {
        size: u64,
    },
    /// In a chunk extension, which is ignored.
    Extension {
        size: u64,
    },
    /// After the `\r` of the size line.
    SizeBreak {
        size: u64,
    },
    Data(u64),
    /// After the data, before its `\r\n`.
    DataEnd,
    DataBreak,
    /// In a trailer line; an empty one ends the body.
    Trailer {
        is_empty: bool,
    },
    TrailerBreak {
        was_empty: bool,
    },
    End,
}

/// The chunked encoding of a body is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the chunked body is invalid")]
pub struct InvalidChunk;

/// Most hexadecimal digits of a chunk size.
const LONGEST_SIZE: u8 = 16;
/// Most bytes of extensions and trailers in one body.
const MOST_EXTRA: u16 = 16 << 10;

impl Body {
    /// No body.
    pub const NONE: Self = Self::Length(0);
    /// A chunked body, at its start.
    pub const CHUNKED: Self = Self::Chunked(Chunks::START);

    /// Whether its end was reached.
    pub fn is_complete(self) -> bool {
        matches!(self, Self::Length(0) | Self::Chunked(Chunks { state: ChunkState::End, .. }))
    }

    /// Consumes the part of `bytes` that belongs to the body and returns its length. Calls `see` on the
    /// content within it.
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
                while taken < bytes.len() && chunks.state != ChunkState::End {
                    taken += chunks.step(&bytes[taken..], see)?;
                }
                Ok(taken)
            }
        }
    }
}

impl Chunks {
    const START: Self = Self { state: ChunkState::SIZE, extra: 0 };

    /// Consumes at least one byte.
    fn step(&mut self, bytes: &[u8], see: &mut impl FnMut(&[u8])) -> Result<usize, InvalidChunk> {
        if let ChunkState::Data(left) = &mut self.state {
            let taken = shorter(*left, bytes.len());
            see(&bytes[..taken]);
            *left -= taken as u64;
            if *left == 0 {
                self.state = ChunkState::DataEnd;
            }
            return Ok(taken);
        }
        self.state = self.state.next(bytes[0])?;
        if matches!(self.state, ChunkState::Extension { .. } | ChunkState::Trailer { .. }) {
            self.extra += 1;
        }
        if self.extra > MOST_EXTRA { Err(InvalidChunk) } else { Ok(1) }
    }
}

impl ChunkState {
    const SIZE: Self = Self::Size { size: 0, digits: 0 };

    /// The state after one byte that is not data. Refuses everything that another implementation could read differently.
    fn next(self, byte: u8) -> Result<Self, InvalidChunk> {
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
    fn ambiguous_chunks_are_refused() {
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
    fn extensions_and_trailers_are_limited() {
        let most = usize::from(MOST_EXTRA);
        let long =
            [format!("1;{}", "x".repeat(most)), format!("0\r\n{}", "X: y\r\n".repeat(most / 4))];
        for text in long {
            assert_eq!(read(Body::CHUNKED, &[text.as_bytes()]), Err(InvalidChunk));
        }
    }
}
