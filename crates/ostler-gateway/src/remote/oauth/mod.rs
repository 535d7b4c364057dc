//! Logging in to remote servers: OAuth 2.1, for somebody with a browser.
//!
//! [`log_in`] finds out whom a server trusts, sends the user there and keeps what comes back in the [`Store`]; a
//! conversation takes its key from there by a `Keyring`, which fetches a new one when the old one is of no use.

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
