//! The porter: who serves a server's [Doors](crate::door), and removes what came of them.
//!
//! # Theory of operation
//!
//! The guardian holds the Doors' sockets and does nothing about them until somebody knocks: most
//! servers never ask for a container. Then it spawns its own binary again in this role, and hands over
//! the listening sockets. The porter has a runtime, which the guardian has not, and is the guardian's
//! child, which is no part of the server's estate.
//!
//! It serves until it is told to clear. From then on it lets nothing be created or started, and removes
//! what there is until the engine has nothing of the instance. A porter that is killed is replaced. If
//! its guardian is gone it clears by itself and leaves: for the end of what the server causes it needs
//! nobody. What it could not remove stays on record in the [note](crate::door::note).

mod clearing;
mod moods;
mod role;

pub(crate) use role::run;
