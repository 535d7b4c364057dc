//! Entry points for fuzz targets; not part of the API.

use std::ops::Range;

use bytes::Bytes;
use ostler::Frame;

pub use crate::front::http::fuzzing::{End, Front, Reading, Request, read_all};
use crate::protocol::params::{self, Unclear};
use crate::protocol::{batch, message, version};

/// Range of the progress token of a request, and whether it asks to be run as a task. The error is the key that is
/// ambiguous, or `params` if the parameters are no object.
pub fn check(frame: &Frame) -> Result<(Option<Range<usize>>, bool), &'static str> {
    params::check(frame).map(|found| (found.token, found.has_task)).map_err(|unclear| match unclear
    {
        Unclear::Ambiguous(key) => key,
        Unclear::NotAnObject => "params",
    })
}

/// Replaces these ranges and appends a line end.
pub fn splice(bytes: &[u8], edits: Vec<(Range<usize>, Bytes)>) -> Bytes {
    message::splice(bytes, edits)
}

/// Range of a parameter of a message, if every parser finds it there.
pub fn param(frame: &Frame, path: &[&str]) -> Option<Range<usize>> {
    message::param(frame, path)
}

/// Parameter that is a string.
pub fn text_param(frame: &Frame, path: &[&str]) -> Option<String> {
    message::text_param(frame, path)
}

/// Removes one member of the object under `path`.
pub fn without(bytes: Bytes, path: &[&str], name: &str) -> Bytes {
    message::without(bytes, path, name)
}

/// Normal form of an id, under which its response is awaited.
pub fn same_id(id: Bytes) -> Bytes {
    message::same_id(id)
}

/// Messages of a batch, if it is accepted.
pub fn batch(line: &Bytes) -> Option<Vec<Frame>> {
    batch::parse(line, version::WITH_BATCHES).ok()
}
