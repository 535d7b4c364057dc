//! Tests of the Door; the test plays both the client and the engine.

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
use super::{Door, DoorConfig, PriorTraffic};
use crate::containers::{Endpoint, EngineDoor, Labels};
use crate::id::{InstanceId, OwnerId};
use crate::notes::door_note;

const PATIENCE: Duration = Duration::from_secs(30);
/// More containers than all tests but one create.
const CAP: usize = 3;

/// A Door, the listening socket of its engine, and a ledger directory.
struct Fixture {
    door: Rc<Door>,
    engine: UnixListener,
    instance: InstanceId,
    directory: TempDir,
}

fn scene(play: impl AsyncFnOnce(&Fixture)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let scene = async {
        let (fixture, listener) = Fixture::build();
        let serving = tokio::task::spawn_local(Rc::clone(&fixture.door).serve(listener));
        tokio::time::timeout(PATIENCE, play(&fixture)).await.expect("the scene has no end");
        serving.abort();
    };
    LocalSet::new().block_on(&runtime, scene);
}

impl Fixture {
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
        let engine_door = EngineDoor { endpoint, socket: path("door.sock") };
        let note = door_note(&path("book"), &engine_door.socket);
        let config = DoorConfig { engine_door, note, labels, cap };
        let door = Rc::new(Door::new(config, PriorTraffic::default()));
        (Self { door, engine, instance, directory }, listener)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    async fn client(&self) -> UnixStream {
        UnixStream::connect(self.path("door.sock")).await.unwrap()
    }

    /// A client connection, and the engine's end of it.
    async fn pair(&self) -> (UnixStream, UnixStream) {
        let client = self.client().await;
        (client, self.engine.accept().await.unwrap().0)
    }

    fn note(&self) -> Option<Note> {
        Note::read(&self.path("book/door.door")).unwrap()
    }

    /// Waits until this many creates are pending.
    async fn creates(&self, expected: usize) {
        while self.door.creates().load(Ordering::Acquire) != expected {
            tokio::task::yield_now().await;
        }
    }
}

/// Sends bytes and expects them unchanged at the other side.
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
    // A connection reset counts as an end too.
    let _ = of.read_to_end(&mut rest).await;
    assert_eq!(String::from_utf8_lossy(&rest), "");
}

/// Reads one message with a `Content-Length`, as head and JSON content.
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

/// Reads one error response of the Door itself: its status and its message.
async fn denial(of: &mut UnixStream) -> (u16, String) {
    let (head, body) = request(of).await;
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body["message"].as_str().unwrap().to_owned())
}

fn post(target: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("POST {target} HTTP/1.1\r\nHost: d\r\nContent-Length: {length}\r\n\r\n{body}").into()
}
