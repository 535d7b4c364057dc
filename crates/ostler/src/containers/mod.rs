//! Values about containers: which engine is meant and where it listens, the labels of what an
//! instance causes, and what an engine may still have of it.
//!
//! Nothing here asks an engine. Guardians, ledgers and owners carry these values, also in a program that was built
//! without the [engine part](crate::engine).

mod choice;
mod endpoint;
mod label;
mod left;
mod ways;

pub use choice::{Engine, UnknownEngine};
pub use endpoint::{Endpoint, InvalidEndpoint, NoEndpoint, Tls};
pub(crate) use label::Labels;
pub use left::{
    ContainerView, EngineResidue, EngineState, LeftContainer, LeftExec, RemovedContainer,
    Unreachable,
};
pub use ways::{Passage, Ways};
