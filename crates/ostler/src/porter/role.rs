//! Entry point and event loop of the porter process.
//!
//! One task handles the guardian's orders and the progress of the clearing; the Doors run as local tasks beside it.
//! The process ends when the guardian dismisses it, or, if the guardian is dead, when everything is cleared or
//! [`ORPHAN_LIMIT`] has passed.

use std::fs;
use std::future::pending;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::pin::Pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{chdir, setsid};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::task::{JoinSet, LocalSet};

use super::clearing::{self, LostCreates, ServerProcesses};
use crate::door::note::Note;
use crate::door::{Door, DoorConfig, PriorTraffic};
use crate::notes::door_note;
use crate::notice::SignalPipe;
use crate::wire::porter::{PorterConfig, PorterOrder, PorterReport};
use crate::wire::{Conn, Received};

/// How long a porter without a guardian keeps clearing before it leaves the rest to the next sweep.
const ORPHAN_LIMIT: Duration = Duration::from_hours(1);

const DONE: i32 = 0;
const NOT_STARTED: i32 = 1;

/// The future that removes everything.
type Clearing = Pin<Box<dyn Future<Output = ()>>>;

/// Runs the porter and returns its exit code.
pub(crate) fn run() -> i32 {
    match begin() {
        Ok(Some((conn, config, listeners))) => match serve(conn, config, listeners) {
            Ok(()) => DONE,
            Err(_) => NOT_STARTED,
        },
        Ok(None) | Err(_) => NOT_STARTED,
    }
}

/// Sets up the process and waits for its configuration. `None`: the guardian died before it sent one.
fn begin() -> io::Result<Option<(Conn, PorterConfig, Vec<OwnedFd>)>> {
    let mut conn = Conn::inherited()?;
    setsid()?;
    // Signals do not end a porter: its guardian's order does, or the end of its work.
    let _deaf = SignalPipe::install()?;
    rustix::thread::set_name(c"ostler-porter")?;
    chdir("/")?;
    let Some(config) = await_config(&mut conn)? else { return Ok(None) };
    let listeners = conn.take_descriptors();
    Ok(Some((conn, *config, listeners)))
}

fn await_config(conn: &mut Conn) -> io::Result<Option<Box<PorterConfig>>> {
    loop {
        match conn.receive()? {
            Received::Message(PorterOrder::Serve(config)) => return Ok(Some(config)),
            Received::Message(_) | Received::Closed => return Ok(None),
            Received::NothingYet => {}
        }
        match poll(&mut [PollFd::new(conn, PollFlags::IN)], None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn serve(conn: Conn, config: PorterConfig, listeners: Vec<OwnedFd>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = LocalSet::new();
    let serving = async {
        let mut porter = Porter::new(conn, config)?;
        // Dropping the set ends the tasks that serve the Doors.
        let mut serving = JoinSet::new();
        for (served, listener) in porter.doors.iter().zip(listeners) {
            let listener = UnixListener::from(listener);
            listener.set_nonblocking(true)?;
            let listener = tokio::net::UnixListener::from_std(listener)?;
            serving.spawn_local(Rc::clone(&served.door).serve(listener));
        }
        porter.run().await;
        Ok(())
    };
    local.block_on(&runtime, serving)
}

/// A Door that this porter serves, with what it needs to clear the containers behind it.
pub(super) struct ServedDoor {
    pub(super) config: DoorConfig,
    pub(super) door: Rc<Door>,
    pub(super) lost: LostCreates,
}

impl ServedDoor {
    fn new(config: DoorConfig, late_create: Duration) -> Self {
        // What an earlier porter left pending. An unreadable note may have said anything, so one create is assumed.
        let prior = match Note::read(&config.note) {
            Ok(Some(Note { creates, execs, made, .. })) => PriorTraffic { creates, execs, made },
            Ok(None) => PriorTraffic::default(),
            Err(_) => PriorTraffic { creates: 1, ..PriorTraffic::default() },
        };
        let lost = LostCreates { count: prior.creates, until: Instant::now() + late_create };
        let door = Rc::new(Door::new(config.clone(), prior));
        Self { config, door, lost }
    }
}

/// Configurations of the Doors, in the order of their sockets.
fn doors_of(config: &PorterConfig) -> impl Iterator<Item = DoorConfig> {
    config.ways.engines.iter().map(|engine_door| DoorConfig {
        note: door_note(&config.book, &engine_door.socket),
        engine_door: engine_door.clone(),
        labels: config.labels.clone(),
        cap: config.cap,
    })
}

struct Porter {
    config: Rc<PorterConfig>,
    doors: Vec<Rc<ServedDoor>>,
    conn: Conn,
    /// A duplicate of `conn`'s socket, only for its readiness.
    socket: UnixStream,
    clearing: Option<Clearing>,
    processes: watch::Sender<ServerProcesses>,
    reports: (UnboundedSender<PorterReport>, UnboundedReceiver<PorterReport>),
    is_clear: bool,
    /// Set once the guardian is dead: when this porter gives up.
    orphaned_until: Option<Instant>,
}

enum Wake {
    Orders,
    Report(PorterReport),
    Cleared,
    OrphanLimit,
}

impl Porter {
    fn new(conn: Conn, config: PorterConfig) -> io::Result<Self> {
        let copy = conn.as_fd().try_clone_to_owned()?;
        let copy = std::os::unix::net::UnixStream::from(copy);
        copy.set_nonblocking(true)?;
        let socket = UnixStream::from_std(copy)?;
        let served = |door| Rc::new(ServedDoor::new(door, config.late_create));
        Ok(Self {
            doors: doors_of(&config).map(served).collect(),
            config: Rc::new(config),
            conn,
            socket,
            clearing: None,
            processes: watch::Sender::new(ServerProcesses::Alive),
            reports: unbounded_channel(),
            is_clear: false,
            orphaned_until: None,
        })
    }

    /// Runs until there is nothing more to do.
    async fn run(&mut self) {
        // Orders that arrived together with the first one do not make the socket readable again.
        if self.receive_orders().is_break() {
            return;
        }
        loop {
            match self.wait().await {
                Wake::Orders => {
                    if self.receive_orders().is_break() {
                        return;
                    }
                }
                Wake::Report(report) => self.report(&report),
                Wake::Cleared => (self.clearing, self.is_clear) = (None, true),
                Wake::OrphanLimit => return self.remove_sockets(),
            }
            if self.is_clear && self.orphaned_until.is_some() {
                return self.remove_sockets();
            }
        }
    }

    async fn wait(&mut self) -> Wake {
        let clearing = async {
            match &mut self.clearing {
                Some(clearing) => clearing.await,
                None => pending().await,
            }
        };
        let orphan_limit = async {
            match self.orphaned_until {
                Some(until) => tokio::time::sleep_until(until.into()).await,
                None => pending().await,
            }
        };
        let orders = async {
            if self.orphaned_until.is_some() {
                return pending().await;
            }
            let _ = self.socket.readable().await;
            // Clears tokio's readiness: the caller reads until nothing is left, so only new data must wake it.
            let taken = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
            let _ = self.socket.try_io(Interest::READABLE, taken);
        };
        tokio::select! {
            // Reports first: those of a clearing must be sent before its end.
            biased;
            Some(report) = self.reports.1.recv() => Wake::Report(report),
            () = orders => Wake::Orders,
            () = clearing => Wake::Cleared,
            () = orphan_limit => Wake::OrphanLimit,
        }
    }

    fn receive_orders(&mut self) -> std::ops::ControlFlow<()> {
        use std::ops::ControlFlow::{Break, Continue};
        loop {
            match self.conn.receive() {
                Ok(Received::Message(PorterOrder::Clear { grace })) => self.clear(grace),
                Ok(Received::Message(PorterOrder::Emptied { since })) => {
                    self.processes.send_replace(ServerProcesses::Empty { since });
                }
                Ok(Received::Message(PorterOrder::Dismiss)) => return Break(()),
                Ok(Received::Message(PorterOrder::Serve(_))) => {}
                Ok(Received::NothingYet) => return Continue(()),
                Ok(Received::Closed) | Err(_) => {
                    self.orphaned_until = Some(Instant::now() + ORPHAN_LIMIT);
                    if *self.processes.borrow() == ServerProcesses::Alive {
                        self.processes.send_replace(ServerProcesses::Unwatched);
                    }
                    if !self.is_clear {
                        self.clear(Duration::ZERO);
                    }
                    return Continue(());
                }
            }
        }
    }

    /// Starts to remove everything, or starts again with a shorter grace.
    fn clear(&mut self, grace: Duration) {
        self.doors.iter().for_each(|served| served.door.close());
        let (config, doors) = (Rc::clone(&self.config), self.doors.clone());
        let (processes, reports) = (self.processes.clone(), self.reports.0.clone());
        self.clearing = Some(Box::pin(async move {
            clearing::run(&config, &doors, grace, &processes, &reports).await;
        }));
    }

    fn report(&self, report: &PorterReport) {
        // A failed send means that the guardian is dead, which shows as the end of the socket.
        let _ = self.conn.send(report, &[]);
    }

    /// Removes the Doors' sockets in place of a dead guardian.
    fn remove_sockets(&self) {
        for way in &self.config.ways.engines {
            let _ = fs::remove_file(&way.socket);
        }
    }
}
