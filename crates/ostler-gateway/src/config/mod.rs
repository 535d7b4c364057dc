//! The configuration file: which servers exist, and how ostler runs and shares them.
//!
//! [`Search`] finds the file and [`load`] reads it. Reading has three steps: `Reader` walks the JSON syntax tree and
//! collects problems, the structs in `form` list the known keys, and `settle` checks how they fit together and builds
//! the `File`. [`resolve`] then fills in the templates of an entry for one client, with that client's environment and
//! working directory, and returns the `Server` that a keeper starts.
//!
//! A file is accepted as a whole or not at all, and all its problems are reported together. An environment variable
//! that is not set disables only the server that names it.
//!
//! Values may hold secrets. So no error, notice or `Debug` output contains a value, except for settings that are never
//! secret.

mod ambient;
mod client_times;
mod clients;
mod describe;
mod doubts;
mod entry;
mod env_file;
mod excerpt;
mod find;
mod form;
mod maps;
mod problem;
mod reader;
mod remote;
mod resolve;
mod schema;
mod settle;
mod source;
mod stateful;
mod template;
mod tokens;
mod unbuilt;
mod values;
mod words;

#[cfg(test)]
mod tests;

use std::path::Path;

use jsonc_parser::common::Range;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

pub use crate::environment::{DEFAULTS, Environment, Inheritance, Names, OWN};
pub use crate::remote::Carrier;
pub use describe::{Description, describe};
pub use doubts::token_warnings;
pub use entry::{File, Launch, OAuth, PinnedIssuer, Reach, Remote, ServerEntry, Tools};
pub use env_file::EnvFileError;
pub use find::{Asker, NotFound, Search};
pub(crate) use ostler::mask::masked_line;
pub use ostler::mask::{exposed_secrets, masked_command};
pub use problem::{Problem, Problems};
pub use remote::resolve_remote;
pub use resolve::{Disabled, Identity, Resolved, resolve};
pub use schema::schema;
pub use source::Unreadable;
pub use template::{InvalidTemplate, Template};
pub use tokens::{TokenEntry, UnusableToken};
pub use words::{Engine, Era, Hold, Share, Transport};

use form::FileForm;
pub use reader::nearest;
use reader::{Reader, Setting};

/// Largest accepted file, in bytes.
const MAX_SIZE: u64 = 4 << 20;

/// Why a configuration can't be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file can't be read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// The file contains errors.
    #[error(transparent)]
    Invalid(#[from] Problems),
}

/// Loads the configuration from a file.
pub fn load(path: &Path) -> Result<File, LoadError> {
    Ok(parse(&source::read(path, MAX_SIZE)?, path)?)
}

/// Parses a configuration; `path` is its file, for messages and relative paths.
pub fn parse(text: &str, path: &Path) -> Result<File, Problems> {
    let mut reader = Reader::new(text);
    let file = read(text, path, &mut reader);
    let Reader { mut problems, more, notices, .. } = reader;
    if let (Some(file), true) = (file, problems.is_empty()) {
        return Ok(File { notices, ..file });
    }
    problems.sort_by_key(|problem| (problem.line, problem.column));
    Err(Problems { file: path.display().to_string(), list: problems, more })
}

/// Parses the text and collects problems in `reader`. `None` if the text is no JSON object.
fn read(text: &str, path: &Path, reader: &mut Reader<'_>) -> Option<File> {
    let parsed = match parse_to_ast(text, &CollectOptions::default(), &json_with_comments()) {
        Ok(parsed) => parsed,
        Err(error) => {
            reader.wrong(error.range(), &sentence(&error.kind().to_string()));
            return None;
        }
    };
    let Some(value) = parsed.value else {
        reader.wrong(Range::new(0, 0), "there is nothing in it");
        return None;
    };
    let form = FileForm::read(&value, reader)?;
    let directory = path.parent().unwrap_or(Path::new("/"));
    Some(settle::file(form, directory, reader))
}

/// Accepts JSON with comments and trailing commas, and no other extension.
fn json_with_comments() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

/// Converts the first letter of a parser message to lower case, as in ostler's own messages.
fn sentence(message: &str) -> String {
    let mut characters = message.chars();
    let first = characters.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(characters).collect()
}
