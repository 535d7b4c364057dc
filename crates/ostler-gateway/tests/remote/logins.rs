//! Logins.
