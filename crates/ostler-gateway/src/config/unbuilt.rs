//! Settings that are defined, but not implemented yet.
//!
//! They are errors, so that no configuration relies on them. Implementing one means removing its check here.

use super::form::ServerForm;
use super::reader::{At, Reader};
use super::words::Era;

/// Reports settings of a server that are not implemented.
pub(super) fn server(form: &ServerForm, reader: &mut Reader<'_>) {
    if let Some(At { value: Era::Modern, range, .. }) = &form.era {
        reader.wrong_word(*range, "this generation of the protocol is not supported yet");
    }
}
