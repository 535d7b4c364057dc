//! Owns all that a child process causes, and ends it with proof.
//!
//! An MCP server is a child process that starts others: wrappers, daemons, browsers. This library
//! starts one inside a [`fence`](Fence), through a small [`guardian`] process that is the parent of
//! all of them, and takes it down again in a way that needs neither a destructor nor a runtime nor
//! even its host: when the host is killed, the guardian still ends everything.
//!
//! ```no_run
//! use ostler::{Fence, InstanceId, Outcome, ServerSpec, ServerStdio, Step, Terms, guardian};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     guardian::run_if_asked();
//!
//!     let spec = ServerSpec {
//!         name: "everything".into(),
//!         program: "npx".into(),
//!         args: vec!["-y".into(), "@modelcontextprotocol/server-everything".into()],
//!         env: std::env::vars_os().collect(),
//!         cwd: None,
//!     };
//!     let (theirs, ours) = std::io::pipe()?;
//!     let stdio = ServerStdio {
//!         stdin: theirs.into(),
//!         stdout: std::io::stdout().as_fd().try_clone_to_owned()?,
//!         stderr: std::io::stderr().as_fd().try_clone_to_owned()?,
//!     };
//!     let fence = Fence::start(InstanceId::random()?, spec, stdio, &Terms::default())?;
//!     drop(ours);
//!     match fence.close(Step::Closing)? {
//!         Outcome::Gone(proof) => println!("gone: {proof:?}"),
//!         Outcome::Unverified(residue) => println!("left over: {residue}"),
//!     }
//!     Ok(())
//! }
//! # use std::os::fd::AsFd;
//! ```
#![warn(missing_docs)]

mod cgroup;
mod fence;
pub mod guardian;
mod id;
mod ladder;
mod level;
mod limits;
mod proctable;
mod signals;
mod spec;

pub use cgroup::NoLeaf;
pub use fence::{
    Descriptors, Event, Fence, GuardianProgram, Outcome, Proof, Refusal, Residue, ServerStdio,
    StartError, Terms,
};
pub use id::{INSTANCE_VARIABLE, InstanceId, InvalidInstanceId};
pub use ladder::{Climb, Ladder, Step};
pub use level::{Containment, Level, UnknownContainment};
pub use limits::Limits;
pub use proctable::Process;
pub use signals::Ignored;
pub use spec::ServerSpec;
