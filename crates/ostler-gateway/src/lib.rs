//! Many clients, many servers: one pool of instances for all of them.
#![warn(missing_docs)]

pub mod admin;
mod agents;
mod batch;
mod batches;
mod catalog;
mod chronicle;
mod claims;
mod client;
pub mod config;
pub mod front;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod gateway;
mod hello;
mod house;
mod hub;
mod in_flight;
mod listing;
mod log_level;
mod menu;
mod message;
mod names;
mod params;
mod pending;
mod quota;
pub mod remote;
mod roster;
mod session;
mod tasks;
mod tend;
mod terms;
mod tools;
mod transport;
mod upstream;
mod uris;
pub mod variant;
mod version;

pub use agents::{Agent, Origin};
pub use gateway::{Gateway, Offer, SessionView, Visitor};
pub use house::{House, NotWelcome, ReloadError};
pub use menu::{Menu, Offers};
pub use quota::QuotaLimits;
pub use roster::Supply;
pub use session::{LIST_LIMITS, ListLimit, Route};
pub use tools::Tools;
