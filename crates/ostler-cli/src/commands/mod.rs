//! One module per command.

pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod man;
pub(crate) mod run;
