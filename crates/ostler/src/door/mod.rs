//! The Door: the engine's socket as a server sees it.
//!
//! # Theory of operation
//!
//! A container's parent is the engine, so that no process tree shows who wanted it. The Door is a
//! socket of the server's own in `DOCKER_HOST`, and everything that reaches the engine through it is
//! known to be this server's doing. It passes bytes on as they are. Only where something is created
//! it reads the body and adds labels, by which it is found and removed later; takes out restart
//! policies, which would revive it; and puts itself in the place of the engine's socket where a
//! container asks for that.
//!
//! An engine goes on with a create whose client has died. So the Door counts creates until they are
//! answered, holds its own end open for that, and says in a [`note`] beside the ledger how many there
//! are. "Nothing is left" can be said when none is under way.

mod binds;
mod body;
mod connection;
mod denial;
mod edit;
mod head;
mod json;
pub(crate) mod note;
mod relay;
mod route;
mod stream;
#[cfg(test)]
mod tests;
mod traffic;

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use binds::Sockets;
use connection::Connection;
use denial::{After, Denial};
use traffic::{Flight, Traffic};

use crate::engine::Endpoint;
use crate::engine::label::Labels;
use crate::engine::stream::open;

/// How many connections a server may have at a time.
const MOST_CONNECTIONS: usize = 256;
/// Before the next try if none can be accepted, as for want of descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// How long an engine that can't be asked any more may go on with a create.
const LATE_CREATE: Duration = Duration::from_mins(1);

/// One server's way to its engine.
#[derive(Debug)]
pub(crate) struct Door {
    labels: Labels,
    endpoint: Endpoint,
    /// For an engine whose socket is a path of this machine.
    sockets: Option<Sockets>,
    traffic: Rc<Traffic>,
}

impl Door {
    /// Of the server that `labels` name. `socket` is where it listens; `book` the directory of the
    /// owner's ledger.
    pub(crate) fn new(labels: Labels, endpoint: Endpoint, socket: &Path, book: PathBuf) -> Self {
        let sockets = match &endpoint {
            Endpoint::Unix(path) => Some(Sockets::new(path, socket)),
            Endpoint::Tcp { .. } | Endpoint::Ssh(_) => None,
        };
        let traffic = Rc::new(Traffic::new(book, labels.instance, endpoint.clone()));
        Self { labels, endpoint, sockets, traffic }
    }

    /// Serves whoever comes. Never returns; every connection ends with this future.
    pub(crate) async fn serve(self: Rc<Self>, listener: UnixListener) {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((client, _)) if connections.len() < MOST_CONNECTIONS => {
                        connections.spawn_local(Rc::clone(&self).admit(client));
                    }
                    Ok((client, _)) => turn_away(client).await,
                    Err(_) => tokio::time::sleep(ACCEPT_RETRY).await,
                },
                Some(_) = connections.join_next() => {}
            }
        }
    }

    /// Refuses to create or start anything from now on.
    pub(crate) fn close(&self) {
        self.traffic.close();
    }

    /// How many creates the engine has not answered.
    pub(crate) fn creates(&self) -> watch::Receiver<usize> {
        self.traffic.creates()
    }

    /// Processes that may run in containers that are not ours.
    pub(crate) fn execs(&self) -> Vec<String> {
        self.traffic.execs()
    }

    async fn admit(self: Rc<Self>, client: UnixStream) {
        // Without an engine the client is left with an end of file, and says so in its own words.
        if let Ok(engine) = open(&self.endpoint).await {
            // Whatever broke it, the client sees its end.
            let _ = Connection::new(self, client, engine).serve().await;
        }
    }

    fn is_local(&self) -> bool {
        self.sockets.is_some()
    }

    /// Nobody will say what became of this create: it counts for as long as it may take.
    fn lose(flight: Flight) {
        tokio::task::spawn_local(async move {
            tokio::time::sleep(LATE_CREATE).await;
            flight.land();
        });
    }
}

async fn turn_away(mut client: UnixStream) {
    // Its buffer is empty, so that this never waits.
    let _ = client.write_all(&Denial::crowded().bytes(After::Close)).await;
}
