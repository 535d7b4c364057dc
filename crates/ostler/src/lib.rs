//! Runs MCP servers as child processes and ends each with everything it started, with proof.
//!
//! An MCP server starts further processes: wrappers, daemons, browsers. An [`Owner`] starts a server
//! as an [`Instance`] through a small [`guardian`] process, which is the ancestor of all of them and
//! adopts orphans. Teardown needs no destructor, no runtime and not even the host: if the host is
//! killed, the guardian still ends everything; if both are killed, the [`ledger`] tells the next owner
//! what to [`sweep`].
//!
//! A host with many servers and many callers uses a [`keeper`], which decides when instances start and
//! stop and which callers share them: see the [`guide`]. The example below uses the layer beneath it,
//! which needs no runtime.
//!
//! ```standalone_crate
//! use std::io::{BufRead, BufReader, Write};
//!
//! use ostler::{Outcome, Owner, Places, ServerSpec, ServerStdio, Step, Terms, guardian};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     guardian::run_if_asked();
//!
//!     let owner = Owner::new(Places::of_user(), "my host")?;
//!     let spec = ServerSpec {
//!         name: "echo".into(),
//!         program: "cat".into(),
//!         args: Vec::new(),
//!         env: std::env::vars_os().collect(),
//!         cwd: None,
//!     };
//!     let (stdio, mut pipe) = ServerStdio::piped()?;
//!     let instance = owner.start(spec, stdio, &Terms::default())?;
//!
//!     writeln!(pipe.stdin, "hello")?;
//!     let mut answer = String::new();
//!     BufReader::new(&pipe.stdout).read_line(&mut answer)?;
//!     assert_eq!(answer, "hello\n");
//!
//!     drop(pipe.stdin);
//!     match instance.close(Step::Closing)? {
//!         Outcome::Gone(proof) => println!("gone: {proof:?}"),
//!         Outcome::Unverified(residue) => panic!("left over: {residue}"),
//!     }
//!     Ok(())
//! }
//! ```
//!
//! # Features
//! - `engine` (default): servers may use container engines, and ostler removes their containers with them. Without it,
//!   servers must be started with [`Engine::Off`].
//! - `keeper` (default): the [`keeper`], on tokio.
//!
//! Without both features the library does not depend on tokio, hyper or rustls.
#![warn(missing_docs)]

/// The backend contract in `tests/contract` uses the public paths of this crate, and the unit tests include it.
#[cfg(all(test, feature = "keeper"))]
extern crate self as ostler;

#[cfg(feature = "keeper")]
pub mod backend;
#[cfg(feature = "engine")]
mod census;
mod cgroup;
mod containers;
#[cfg(feature = "engine")]
mod door;
pub mod duration;
#[cfg(feature = "engine")]
mod engine;
mod event;
mod evidence;
mod fence;
#[cfg(feature = "keeper")]
mod fingerprint;
#[cfg(feature = "engine")]
pub mod foreign;
#[cfg(feature = "keeper")]
mod frame;
mod graveyard;
pub mod guardian;
mod guardians;
#[cfg(feature = "keeper")]
#[doc = include_str!("../docs/embed.md")]
pub mod guide {}
#[cfg(any(feature = "engine", feature = "keeper"))]
pub mod http;
mod id;
mod identity;
mod instance;
#[cfg(feature = "keeper")]
pub mod json;
#[cfg(feature = "keeper")]
pub mod keeper;
mod ladder;
pub mod ledger;
mod level;
mod limits;
pub mod logs;
pub mod mask;
mod notes;
mod notice;
mod outcome;
#[cfg(feature = "keeper")]
pub mod pipe;
mod places;
#[cfg(feature = "engine")]
mod podman;
mod poll;
#[cfg(feature = "engine")]
mod porter;
mod process;
mod proctable;
mod records;
mod remains;
mod resources;
mod roles;
mod shelf;
mod signals;
mod snapshot;
mod spec;
pub mod sweep;
mod terms;
mod tree;
pub mod visible;
mod ways;
mod whereabouts;
mod wire;

#[cfg(feature = "keeper")]
pub use backend::{Backend, Backends, Processes};
#[cfg(feature = "engine")]
pub use census::{Census, Holding};
pub use cgroup::{NoControl, NoLeaf, leaf_here};
pub use containers::{
    ContainerView, Endpoint, Engine, EngineResidue, EngineState, InvalidEndpoint, LeftContainer,
    LeftExec, NoEndpoint, RemovedContainer, Tls, UnknownEngine, Unreachable,
};
pub use event::Event;
pub use evidence::{Evidence, Fields, Part, Role, Traces};
pub use fence::{Leaving, Pipe, ServerStdio, StartError};
#[cfg(feature = "keeper")]
pub use frame::{CallId, Frame, InvalidFrame, Kind};
pub use guardians::instances_around;
pub use id::{INSTANCE_VARIABLE, InstanceId, InvalidId, OwnerId};
pub use identity::{Identity, Process};
pub use instance::{Instance, Owner};
pub use ladder::{Climb, Ladder, Step};
pub use level::{Containment, Level, UnknownContainment};
pub use limits::Limits;
pub use outcome::{Outcome, Proof, Refusal, Residue};
pub use places::{Places, RUNTIME_VARIABLE};
pub use resources::{Bytes, Cpus, Excess, InvalidResource, Resources};
pub use signals::Ignored;
pub use snapshot::{Branch, State, View, snapshot};
pub use spec::ServerSpec;
pub use terms::{Descriptors, GuardianProgram, Terms};
pub use tree::{TreeEnd, end_tree};
pub use whereabouts::Whereabouts;
