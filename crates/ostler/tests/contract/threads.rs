//! A third backend, whose instances are threads of this process. It shows that the code above backends does not depend
//! on what an instance is made of.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::pin::Pin;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::thread::JoinHandle;
use std::time::Duration;

use ostler::backend::{
    Backend, BoxFuture, Evidence, Fields, Hold, Part, Role, StartOrder, Started, Target, Traces,
    Whereabouts,
};
use ostler::ledger::{Book, End, Entry, Intent, Record, Start};
use ostler::{
    Event, InstanceId, Outcome, Owner, Proof, Refusal, Residue, ServerSpec, StartError, State,
    Step, View,
};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep};

pub(crate) const NAME: &str = "thread";
const LOOK: Duration = Duration::from_millis(5);

/// Running threads, each with its switch.
type Switches = Arc<Mutex<BTreeMap<InstanceId, Arc<Switch>>>>;

#[derive(Clone, Debug, Default)]
pub(crate) struct Threads(Switches);

/// Tells a thread to end.
#[derive(Debug)]
struct Switch {
    /// It was asked to end.
    asked: AtomicBool,
    /// It must end.
    off: AtomicBool,
    /// Its pipe; shut down when it must end.
    socket: UnixStream,
}

impl Switch {
    fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    fn turn_off(&self) {
        self.off.store(true, Ordering::Relaxed);
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

/// A server that is a thread.
struct Thread {
    id: InstanceId,
    is_stubborn: bool,
    switch: Arc<Switch>,
    switches: Switches,
    owner: Owner,
    /// Dropped at the end of the thread.
    _ended: oneshot::Sender<()>,
}

impl Thread {
    /// Echoes its input until it must end, and records its own end.
    fn run(self) {
        let mut bytes = [0; 1024];
        while !self.switch.off.load(Ordering::Relaxed) {
            let is_asked = self.switch.asked.load(Ordering::Relaxed);
            match (&self.switch.socket).read(&mut bytes) {
                Ok(0) if self.is_stubborn => std::thread::sleep(LOOK),
                Ok(0) => break,
                Ok(count) => drop((&self.switch.socket).write_all(&bytes[..count])),
                // Read timeout.
                Err(_) if is_asked && !self.is_stubborn => break,
                Err(_) => {}
            }
        }
        self.switch.turn_off();
        let end = End::Gone(proof());
        self.owner.note(&Record::Ended { instance: self.id, end });
        self.switches.lock().unwrap().remove(&self.id);
    }
}

fn proof() -> Proof {
    Proof::Other("its thread has ended".into())
}

impl Threads {
    fn has(&self, id: InstanceId) -> Option<Arc<Switch>> {
        self.0.lock().unwrap().get(&id).cloned()
    }

    fn launch(&self, spec: &ServerSpec, order: &StartOrder) -> Result<Started, StartError> {
        let failed = |error: io::Error| StartError::Other(error.to_string());
        let id = InstanceId::random().map_err(failed)?;
        let handle = format!("thread-{id}");
        order.owner.intend(Intent { handle: handle.clone(), ..Intent::new(id, spec, NAME) })?;
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        ours.set_nonblocking(true).map_err(failed)?;
        theirs.set_read_timeout(Some(LOOK)).map_err(failed)?;
        let (asked, off) = (AtomicBool::new(false), AtomicBool::new(false));
        let switch = Arc::new(Switch { asked, off, socket: theirs });
        let (ended, end) = oneshot::channel();
        let is_stubborn = spec.program == "stubborn";
        let thread = Thread {
            id,
            is_stubborn,
            switch: Arc::clone(&switch),
            switches: Arc::clone(&self.0),
            owner: order.owner.clone(),
            _ended: ended,
        };
        self.0.lock().unwrap().insert(id, Arc::clone(&switch));
        let builder = std::thread::Builder::new().name(handle.clone());
        let thread = builder.spawn(move || thread.run()).map_err(failed)?;
        let (stdout, stdin) = tokio::net::UnixStream::from_std(ours).map_err(failed)?.into_split();
        let hold = Held {
            id,
            news: vec![Event::Started {
                whereabouts: Whereabouts::Elsewhere { place: handle },
                level: None,
            }],
            switch,
            thread: Some(thread),
            end,
            owner: order.owner.clone(),
            grace: order.terms.limits.grace,
            deadline: None,
        };
        let stderr = Box::new(tokio::io::empty());
        Ok(Started {
            id,
            hold: Box::new(hold),
            stdin: Box::new(stdin),
            stdout: Box::new(stdout),
            stderr,
        })
    }
}

impl Backend for Threads {
    fn name(&self) -> &str {
        NAME
    }

    fn start(&self, order: StartOrder) -> BoxFuture<Result<Started, StartError>> {
        let threads = self.clone();
        Box::pin(async move {
            match &order.target {
                Target::On { backend, spec } if backend == NAME => {
                    let is_known = spec.program == "echo" || spec.program == "stubborn";
                    let program = spec.program.to_string_lossy().into_owned();
                    let refusal = StartError::Refused(Refusal::NotFound { program });
                    if is_known { threads.launch(spec, &order) } else { Err(refusal) }
                }
                _ => Err(StartError::OtherTarget(NAME)),
            }
        })
    }

    fn list(&self, left: Book) -> BoxFuture<BTreeMap<InstanceId, Evidence>> {
        let evidence = |entry: Entry| {
            let runs =
                self.has(entry.intent.instance).map(|_| format!("{} runs", entry.intent.handle));
            let traces = runs.map(Traces::described).unwrap_or_default();
            (entry.intent.instance, Evidence { entry, traces })
        };
        Box::pin(std::future::ready(left.entries.into_values().map(evidence).collect()))
    }

    fn end(&self, left: Book, limit: Duration) -> BoxFuture<BTreeMap<InstanceId, Outcome>> {
        let threads = self.clone();
        Box::pin(async move {
            let deadline = Instant::now() + limit;
            let mut outcomes = BTreeMap::new();
            for id in left.entries.into_keys() {
                while let Some(switch) = threads.has(id).filter(|_| Instant::now() < deadline) {
                    switch.turn_off();
                    sleep(LOOK).await;
                }
                let outcome = match threads.has(id) {
                    None => Outcome::Gone(proof()),
                    Some(_) => Outcome::Unverified(Residue::Other("its thread".into())),
                };
                outcomes.insert(id, outcome);
            }
            outcomes
        })
    }

    fn describe(&self, books: Vec<Book>) -> BoxFuture<Vec<View>> {
        let state = |id| if self.has(id).is_some() { State::Running } else { State::Orphaned };
        let of = |book: &Book| -> Vec<View> {
            let open = book.open_entries();
            open.map(|(id, entry)| View::of(entry, &book.owner, state(id))).collect()
        };
        Box::pin(std::future::ready(books.iter().flat_map(of).collect()))
    }

    fn ask(&self, entry: &Entry) -> bool {
        self.has(entry.intent.instance).map(|switch| switch.ask()).is_some()
    }

    fn part(&self, entry: &Entry, what: &str) -> Option<Part> {
        let (role, title, fields) = (Role::Server, what.to_owned(), Fields::new());
        (entry.intent.handle == what).then_some(Part { role, title, fields })
    }
}

/// The keeper's handle on a thread.
struct Held {
    id: InstanceId,
    /// Events still to be reported, the next one last.
    news: Vec<Event>,
    switch: Arc<Switch>,
    thread: Option<JoinHandle<()>>,
    end: oneshot::Receiver<()>,
    owner: Owner,
    grace: Duration,
    /// When it is turned off, after it was told to end.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl Hold for Held {
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        if let Some(event) = self.news.pop() {
            if let Event::Started { whereabouts, .. } = &event {
                let start =
                    Start { instance: self.id, whereabouts: whereabouts.clone(), level: None };
                self.owner.note(&Record::Started(start));
            }
            return Poll::Ready(event);
        }
        if self.deadline.as_mut().is_some_and(|deadline| deadline.as_mut().poll(cx).is_ready()) {
            self.deadline = None;
            self.switch.turn_off();
        }
        let Some(thread) = &self.thread else { return Poll::Pending };
        if !thread.is_finished() {
            // A thread drops the sender as its last action.
            let _ = ready!(Pin::new(&mut self.end).poll(cx));
        }
        let status = match self.thread.take().map(JoinHandle::join) {
            Some(Ok(())) => 0,
            _ => 1,
        };
        self.news.push(Event::Empty(proof()));
        Poll::Ready(Event::Exited(ExitStatus::from_raw(status)))
    }

    fn stop(&mut self, step: Step) {
        match step {
            Step::Ending => self.switch.turn_off(),
            Step::Closing | Step::Asking => self.switch.ask(),
        }
        if self.deadline.is_none() {
            self.deadline = Some(Box::pin(sleep(self.grace)));
        }
    }

    /// A thread has no guardian that could be lost.
    fn rescue(self: Box<Self>) -> BoxFuture<Outcome> {
        Box::pin(std::future::ready(Outcome::Unverified(Residue::Other("its thread".into()))))
    }

    fn part(self: Box<Self>) -> BoxFuture<()> {
        Box::pin(std::future::ready(()))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.switch.turn_off();
    }
}
