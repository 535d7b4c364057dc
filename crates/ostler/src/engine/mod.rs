//! Container engines: finds the engine of a server, and removes what the engine holds of an instance, with proof.
//!
//! # Theory of operation
//!
//! The engine is the parent of every container, so killing our own process tree does not end one. Everything that a
//! server creates carries [labels](label) from the start. ostler removes a container only if its instance label matches
//! exactly, never by name. A container also inherits the labels of its image, so before a removal ostler
//! [proves](proof) that a create has set the label. The response to a single removal proves nothing: an engine reports
//! "no such container" for one that it still lists, and it carries out a create whose client has died. Only two empty
//! lists in a row, with no create pending, prove that the engine holds nothing of the instance.
//! [`clear()`](clear::clear) repeats until then.

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
mod responses;
pub(crate) mod stream;

pub(crate) use client::Client;
pub(crate) use invocation::Tool;
pub(crate) use responses::{ContainerDetails, ImageDetails, ListedContainer};

#[cfg(test)]
mod tests;
