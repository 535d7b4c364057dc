//! Many clients, many servers: one pool of instances for all of them.
#![warn(missing_docs)]

pub mod admin;
mod agents;
mod catalog;
mod chronicle;
mod client;
pub mod config;
mod environment;
mod file_lock;
pub mod front;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod gateway;
mod house;
mod menu;
mod mutex;
mod protocol;
mod quota;
mod reason;
pub mod remote;
mod route;
mod session;
mod token;
mod tools;
mod transport;
mod upstream;
pub mod variant;

pub use agents::{Agent, Origin};
pub use gateway::{Gateway, SessionView, Visitor};
pub use house::{House, NotWelcome, ReloadError, Supply};
pub use menu::{Menu, Offer, Offers};
pub use quota::QuotaLimits;
pub use route::Route;
pub use session::{LIST_LIMITS, ListLimit, SessionLimits};
pub use tools::Tools;
