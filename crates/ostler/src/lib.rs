//! Owns all that a child process causes, and ends it with proof.
//!
//! An MCP server is a child process that starts others: wrappers, daemons, browsers. An [`Owner`]
//! starts one as an [`Instance`], through a small [`guardian`] process that is the parent of all of
//! them, and takes it down again in a way that needs neither a destructor nor a runtime nor even its
//! host: when the host is killed, the guardian still ends everything; when both are killed, the
//! [`ledger`] tells the next owner what to [`sweep`].
//!
//! Whoever has many servers and many callers lets a [`keeper`] decide when instances start and end, and
//! who shares them: see the [`guide`]. What follows is the layer below, which needs no runtime.
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
//! - `engine` (default): servers may use container engines, and their containers end with them. Without it a server can
//!   only be started with [`Engine::Off`].
//! - `keeper` (default): the [`keeper`], on tokio.
//!
//! Without both the library compiles no tokio, hyper or rustls.
#![warn(missing_docs)]

/// The contract of backends is written as a host would write it, and also played inside.
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
pub use evidence::{Evidence, Traces};
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
pub use snapshot::{State, View, snapshot};
pub use spec::ServerSpec;
pub use terms::{Descriptors, GuardianProgram, Terms};
pub use tree::{TreeEnd, end_tree};
pub use whereabouts::Whereabouts;
