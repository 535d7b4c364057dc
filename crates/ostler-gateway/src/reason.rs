//! Error messages with their causes.

use std::error::Error;

/// Text of an error, followed by the texts of all its sources.
pub(crate) fn why(reason: &dyn Error) -> String {
    let mut text = reason.to_string();
    let mut cause = reason.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
