//! Words to people on stderr.

use std::fmt::Display;
use std::io::Write;

/// One line on stderr. Nobody may be listening any more, which is no reason to fail.
pub(crate) fn say(message: impl Display) {
    let _ = writeln!(std::io::stderr(), "ostler: {message}");
}

/// An error with all that caused it, on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
