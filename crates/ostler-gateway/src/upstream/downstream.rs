//! A client, as the instances that it uses know it.

use std::fmt;

use bytes::Bytes;

use super::ServerRequest;
use crate::transport::Priority;

/// A client, as the instances that it uses know it.
pub(crate) trait Downstream: fmt::Debug + Send + Sync {
    /// Tells two clients apart.
    fn number(&self) -> u64;

    /// The capabilities that it has told in its handshake, as JSON; empty before that.
    fn capabilities(&self) -> Bytes;

    /// The least severe level that it wants to hear; 0 is all.
    fn log_level(&self) -> u8;

    /// Sends it a message that relates to its request with this id, or to the session as a whole.
    fn send(&self, line: Bytes, related: Option<&[u8]>, priority: Priority);

    /// Notes what a server asks it. Returns the number under which the client is asked.
    fn expect_answer(&self, asked: ServerRequest) -> u64;

    /// The server no longer wants to know what it has asked under this number. Returns whether it was not answered yet.
    fn withdraw_request(&self, number: u64) -> bool;

    /// The server works on the call with this id, so that the call may take longer.
    fn prolong(&self, id: &[u8]);
}
