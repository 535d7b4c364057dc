//! Where `ostler top` gets its data: a thread that reads ledgers, the process table and gateways, as `ostler ps` does, once a
//! second. Stopping and restarting run in threads of their own, so that they never delay a refresh.
//!
//! Containers are left out: their engines may take seconds to answer.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::thread;
use std::time::Duration;

use ostler::{InstanceId, Places};
use ostler_gateway::admin::{LoggedEvent, Reply, Request};
use ostler_gateway::front::{GatewayConnection, GatewaySocket, Hello};

use super::instance::{Home, Instance, Meter};
use crate::backends::BlockingBackends;
use crate::commands::{events, ps, stop};
use crate::gateways::{AskError, Which, ask};
use crate::out::chain;
use crate::page::{Page, cell};

/// Time between refreshes.
const REFRESH: Duration = Duration::from_secs(1);
/// Updates that wait to be shown.
const QUEUE: usize = 4;
/// Events of an instance that are shown.
const MOST_EVENTS: usize = 20;

/// All instances at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    pub(super) instances: Vec<Instance>,
    /// Servers that can't be used or back off.
    pub(super) troubles: Vec<String>,
    /// Last events of the instance in focus, the newest last.
    pub(super) events: Vec<String>,
}

/// Something to show.
#[derive(Debug)]
pub(super) enum Update {
    Snapshot(Snapshot),
    /// Why there is no new snapshot.
    Failed(String),
    /// How an action ended.
    Done(String),
}

/// What the user had done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Stop { id: InstanceId, server: String },
    Restart { socket: GatewaySocket, server: String },
}

/// The thread, as the terminal loop sees it.
#[derive(Debug)]
pub(super) struct Feed {
    which: Which,
    updates: Receiver<Update>,
    sender: SyncSender<Update>,
    focus: Sender<Option<Home>>,
    /// One byte per update.
    wake: UnixStream,
    waker: UnixStream,
}

impl Feed {
    /// Starts the thread, with the first snapshot made: its errors are the command's own.
    pub(super) fn start(which: &Which) -> Result<(Self, Snapshot), AskError> {
        let mut reader = Reader::new(which.clone()).map_err(AskError::Backends)?;
        let first = reader.read()?;
        Self::spawn(reader, which).map(|feed| (feed, first)).map_err(AskError::Backends)
    }

    fn spawn(mut reader: Reader, which: &Which) -> io::Result<Self> {
        let (sender, updates) = mpsc::sync_channel(QUEUE);
        let (focus, focused) = mpsc::channel();
        let (wake, waker) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let (to, bell) = (sender.clone(), waker.try_clone()?);
        // Ends with the receiver, or with this process.
        thread::Builder::new().name("ostler-top".into()).spawn(move || {
            loop {
                match focused.recv_timeout(REFRESH) {
                    Ok(home) => reader.focus = home,
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
                let update = match reader.read() {
                    Ok(snapshot) => Update::Snapshot(snapshot),
                    Err(error) => Update::Failed(chain(&error)),
                };
                if !tell(&to, &bell, update) {
                    return;
                }
            }
        })?;
        Ok(Self { which: which.clone(), updates, sender, focus, wake, waker })
    }

    /// Readable when there is an update.
    pub(super) fn wake(&self) -> &UnixStream {
        &self.wake
    }

    /// All updates since the last call.
    pub(super) fn take(&self) -> Vec<Update> {
        // Emptied first, so that an update that arrives now wakes again.
        let _ = io::Read::read(&mut &self.wake, &mut [0; 64]);
        self.updates.try_iter().collect()
    }

    /// Chooses the instance whose events are read.
    pub(super) fn focus(&self, home: Option<Home>) {
        // The thread may have ended, if its last update was an error.
        let _ = self.focus.send(home);
    }

    /// Carries out an action in a thread of its own, which reports its end.
    pub(super) fn act(&self, action: Action) -> io::Result<()> {
        let (to, bell, which) = (self.sender.clone(), self.waker.try_clone()?, self.which.clone());
        let act = move || {
            let message = carry_out(&action, &which).unwrap_or_else(|error| chain(&error));
            tell(&to, &bell, Update::Done(message));
        };
        thread::Builder::new().name("ostler-act".into()).spawn(act).map(drop)
    }
}

/// Returns false if the command has ended.
fn tell(to: &SyncSender<Update>, mut bell: &UnixStream, update: Update) -> bool {
    to.send(update).is_ok() && bell.write_all(&[0]).is_ok()
}

fn carry_out(action: &Action, which: &Which) -> Result<String, AskError> {
    match action {
        Action::Stop { id, server } => {
            let is_there = stop::begin(*id, which)?;
            Ok(format!("{server}: {}", if is_there { "stopping" } else { "not running any more" }))
        }
        Action::Restart { socket, server } => {
            let dialled = GatewayConnection::to(socket);
            let gateway = dialled
                .map_err(|source| AskError::Dial { path: socket.path().to_owned(), source })?;
            match ask(&gateway, Request::Restart(server.clone()))? {
                Reply::Ended { left, count } if left.is_empty() => {
                    Ok(format!("{server}: stopped {count}; the next call starts a new one"))
                }
                Reply::Ended { left, .. } => {
                    Ok(format!("{server}: {} not proven gone", left.len()))
                }
                _ => Err(AskError::Strange),
            }
        }
    }
}

/// Reads snapshots.
#[derive(Debug)]
struct Reader {
    which: Which,
    backends: BlockingBackends,
    meter: Meter,
    focus: Option<Home>,
}

impl Reader {
    fn new(which: Which) -> io::Result<Self> {
        Ok(Self { which, backends: BlockingBackends::new()?, meter: Meter::new(), focus: None })
    }

    fn read(&mut self) -> Result<Snapshot, AskError> {
        let overviews = self.which.overviews()?;
        let views = self.backends.snapshot(&Places::of_user());
        let cpu = self.meter.read(&views);
        let here = views.iter().map(|view| Instance {
            cpu: cpu.get(&view.instance).copied(),
            ..Instance::here(view, ps::known_by(&overviews, view))
        });
        let elsewhere = overviews.iter().flat_map(|overview| {
            let remote = ps::elsewhere(std::slice::from_ref(overview));
            remote.into_iter().map(|remote| Instance::elsewhere(&remote, &overview.0))
        });
        let instances = here.chain(elsewhere).collect();
        let mut page = Page::new();
        for server in overviews.iter().flat_map(|(_, overview)| &overview.servers) {
            ps::trouble(&mut page, server, false);
        }
        let troubles = page.text().lines().map(ToOwned::to_owned).collect();
        let events = self.focus.as_ref().map(events_of).unwrap_or_default();
        Ok(Snapshot { instances, troubles, events })
    }
}

/// Last events of an instance; none if its gateway has ended.
fn events_of(Home { socket, number }: &Home) -> Vec<String> {
    let Ok(gateway) = GatewayConnection::to(socket) else { return Vec::new() };
    let request = Hello::Admin(Request::Events { follow: false });
    if gateway.say(&request, &[]).is_err() {
        return Vec::new();
    }
    let all = std::iter::from_fn(|| gateway.receive::<LoggedEvent>().ok());
    let own: Vec<LoggedEvent> = all.filter(|event| event.number == Some(*number)).collect();
    let last = &own[own.len().saturating_sub(MOST_EVENTS)..];
    last.iter().flat_map(events::lines).map(|line| cell(&line)).collect()
}
