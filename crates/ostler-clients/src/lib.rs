//! Configuration files of MCP clients: where they are, what they mean, and edits that keep the rest.
//!
//! `clients` knows the clients, `format` edits files without touching what does not change, `entry` reads and rewrites
//! entries, `takeover` brings servers into ostler.json ([`Configuration`]), and `link` puts ostler into a client's files and takes it
//! out again. Everything is planned before anything is written, so that a command can show it first.
//!
//! Files of clients hold secrets: no error, `Debug` output or preview contains a value of theirs.

mod advice;
mod clients;
mod configuration;
mod diff;
mod docker;
mod entry;
mod files;
mod format;
mod inventory;
mod link;
mod own;
mod program;
mod server;
mod source;
mod splice;
mod survey;
mod takeover;
mod tree;
mod value;
mod variables;

pub use advice::{Advice, advice};
pub use clients::{
    Base, CLIENTS, Client, ClientFile, CommandShape, Fixed, Machine, NoHome, Os, Scope, Section,
    Shape, Variables,
};
pub use configuration::{Check, Configuration, ConfigurationError, Taking};
pub use diff::{Mask, preview};
pub use entry::{Found, Taken, Unusable};
pub use files::{Document, FileError};
pub use format::{Edit, EditError, Format, SyntaxError};
pub use inventory::Listed;
pub use link::{
    Action, ApplyError, Backups, LinkError, Mode, Plan, Request, Step, Undo, plan, plan_undo,
};
pub use own::Own;
pub use program::{NotLasting, lasting};
pub use server::{Fingerprint, Server, Target};
pub use source::SourceError;
pub use survey::{Counts, State, Survey, SurveyedFile, survey};
pub use takeover::{Import, Outcome, Source, import};
pub use value::Value;
pub use variables::Foreign;
