//! MCP gateway: many clients share one pool of server instances.
#![warn(missing_docs)]

pub mod admin;
mod agents;
mod catalog;
mod client;
pub mod config;
mod environment;
mod event_log;
mod failure;
mod file_lock;
pub mod front;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod gateway;
mod mutex;
mod protocol;
mod quota;
mod reason;
pub mod remote;
mod route;
mod router;
mod server_logs;
mod server_set;
mod session;
mod storage;
mod token;
mod tools;
mod transport;
pub mod trial;
mod upstream;
pub mod variant;

pub use agents::{Agent, Origin};
pub use gateway::{AdmissionError, Gateway, ReloadError, ServerSource};
pub use quota::QuotaLimits;
pub use route::Route;
pub use router::{Router, SessionSpec, SessionView};
pub use server_set::{AvailableServer, AvailableServers, ServerSet, Unavailable};
pub use session::{LIST_LIMITS, ListLimit, SessionLimits};
pub use storage::Storage;
pub use tools::Tools;
