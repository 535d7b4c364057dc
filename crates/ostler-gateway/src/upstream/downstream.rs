//! The interface of a client to the instances that it uses.

use std::fmt;

use bytes::Bytes;

use super::ServerRequest;
use crate::transport::Priority;

/// A client, as the instances that it uses see it.
pub(crate) trait Downstream: fmt::Debug + Send + Sync {
    /// Unique number of the client.
    fn number(&self) -> u64;

    /// Capabilities from the client's handshake, as JSON; empty before it.
    fn capabilities(&self) -> Bytes;

    /// Least severe log level that the client wants; 0 is all.
    fn log_level(&self) -> u8;

    /// Sends the client a message that relates to its request with this id, or to the session as a whole.
    fn send(&self, line: Bytes, related: Option<&[u8]>, priority: Priority);

    /// Stores a server request. Returns the id under which the client gets it.
    fn expect_answer(&self, asked: ServerRequest) -> u64;

    /// Removes the server request with this id, which the server has cancelled. Returns whether it was still open.
    fn withdraw_request(&self, number: u64) -> bool;

    /// Extends the deadline of the call with this id, because the server reports progress.
    fn prolong(&self, id: &[u8]);
}
