//! Errors, as people read them.

use std::error::Error;

/// The reason with all that caused it.
pub(crate) fn why(reason: &dyn Error) -> String {
    let mut text = reason.to_string();
    let mut cause = reason.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
