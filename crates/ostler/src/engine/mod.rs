//! Container engines: where the one of a server is, what it holds of ours, and how that is removed
//! with proof.
//!
//! # Theory of operation
//!
//! A container's parent is the engine, so that no process of ours can end it by ending its own
//! children. What a server causes carries [labels](label) from its creation on, and is removed by the
//! exact match of one of them, never by name. A container also gets the labels of its image, so before it is removed it
//! is [proven](proof) that a create has put them there. The engine's word on a single removal proves
//! nothing: it answers "no such container" for one that it still lists, and a create whose client
//! has died goes on. Only an engine that lists nothing of ours, twice, with no create in flight,
//! has nothing of ours. [`clear()`](clear::clear) asks until it says so.

mod answers;
pub(crate) mod argv;
pub(crate) mod call;
pub(crate) mod claim;
pub(crate) mod clear;
mod client;
pub(crate) mod exec;
mod flags;
pub(crate) mod image_command;
pub(crate) mod instruction;
mod invocation;
pub(crate) mod label;
pub(crate) mod lead;
pub(crate) mod proof;
mod resolve;
pub(crate) mod stream;

pub(crate) use answers::{Details, Image, Listed};
pub(crate) use client::Client;
pub(crate) use invocation::Tool;

#[cfg(test)]
mod tests;
