//! The Door: a proxy between one server and its container engine.
//!
//! # Theory of operation
//!
//! The engine is the parent of every container, so the process tree does not show which server caused one. The Door
//! is a unix socket of the server's own, named in `DOCKER_HOST` or `CONTAINER_HOST`; every request that arrives there
//! is this server's. The Door forwards bytes unchanged, except:
//! - in requests that create something it adds labels, by which the porter finds and removes it later; it removes
//!   restart policies, with which the engine would start it again; and it replaces the engine's socket by its own where
//!   a container binds that;
//! - in requests that make an image it sets our labels to empty values, so that containers which others start from that
//!   image don't carry them.
//!
//! An engine carries out a create even if its client has died. So the Door counts creates until the engine has
//! responded, keeps its connection to the engine open for that, and records the count in a [`note`] beside the ledger.
//! Containers are proven gone only while no create is pending.

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

use binds::SocketSubstitution;
use connection::Connection;
use denial::{ConnectionAfter, Denial};
use route::ObjectKind;
pub(crate) use traffic::PriorTraffic;
use traffic::{PendingCreate, Traffic};

use crate::containers::{Endpoint, EngineDoor, Labels};
use crate::engine::clear::list;
use crate::engine::proof::CreatedIds;
use crate::engine::stream::open;

/// Most connections of a server at a time.
const MOST_CONNECTIONS: usize = 256;
/// Delay after a failed accept, for example if descriptors run out.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// Time limit for the engine to list the containers.
const COUNT_LIMIT: Duration = Duration::from_secs(10);
/// How long a create counts as pending after the connection to a remote engine was lost.
const LATE_CREATE: Duration = Duration::from_mins(1);

/// Configuration of a Door.
#[derive(Clone, Debug)]
pub(crate) struct DoorConfig {
    pub(crate) engine_door: EngineDoor,
    /// Path of the note.
    pub(crate) note: PathBuf,
    /// Put on everything that is created through the Door.
    pub(crate) labels: Labels,
    /// Most containers at a time.
    pub(crate) cap: Option<NonZeroUsize>,
}

#[derive(Debug)]
pub(crate) struct Door {
    labels: Labels,
    endpoint: Endpoint,
    /// `None` for an engine that does not listen on a unix socket of this machine.
    sockets: Option<SocketSubstitution>,
    /// Most containers at a time.
    cap: Option<NonZeroUsize>,
    traffic: Rc<Traffic>,
}

impl Door {
    /// `prior` is what an earlier porter of the same Door has left.
    pub(crate) fn new(config: DoorConfig, prior: PriorTraffic) -> Self {
        let DoorConfig { engine_door: EngineDoor { endpoint, socket }, note, labels, cap } = config;
        let sockets = match &endpoint {
            Endpoint::Unix(path) => Some(SocketSubstitution::new(path, &socket)),
            Endpoint::Tcp { .. } | Endpoint::Ssh(_) => None,
        };
        let traffic = Rc::new(Traffic::new(note, prior));
        Self { labels, endpoint, sockets, cap, traffic }
    }

    /// Accepts and serves connections. Never returns; dropping the future ends every connection.
    pub(crate) async fn serve(self: Rc<Self>, listener: UnixListener) {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((client, _)) if connections.len() < MOST_CONNECTIONS => {
                        connections.spawn_local(Rc::clone(&self).admit(client));
                    }
                    Ok((client, _)) => reject(client).await,
                    Err(_) => tokio::time::sleep(ACCEPT_RETRY).await,
                },
                Some(_) = connections.join_next() => {}
            }
        }
    }

    /// Refuses creates and starts from now on.
    pub(crate) fn close(&self) {
        self.traffic.close();
    }

    /// The number of creates that the engine has not responded to.
    pub(crate) fn creates(&self) -> Arc<AtomicUsize> {
        self.traffic.creates()
    }

    /// Ids of the containers that the engine reported as created.
    pub(crate) fn made(&self) -> CreatedIds {
        self.traffic.made()
    }

    /// Ids of exec sessions that may still run in containers that are not ours.
    pub(crate) fn execs(&self) -> Vec<String> {
        self.traffic.execs()
    }

    /// Records that an exec session has ended.
    pub(crate) fn exec_ended(&self, exec: &str) {
        self.traffic.exec_ended(exec);
    }

    async fn admit(self: Rc<Self>, client: UnixStream) {
        // Without an engine the client sees end of file and prints its own error.
        if let Ok(engine) = open(&self.endpoint).await {
            // Whatever the error is, the client sees the connection end.
            let _ = Connection::new(self, client, engine).serve().await;
        }
    }

    /// Records a create before it is forwarded, or denies it because of the cap.
    async fn begin(&self, kind: ObjectKind) -> Result<PendingCreate, Denial> {
        if let (ObjectKind::Container, Some(cap)) = (kind, self.cap) {
            let cap = cap.get();
            if self.traffic.containers() >= cap {
                self.count().await?;
            }
            if self.traffic.containers() >= cap {
                return Err(Denial::too_many_containers(cap));
            }
        }
        self.traffic.begin()
    }

    /// Counts the containers by a request to the engine: the Door does not learn when one is removed.
    async fn count(&self) -> Result<(), Denial> {
        let listed = list(&self.endpoint, COUNT_LIMIT).await;
        let listed = listed.map_err(|unreachable| Denial::uncounted(&unreachable))?;
        let instance = self.labels.instance;
        self.traffic.set_containers(listed.iter().filter(|one| one.instance == instance).count());
        Ok(())
    }

    fn is_local(&self) -> bool {
        self.sockets.is_some()
    }

    /// Lets a create whose response was lost count as pending for [`LATE_CREATE`].
    fn expire_later(pending: PendingCreate) {
        tokio::task::spawn_local(async move {
            tokio::time::sleep(LATE_CREATE).await;
            pending.finish();
        });
    }
}

async fn reject(mut client: UnixStream) {
    // The socket buffer of a new connection is empty, so this never waits.
    let _ = client.write_all(&Denial::too_many_connections().bytes(ConnectionAfter::Close)).await;
}
