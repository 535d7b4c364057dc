//! One module per command.

pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod man;
pub(crate) mod ps;
pub(crate) mod reap;
pub(crate) mod run;
pub(crate) mod stop;
pub(crate) mod why;
