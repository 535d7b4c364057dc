//! OAuth 2.1 logins to remote servers.
//!
//! [`log_in`] discovers the authorization server, sends the user's browser there and writes the tokens to the
//! [`Store`]. Conversations read their bearer token from the store through a `Keyring`, which refreshes it when it
//! expires.

mod callback;
mod challenge;
mod client;
mod discovery;
mod form;
mod grant;
mod keyring;
mod login;
mod secret;
mod store;

pub use client::{ClientSettings, PinnedIssuer};
pub use grant::NoGrant;
pub(super) use keyring::Keyring;
pub use login::{Browser, LoginError, LoginLimits, log_in, log_out};
pub use store::{Login, NoStore, Store};
