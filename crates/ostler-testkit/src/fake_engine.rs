//! A fake engine that answers requests, also wrongly, late or not at all.

mod http;
mod images;

use std::collections::VecDeque;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use http::Request;
use images::Images;

/// How the fake treats one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// It never answers.
    Hang,
    /// It answers with this status, and does nothing.
    Say(u16),
    /// It carries out the request, and responds after this time.
    Late(Duration),
    /// It carries out the request after this time, and responds then.
    Slow(Duration),
    /// It carries out the request, and closes the connection in the middle of its response.
    Half,
    /// It carries out the request.
    Obey,
}

/// A request that the fake was sent.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Method and path.
    pub line: String,
    /// When it arrived.
    pub at: Instant,
}

/// A fake engine on its own socket, with the part of the API that a create and a removal use.
#[derive(Debug)]
pub struct FakeEngine {
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
    directory: TempDir,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Set when the fake ends, for responses that never come.
    over: Condvar,
}

#[derive(Debug, Default)]
struct State {
    containers: Vec<Value>,
    /// Containers that appear after this many further lists.
    expected: Vec<(usize, Value)>,
    script: Vec<(String, VecDeque<Act>)>,
    asked: Vec<Asked>,
    /// Removals in flight, and the highest number of them so far.
    removals: (usize, usize),
    version: String,
    images: Images,
    ignores_filters: bool,
    is_over: bool,
}

impl FakeEngine {
    /// Starts one without containers.
    pub fn start() -> Self {
        let directory = tempfile::Builder::new().prefix("ostler-test-fake-").tempdir();
        let directory = directory.expect("a directory");
        let socket = UnixListener::bind(directory.path().join("docker.sock")).expect("a socket");
        let shared = Arc::new(Shared::default());
        "1.41".clone_into(&mut shared.state().version);
        let own = Arc::clone(&shared);
        let listener =
            Builder::new().name("fake engine".into()).spawn(move || listen(&socket, &own));
        Self { shared, listener: Some(listener.expect("a thread")), directory }
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("docker.sock")
    }

    /// Its address, for `DOCKER_HOST`.
    pub fn host(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// A running container with this label.
    pub fn add(&self, id: &str, (name, value): (&str, &str)) {
        self.state().containers.push(container(id, &json!({ name: value })));
    }

    /// Adds a running container that appears after this many further lists.
    pub fn add_after_lists(&self, lists: usize, id: &str, (name, value): (&str, &str)) {
        self.state().expected.push((lists, container(id, &json!({ name: value }))));
    }

    /// Scripts the next requests whose method and path begin with this (without a version).
    pub fn script(&self, beginning: &str, acts: &[Act]) {
        self.state().script.push((beginning.to_owned(), acts.iter().copied().collect()));
    }

    /// From now on it announces this version of the API.
    pub fn announce(&self, version: &str) {
        version.clone_into(&mut self.state().version);
    }

    /// From now on its lists ignore filters.
    pub fn ignore_filters(&self) {
        self.state().ignores_filters = true;
    }

    /// The highest number of removals in flight so far.
    pub fn most_removals_at_once(&self) -> usize {
        self.state().removals.1
    }

    /// The containers that it has.
    pub fn containers(&self) -> Vec<String> {
        let id = |one: &Value| one["Id"].as_str().unwrap_or_default().to_owned();
        self.state().containers.iter().map(id).collect()
    }

    /// All requests that begin so.
    pub fn asked(&self, beginning: &str) -> Vec<Asked> {
        let asked = self.state().asked.clone();
        asked.into_iter().filter(|one| one.line.starts_with(beginning)).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }
}

impl Drop for FakeEngine {
    fn drop(&mut self) {
        self.state().is_over = true;
        self.shared.over.notify_all();
        // Wakes the listener, which then sees the flag and ends.
        let _ = UnixStream::connect(self.socket());
        if let Some(listener) = self.listener.take() {
            listener.join().expect("the fake engine");
        }
    }
}

fn container(id: &str, labels: &Value) -> Value {
    json!({
        "Id": id, "Names": [format!("/{id}")], "Image": "image", "Command": "command",
        "ImageID": images::PLAIN, "State": "running", "Created": 1, "Labels": labels,
    })
}

/// An exec session whose id is the pid of its process; its container does not exist.
fn exec(pid: &str) -> Value {
    json!({"Running": true, "Pid": pid.parse::<i32>().unwrap_or(0), "ContainerID": "f".repeat(64)})
}

fn listen(socket: &UnixListener, shared: &Arc<Shared>) {
    let mut threads = Vec::new();
    while let Ok((stream, _)) = socket.accept() {
        if shared.state().is_over {
            break;
        }
        let own = Arc::clone(shared);
        let answer = move || drop(own.answer(stream));
        threads.push(Builder::new().name("fake answer".into()).spawn(answer).expect("a thread"));
    }
    for thread in threads {
        thread.join().expect("an answer of the fake");
    }
}

impl Shared {
    /// Answers the one request of a connection. Errors are ignored: the client may have left.
    fn answer(&self, mut stream: UnixStream) -> std::io::Result<()> {
        let Some(request) = Request::read(&mut stream)? else { return Ok(()) };
        let act = self.state().note(&request);
        if let Act::Slow(time) = act {
            self.wait(time);
        }
        let (status, body) = match act {
            Act::Hang | Act::Say(_) => (0, Value::Null),
            Act::Late(_) | Act::Slow(_) | Act::Half | Act::Obey => self.state().obey(&request),
        };
        match act {
            Act::Hang => self.wait(Duration::MAX),
            Act::Late(time) => self.wait(time),
            Act::Say(_) | Act::Slow(_) | Act::Half | Act::Obey => {}
        }
        let version = {
            let mut state = self.state();
            state.removals.0 -= usize::from(request.method == "DELETE");
            state.version.clone()
        };
        let mut answer = http::Answer { stream: &mut stream, version: &version };
        match act {
            Act::Hang => Ok(()),
            Act::Say(status) => answer.whole(status, &json!({"message": "scripted"})),
            Act::Half => answer.half(status, &body),
            Act::Late(_) | Act::Slow(_) | Act::Obey => answer.whole(status, &body),
        }
    }

    /// Waits for a duration, or until the fake ends.
    fn wait(&self, time: Duration) {
        drop(self.over.wait_timeout_while(self.state(), time, |state| !state.is_over));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the fake's state")
    }
}

impl State {
    /// Records the request and returns how to treat it.
    fn note(&mut self, request: &Request) -> Act {
        let line = &request.line;
        self.asked.push(Asked { line: line.clone(), at: Instant::now() });
        if request.method == "DELETE" {
            self.removals.0 += 1;
            self.removals.1 = self.removals.1.max(self.removals.0);
        }
        let mut matching =
            self.script.iter_mut().filter(|(start, _)| line.starts_with(start.as_str()));
        matching.find_map(|(_, acts)| acts.pop_front()).unwrap_or(Act::Obey)
    }

    /// Response of a well-behaved engine.
    fn obey(&mut self, request: &Request) -> (u16, Value) {
        let mut parts = request.path.trim_start_matches('/').split('/');
        match (request.method.as_str(), parts.next(), parts.next(), parts.next()) {
            ("HEAD", Some("_ping"), ..) => (200, Value::Null),
            ("GET", Some("_ping"), ..) => (200, json!("OK")),
            ("GET", Some("networks"), ..) => (200, json!([])),
            ("GET", Some("containers"), Some("json"), _) => (200, self.list(&request.query)),
            ("GET", Some("containers"), Some(_), _) => (200, self.images.details()),
            ("GET", Some("images"), Some(id), _) => self.images.inspect(id, &request.query),
            ("GET", Some("exec"), Some(pid), _) => (200, exec(pid)),
            ("POST", Some("containers"), Some("create"), _) => self.create(&request.body),
            ("POST", Some("containers"), Some(_), Some("stop")) => (204, Value::Null),
            ("DELETE", Some("containers"), Some(id), _) => self.remove(id),
            _ => (404, json!({"message": "no such page"})),
        }
    }

    fn list(&mut self, query: &str) -> Value {
        let (mut ready, mut expected) = (Vec::new(), Vec::new());
        for (lists, container) in self.expected.drain(..) {
            match lists.checked_sub(1) {
                None => ready.push(container),
                Some(left) => expected.push((left, container)),
            }
        }
        self.expected = expected;
        self.containers.append(&mut ready);
        let wanted = http::label_in(query);
        let all = self.ignores_filters;
        let matches = |one: &&Value| {
            let labels = one["Labels"].as_object().into_iter().flatten();
            labels
                .map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default()))
                .any(|l| all || l == wanted)
        };
        self.containers.iter().filter(matches).cloned().collect()
    }

    fn create(&mut self, body: &[u8]) -> (u16, Value) {
        let asked: Value = serde_json::from_slice(body).unwrap_or_default();
        let id = format!("{:064x}", self.asked.len());
        self.containers.push(container(&id, &asked["Labels"]));
        (201, json!({"Id": id, "Warnings": []}))
    }

    fn remove(&mut self, id: &str) -> (u16, Value) {
        let before = self.containers.len();
        self.containers.retain(|one| one["Id"] != id);
        let found = self.containers.len() < before;
        if found { (204, Value::Null) } else { (404, json!({"message": "no such container"})) }
    }
}
