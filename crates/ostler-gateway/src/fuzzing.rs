//! Entry points for fuzz targets; no part of the API.

use std::ops::Range;

use bytes::Bytes;
use ostler::Frame;

pub use crate::front::http::fuzzing::{End, Front, Reading, Request, read_all};
use crate::protocol::params::{self, Unclear};
use crate::protocol::{batch, message, version};

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

/// Where a parameter of a message is, if every parser finds it there.
pub fn param(frame: &Frame, path: &[&str]) -> Option<Range<usize>> {
    message::param(frame, path)
}

/// A parameter that is a text.
pub fn text_param(frame: &Frame, path: &[&str]) -> Option<String> {
    message::text_param(frame, path)
}

/// The same without one member of the object under `path`.
pub fn without(bytes: Bytes, path: &[&str], name: &str) -> Bytes {
    message::without(bytes, path, name)
}

/// The form of an id under which its answer is waited for.
pub fn same_id(id: Bytes) -> Bytes {
    message::same_id(id)
}

/// The messages of a batch, if it is accepted.
pub fn batch(line: &Bytes) -> Option<Vec<Frame>> {
    batch::parse(line, version::WITH_BATCHES).ok()
}
