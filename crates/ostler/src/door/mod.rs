//! The Door: the engine's socket as a server sees it.
//!
//! # Theory of operation
//!
//! A container's parent is the engine, so that no process tree shows who wanted it. The Door is a
//! socket of the server's own in `DOCKER_HOST` or `CONTAINER_HOST`, and everything that reaches the engine through it is
//! known to be this server's doing. It passes bytes on as they are. Only where something is created
//! it reads the body and adds labels, by which it is found and removed later; takes out restart
//! policies, which would revive it; and puts itself in the place of the engine's socket where a
//! container asks for that. Where an image is made it asks for empty labels in the place of its own,
//! so that containers which others start from the image don't have them.
//!
//! An engine goes on with a create whose client has died. So the Door counts creates until they are
//! answered, holds its own end open for that, and says in a [`note`] beside the ledger how many there
//! are. "Nothing is left" can be said when none is under way.

mod binds;
mod connection;
mod denial;
mod edit;
mod head;
mod json;
pub(crate) mod note;
mod query;
mod relay;
mod route;
mod stream;
#[cfg(test)]
mod tests;
mod traffic;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;

use binds::Sockets;
use connection::Connection;
use denial::{After, Denial};
use route::Thing;
pub(crate) use traffic::Before;
use traffic::{Flight, Traffic};

use crate::containers::{Endpoint, Labels, Passage};
use crate::engine::clear::list;
use crate::engine::proof::Made;
use crate::engine::stream::open;

/// How many connections a server may have at a time.
const MOST_CONNECTIONS: usize = 256;
/// Before the next try if none can be accepted, as for want of descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// For an engine to say how many containers there are.
const COUNT_LIMIT: Duration = Duration::from_secs(10);
/// How long an engine that can't be asked any more may go on with a create.
const LATE_CREATE: Duration = Duration::from_mins(1);

/// What a Door is made of.
#[derive(Clone, Debug)]
pub(crate) struct DoorOrders {
    /// Where the server finds it, and the engine behind it.
    pub(crate) passage: Passage,
    /// Where it is noted that it was used.
    pub(crate) note: PathBuf,
    /// What is put on all that is created through it.
    pub(crate) labels: Labels,
    /// How many containers there may be at a time.
    pub(crate) cap: Option<NonZeroUsize>,
}

/// One server's way to its engine.
#[derive(Debug)]
pub(crate) struct Door {
    labels: Labels,
    endpoint: Endpoint,
    /// For an engine whose socket is a path of this machine.
    sockets: Option<Sockets>,
    /// How many containers there may be at a time.
    cap: Option<NonZeroUsize>,
    traffic: Rc<Traffic>,
}

impl Door {
    /// `before` is what somebody has left who served it.
    pub(crate) fn new(orders: DoorOrders, before: Before) -> Self {
        let DoorOrders { passage: Passage { endpoint, socket }, note, labels, cap } = orders;
        let sockets = match &endpoint {
            Endpoint::Unix(path) => Some(Sockets::new(path, &socket)),
            Endpoint::Tcp { .. } | Endpoint::Ssh(_) => None,
        };
        let traffic = Rc::new(Traffic::new(note, before));
        Self { labels, endpoint, sockets, cap, traffic }
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
    pub(crate) fn creates(&self) -> Arc<AtomicUsize> {
        self.traffic.creates()
    }

    /// The containers that the engine has said it created.
    pub(crate) fn made(&self) -> Made {
        self.traffic.made()
    }

    /// Processes that may run in containers that are not ours.
    pub(crate) fn execs(&self) -> Vec<String> {
        self.traffic.execs()
    }

    /// One of them has ended.
    pub(crate) fn ended(&self, exec: &str) {
        self.traffic.ended(exec);
    }

    async fn admit(self: Rc<Self>, client: UnixStream) {
        // Without an engine the client is left with an end of file, and says so in its own words.
        if let Ok(engine) = open(&self.endpoint).await {
            // Whatever broke it, the client sees its end.
            let _ = Connection::new(self, client, engine).serve().await;
        }
    }

    /// A create is about to be passed on, if it may be.
    async fn begin(&self, thing: Thing) -> Result<Flight, Denial> {
        if let (Thing::Container, Some(cap)) = (thing, self.cap) {
            let cap = cap.get();
            if self.traffic.containers() >= cap {
                self.count().await?;
            }
            if self.traffic.containers() >= cap {
                return Err(Denial::cap(cap));
            }
        }
        self.traffic.begin()
    }

    /// Asks the engine how many containers there are: it is not told here when one goes.
    async fn count(&self) -> Result<(), Denial> {
        let listed = list(&self.endpoint, COUNT_LIMIT).await;
        let listed = listed.map_err(|unreachable| Denial::uncounted(&unreachable))?;
        let instance = self.labels.instance;
        self.traffic.counted(listed.iter().filter(|one| one.instance == instance).count());
        Ok(())
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
