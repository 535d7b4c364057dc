//! The Door between a client and an engine that are played by the tests.

mod creates;
mod images;
mod streams;
mod trouble;
mod verbatim;

use std::fs;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::LocalSet;

use super::note::Note;
use super::{Before, Door, DoorOrders};
use crate::containers::{Endpoint, Labels, Passage};
use crate::id::{InstanceId, OwnerId};
use crate::notes::door_note;

const PATIENCE: Duration = Duration::from_secs(30);
/// More than any scene makes but one.
const CAP: usize = 3;

/// A Door, the engine behind it, and the directory of the ledger.
struct House {
    door: Rc<Door>,
    engine: UnixListener,
    instance: InstanceId,
    directory: TempDir,
}

/// Plays a scene in a house of its own.
fn scene(play: impl AsyncFnOnce(&House)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let scene = async {
        let (house, listener) = House::build();
        let serving = tokio::task::spawn_local(Rc::clone(&house.door).serve(listener));
        tokio::time::timeout(PATIENCE, play(&house)).await.expect("the scene has no end");
        serving.abort();
    };
    LocalSet::new().block_on(&runtime, scene);
}

impl House {
    fn build() -> (Self, UnixListener) {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::create_dir(path("book")).unwrap();
        fs::write(path("book/ledger"), "").unwrap();
        let engine = UnixListener::bind(path("engine.sock")).unwrap();
        let listener = UnixListener::bind(path("door.sock")).unwrap();
        let instance = InstanceId::random().unwrap();
        let labels = Labels { instance, owner: OwnerId::random().unwrap(), server: "stub".into() };
        let endpoint = Endpoint::Unix(path("engine.sock"));
        let cap = NonZeroUsize::new(CAP);
        let passage = Passage { endpoint, socket: path("door.sock") };
        let note = door_note(&path("book"), &passage.socket);
        let orders = DoorOrders { passage, note, labels, cap };
        let door = Rc::new(Door::new(orders, Before::default()));
        (Self { door, engine, instance, directory }, listener)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    async fn client(&self) -> UnixStream {
        UnixStream::connect(self.path("door.sock")).await.unwrap()
    }

    /// A client, and the engine's end of its connection.
    async fn pair(&self) -> (UnixStream, UnixStream) {
        let client = self.client().await;
        (client, self.engine.accept().await.unwrap().0)
    }

    fn note(&self) -> Option<Note> {
        Note::read(&self.path("book/door.door")).unwrap()
    }

    /// Waits until so many creates are under way.
    async fn creates(&self, expected: usize) {
        while self.door.creates().load(Ordering::Acquire) != expected {
            tokio::task::yield_now().await;
        }
    }
}

/// What is sent arrives as it is.
async fn passes(from: &mut UnixStream, to: &mut UnixStream, bytes: &[u8]) {
    from.write_all(bytes).await.unwrap();
    arrives(to, bytes).await;
}

async fn arrives(to: &mut UnixStream, bytes: &[u8]) {
    let mut arrived = vec![0; bytes.len()];
    to.read_exact(&mut arrived).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&arrived), String::from_utf8_lossy(bytes));
}

async fn expect_end(of: &mut UnixStream) {
    let mut rest = Vec::new();
    // A reset is an end as well.
    let _ = of.read_to_end(&mut rest).await;
    assert_eq!(String::from_utf8_lossy(&rest), "");
}

/// One request with a length, as head and content.
async fn request(of: &mut UnixStream) -> (String, Value) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(of.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    let line = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let mut body = vec![0; line.expect("a length").parse().unwrap()];
    of.read_exact(&mut body).await.unwrap();
    (head, serde_json::from_slice(&body).unwrap())
}

/// One answer of the Door itself: its status and its message.
async fn denial(of: &mut UnixStream) -> (u16, String) {
    let (head, body) = request(of).await;
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body["message"].as_str().unwrap().to_owned())
}

fn post(target: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("POST {target} HTTP/1.1\r\nHost: d\r\nContent-Length: {length}\r\n\r\n{body}").into()
}
