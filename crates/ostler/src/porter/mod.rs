//! The porter: the process that serves a server's [Doors](crate::door) and removes the server's containers.
//!
//! # Theory of operation
//!
//! Most servers never use a container engine, so the guardian only polls the Doors' listening sockets. At the first
//! connection it spawns its own binary again in this role and passes the sockets on. The porter has an async runtime,
//! which the guardian must not have. It is a child of the guardian, but not part of the server's process tree.
//!
//! The porter serves until it receives the order to clear. From then on it denies creates and starts, and removes
//! containers until the engine holds nothing of the instance. If it is killed, the guardian starts another one. If the
//! guardian dies, the porter clears on its own and exits. What it could not remove stays recorded in the
//! [note](crate::door::note) for the next sweep.

mod clearing;
mod engine_states;
mod role;

pub(crate) use role::run;
