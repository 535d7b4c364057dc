//! Test support for ostler: a rude server, an oracle that finds what it left, and bystanders that must stay unhurt.
//!
//! # Theory of operation
//!
//! A [`Sandbox`] isolates one test: directories, a token in the environment, and a cgroup. Programs start inside that cgroup, and no
//! process leaves a cgroup by itself, so every descendant is found there, also if it detached or emptied its environment. The token
//! additionally finds processes that the code under test moved to other cgroups. [`Sandbox::survivors`] is the union of both.
//!
//! The `ostler-stub` binary is a server with every kind of rude behaviour; its `--help` lists them. [`Bystanders`] are copies of it that
//! do not belong to the test and must stay untouched.
//!
//! An [`Engine`] is a private container engine, whose remains are counted with the docker command; a [`FakeEngine`] misbehaves on demand.
//! [`Podman`] is podman with storage of one test, and optionally a service.
//!
//! [`hosts`] runs real agent hosts against a [`FakeModel`].
//!
//! A [`FakeHttp`] is a scripted HTTP server, such as a remote MCP server.
//!
//! Nothing here uses the `ostler` library: an oracle that shares code with what it judges would share its mistakes.
//!
//! Every wait has a bound, and dropping a sandbox ends what is left in it.
#![expect(
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "test support: a failure here is a failed test, and says where"
)]

mod ambient;
mod authority;
mod binary;
mod bystanders;
mod cgroup;
mod controllers;
mod dock;
mod docker;
mod engine;
mod fake_engine;
mod fake_http;
mod fake_issuer;
mod fake_model;
mod growth;
mod host;
pub mod hosts;
mod image;
mod keeper_host;
mod launched;
mod line_client;
pub mod measure;
mod pipes;
mod podman;
mod process;
mod puppet;
mod rows;
mod sandbox;
mod stage;
mod survivors;
mod system;
mod terminal;
mod token;
mod wait;
pub mod web;

pub use crate::authority::Authority;
pub use crate::binary::binary;
pub use crate::bystanders::Bystanders;
pub use crate::cgroup::Cgroup;
pub use crate::dock::Dock;
pub use crate::docker::{Docker, IMAGE};
pub use crate::engine::Engine;
pub use crate::fake_engine::{Act, Asked, FakeEngine};
pub use crate::fake_http::{Certificate, FakeHttp, FakeProxy, Heard, Part, Reply, get, standard};
pub use crate::fake_issuer::{FakeIssuer, Manners};
pub use crate::fake_model::{Afterwards, FakeModel, Turn};
pub use crate::growth::assert_linear;
pub use crate::host::Host;
pub use crate::image::box_archive;
pub use crate::keeper_host::KeeperHost;
pub use crate::launched::Launched;
pub use crate::line_client::LineClient;
pub use crate::podman::Podman;
pub use crate::process::{
    Process, cpu_ticks_of, fds_of, is_alive, pids_in, pss_of, rss_of, threads_of, zombies_of,
    zombies_of_any,
};
pub use crate::puppet::{Puppet, Puppets};
pub use crate::rows::{BEHAVIOURS, RUDE, STUBBORN, rounds};
pub use crate::sandbox::{Sandbox, User};
pub use crate::stage::Stage;
pub use crate::survivors::{Survivor, Survivors};
pub use crate::system::System;
pub use crate::terminal::Terminal;
pub use crate::token::{TOKEN_NAME, Token};
pub use crate::wait::{Outcome, wait_until};
