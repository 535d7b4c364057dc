//! What fuzz targets look at; no part of the API.

use std::ops::Range;

use bytes::Bytes;
use ostler::Frame;

pub use crate::front::http::fuzzing::Front;
use crate::message;

/// Where a request says by which token it wants to hear of its progress.
pub fn progress_token(frame: &Frame) -> Option<Range<usize>> {
    message::progress_token(frame)
}

/// The bytes with these parts replaced, as a line.
pub fn splice(bytes: &[u8], edits: Vec<(Range<usize>, Bytes)>) -> Bytes {
    message::splice(bytes, edits)
}
