//! Values about containers: choice and address of an engine, our labels, and what an engine still holds.
//!
//! Nothing here talks to an engine. Guardians, ledgers and owners carry these values, also in a program that was built
//! without the feature `engine`.

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
pub use ways::{EngineDoor, Ways};
