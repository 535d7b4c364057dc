//! What a configuration can ask for and can't have yet: the one place that says so.
//!
//! It is refused, so that nobody relies on it. Whoever builds one of these takes its line out.

use super::form::ServerForm;
use super::reader::{At, Reader};
use super::words::Era;

/// Refuses what a server can't have yet.
pub(super) fn server(form: &ServerForm, reader: &mut Reader<'_>) {
    if let Some(At { value: Era::Modern, range, .. }) = &form.era {
        reader.wrong_word(*range, "this generation of the protocol is not supported yet");
    }
}
