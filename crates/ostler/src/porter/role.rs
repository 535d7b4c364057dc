//! The life of a porter, from its start to its end.

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

use super::clearing::{self, Lost, Tree};
use crate::door::note::Note;
use crate::door::{Before, Door, DoorOrders};
use crate::notes::door_note;
use crate::notice::Notice;
use crate::wire::porter::{Order, Report, Service};
use crate::wire::{Conn, Received};

/// How long a porter without a guardian tries before it leaves the rest to the next sweep.
const ALONE: Duration = Duration::from_hours(1);

const DONE: i32 = 0;
const NOT_STARTED: i32 = 1;

/// A removal under way.
type Clearing = Pin<Box<dyn Future<Output = ()>>>;

/// Returns the exit code.
pub(crate) fn run() -> i32 {
    match begin() {
        Ok(Some((conn, service, listeners))) => match attend(conn, service, listeners) {
            Ok(()) => DONE,
            Err(_) => NOT_STARTED,
        },
        Ok(None) | Err(_) => NOT_STARTED,
    }
}

/// `None`: the guardian has gone before it said what there is to do.
fn begin() -> io::Result<Option<(Conn, Service, Vec<OwnedFd>)>> {
    let mut conn = Conn::inherited()?;
    setsid()?;
    // Deaf to all of them, as the guardian is: it ends by its guardian's word, or when it has done.
    let _deaf = Notice::install()?;
    rustix::thread::set_name(c"ostler-porter")?;
    chdir("/")?;
    let Some(service) = await_service(&mut conn)? else { return Ok(None) };
    let listeners = conn.take_descriptors();
    Ok(Some((conn, *service, listeners)))
}

fn await_service(conn: &mut Conn) -> io::Result<Option<Box<Service>>> {
    loop {
        match conn.receive()? {
            Received::Message(Order::Serve(service)) => return Ok(Some(service)),
            Received::Message(_) | Received::Closed => return Ok(None),
            Received::NothingYet => {}
        }
        match poll(&mut [PollFd::new(conn, PollFlags::IN)], None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn attend(conn: Conn, service: Service, listeners: Vec<OwnedFd>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = LocalSet::new();
    let serving = async {
        let mut porter = Porter::new(conn, service)?;
        // It ends with those who serve.
        let mut serving = JoinSet::new();
        for (post, listener) in porter.posts.iter().zip(listeners) {
            let listener = UnixListener::from(listener);
            listener.set_nonblocking(true)?;
            let listener = tokio::net::UnixListener::from_std(listener)?;
            serving.spawn_local(Rc::clone(&post.door).serve(listener));
        }
        porter.attend().await;
        Ok(())
    };
    local.block_on(&runtime, serving)
}

/// A Door, and what has to be known to clear what came of it.
pub(super) struct Post {
    pub(super) orders: DoorOrders,
    pub(super) door: Rc<Door>,
    pub(super) lost: Lost,
}

impl Post {
    fn new(orders: DoorOrders, late_create: Duration) -> Self {
        // What another porter has left under way. A note that can't be read may have said anything.
        let before = match Note::read(&orders.note) {
            Ok(Some(Note { creates, execs, made, .. })) => Before { creates, execs, made },
            Ok(None) => Before::default(),
            Err(_) => Before { creates: 1, ..Before::default() },
        };
        let lost = Lost { count: before.creates, until: Instant::now() + late_create };
        let door = Rc::new(Door::new(orders.clone(), before));
        Self { orders, door, lost }
    }
}

/// What each Door is made of, in the order of their sockets.
fn doors_of(service: &Service) -> impl Iterator<Item = DoorOrders> {
    service.ways.engines.iter().map(|passage| DoorOrders {
        note: door_note(&service.book, &passage.socket),
        passage: passage.clone(),
        labels: service.labels.clone(),
        cap: service.cap,
    })
}

struct Porter {
    service: Rc<Service>,
    posts: Vec<Rc<Post>>,
    conn: Conn,
    /// Tells when there is something to hear.
    ear: UnixStream,
    clearing: Option<Clearing>,
    tree: watch::Sender<Tree>,
    reports: (UnboundedSender<Report>, UnboundedReceiver<Report>),
    is_clear: bool,
    /// When a porter without a guardian leaves.
    alone_until: Option<Instant>,
}

enum Woken {
    Heard,
    Report(Report),
    Cleared,
    Alone,
}

impl Porter {
    fn new(conn: Conn, service: Service) -> io::Result<Self> {
        let copy = conn.as_fd().try_clone_to_owned()?;
        let copy = std::os::unix::net::UnixStream::from(copy);
        copy.set_nonblocking(true)?;
        let ear = UnixStream::from_std(copy)?;
        let post = |orders| Rc::new(Post::new(orders, service.late_create));
        Ok(Self {
            posts: doors_of(&service).map(post).collect(),
            service: Rc::new(service),
            conn,
            ear,
            clearing: None,
            tree: watch::Sender::new(Tree::Alive),
            reports: unbounded_channel(),
            is_clear: false,
            alone_until: None,
        })
    }

    /// Returns when there is nothing more to do.
    async fn attend(&mut self) {
        // What came along with the first order is not announced again.
        if self.hear().is_break() {
            return;
        }
        loop {
            match self.wait().await {
                Woken::Heard => {
                    if self.hear().is_break() {
                        return;
                    }
                }
                Woken::Report(report) => self.report(&report),
                Woken::Cleared => (self.clearing, self.is_clear) = (None, true),
                Woken::Alone => return self.leave(),
            }
            if self.is_clear && self.alone_until.is_some() {
                return self.leave();
            }
        }
    }

    async fn wait(&mut self) -> Woken {
        let clearing = async {
            match &mut self.clearing {
                Some(clearing) => clearing.await,
                None => pending().await,
            }
        };
        let alone = async {
            match self.alone_until {
                Some(until) => tokio::time::sleep_until(until.into()).await,
                None => pending().await,
            }
        };
        let heard = async {
            if self.alone_until.is_some() {
                return pending().await;
            }
            let _ = self.ear.readable().await;
            // All that has come is taken by whoever is woken, so that only news count from here on.
            let taken = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
            let _ = self.ear.try_io(Interest::READABLE, taken);
        };
        tokio::select! {
            // What was told before the end of a removal is told before that.
            biased;
            Some(report) = self.reports.1.recv() => Woken::Report(report),
            () = heard => Woken::Heard,
            () = clearing => Woken::Cleared,
            () = alone => Woken::Alone,
        }
    }

    fn hear(&mut self) -> std::ops::ControlFlow<()> {
        use std::ops::ControlFlow::{Break, Continue};
        loop {
            match self.conn.receive() {
                Ok(Received::Message(Order::Clear { grace })) => self.clear(grace),
                Ok(Received::Message(Order::Emptied { since })) => {
                    self.tree.send_replace(Tree::Empty { since });
                }
                Ok(Received::Message(Order::Dismiss)) => return Break(()),
                Ok(Received::Message(Order::Serve(_))) => {}
                Ok(Received::NothingYet) => return Continue(()),
                Ok(Received::Closed) | Err(_) => {
                    self.alone_until = Some(Instant::now() + ALONE);
                    if *self.tree.borrow() == Tree::Alive {
                        self.tree.send_replace(Tree::Unwatched);
                    }
                    if !self.is_clear {
                        self.clear(Duration::ZERO);
                    }
                    return Continue(());
                }
            }
        }
    }

    /// Begins to remove everything, or begins anew in more of a hurry.
    fn clear(&mut self, grace: Duration) {
        self.posts.iter().for_each(|post| post.door.close());
        let (service, posts) = (Rc::clone(&self.service), self.posts.clone());
        let (tree, reports) = (self.tree.clone(), self.reports.0.clone());
        self.clearing = Some(Box::pin(async move {
            clearing::run(&service, &posts, grace, &tree, &reports).await;
        }));
    }

    fn report(&self, report: &Report) {
        // A guardian that can't hear it is dead, which shows as the end of the socket.
        let _ = self.conn.send(report, &[]);
    }

    /// Nobody else is left to do it.
    fn leave(&self) {
        for way in &self.service.ways.engines {
            let _ = fs::remove_file(&way.socket);
        }
    }
}
