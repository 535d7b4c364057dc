//! What fuzz targets look at; no part of the API.

use std::ops::Range;

use bytes::Bytes;
use ostler::Frame;

pub use crate::front::http::fuzzing::Front;
use crate::message;
use crate::params::{self, Unclear};

/// Where a request says by which token it wants to hear of its progress, and whether it wants to be a task; or which
/// key of its parameters can be read in two ways: `params` itself if they are no object.
pub fn check(frame: &Frame) -> Result<(Option<Range<usize>>, bool), &'static str> {
    params::check(frame).map(|found| (found.token, found.has_task)).map_err(|unclear| match unclear
    {
        Unclear::Ambiguous(key) => key,
        Unclear::NotAnObject => "params",
    })
}

/// The bytes with these parts replaced, as a line.
pub fn splice(bytes: &[u8], edits: Vec<(Range<usize>, Bytes)>) -> Bytes {
    message::splice(bytes, edits)
}
