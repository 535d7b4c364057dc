//! Remote servers under a keeper.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ostler::keeper::{
    CallError, Cause, Config, Conversation, Fault, Fingerprint, InstanceState, Keeper, Remote,
    RemoteEnds, Server, Sharing, What,
};
use ostler::{Frame, Owner, Places, Proof};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(30);

/// A remote server that answers every request; the test decides how it ends.
#[derive(Debug, Default)]
struct Far {
    /// Ignores the order to stop.
    stays: bool,
    /// Number of open conversations.
    open: Arc<AtomicUsize>,
}

struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Remote for Far {
    fn name(&self) -> &'static str {
        "far"
    }

    fn place(&self) -> String {
        "https://far.invalid".to_owned()
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of_text("far")
    }

    fn speak(&self, ends: RemoteEnds) -> Conversation {
        self.open.fetch_add(1, Ordering::SeqCst);
        let (open, stays) = (Open(Arc::clone(&self.open)), self.stays);
        Box::pin(async move {
            let reason = tokio::select! {
                reason = echo(ends.input, ends.output) => reason,
                () = ends.leave.cancelled() => "it was left".to_owned(),
            };
            if stays {
                std::future::pending::<()>().await;
            }
            drop(open);
            reason
        })
    }
}

async fn echo(
    input: impl tokio::io::AsyncRead + Unpin,
    mut output: impl tokio::io::AsyncWrite + Unpin,
) -> String {
    let mut lines = BufReader::new(input).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let frame = Frame::parse(line.into_bytes()).unwrap();
        if frame.method() == b"go away" {
            return "it has gone away".to_owned();
        }
        let id = String::from_utf8_lossy(frame.id()).into_owned();
        let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}\n");
        output.write_all(answer.as_bytes()).await.unwrap();
    }
    "its input has ended".to_owned()
}

fn request(method: &str) -> Frame {
    Frame::parse(format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"}}"#)).unwrap()
}

fn keeper(far: Far) -> (Keeper, Arc<AtomicUsize>, tempfile::TempDir) {
    let state = tempfile::tempdir().unwrap();
    let owner = Owner::new(Places::new([state.path().join("ledgers")]), "test").unwrap();
    let open = Arc::clone(&far.open);
    let mut server = Server { sharing: Sharing::Session, ..Server::remote(Arc::new(far)) };
    server.terms.limits.grace = Duration::from_millis(100);
    server.limits.backoff.first = Duration::from_millis(1);
    let servers = [("far".to_owned(), server)].into();
    (Keeper::new(owner, Config { servers, ..Config::default() }), open, state)
}

#[tokio::test]
async fn a_remote_server_is_shared_and_stopped_and_is_in_no_ledger() {
    let (keeper, open, state) = keeper(Far::default());
    let mut events = keeper.events();
    let (one, other) = (keeper.session(), keeper.session());
    for session in [&one, &other, &one] {
        let answer = session.acquire("far").await.unwrap().call(&request("x")).await.unwrap();
        assert_eq!(answer.body(), b"{}");
    }
    let views = keeper.snapshot().instances;
    assert_eq!(views.len(), 2);
    assert_eq!((views[0].pid(), views[0].place()), (None, Some("https://far.invalid")));
    assert_eq!(views[0].state, InstanceState::Ready);
    assert!(!state.path().join("ledgers").exists());
    one.close().settled().await;
    assert_eq!(open.load(Ordering::SeqCst), 1);
    let books = keeper.shutdown().await;
    assert_eq!((books.started, books.gone, books.live, books.unverified), (2, 2, 0, 0));
    assert_eq!(open.load(Ordering::SeqCst), 0);
    let proven = std::iter::from_fn(|| events.try_recv().ok())
        .filter(|event| matches!(&event.what, What::Gone { proof: Some(Proof::Disconnected), .. }));
    assert_eq!(proven.count(), 2);
}

#[tokio::test]
async fn a_lost_connection_fails_its_calls_with_the_reason_and_is_replaced() {
    let (keeper, _, _state) = keeper(Far::default());
    let session = keeper.session();
    let lease = session.acquire("far").await.unwrap();
    let failed = lease.call(&request("go away")).await.unwrap_err();
    let CallError::Ended(ending) = failed else { panic!("{failed}") };
    assert_eq!(ending.cause, Cause::Unhealthy(Fault::Lost("it has gone away".into())));
    assert_eq!(ending.to_string(), "far: it has gone away");
    let next = session.acquire("far").await.unwrap();
    assert!(next.call(&request("x")).await.is_ok());
    assert_eq!(keeper.books().gone, 1);
}

#[tokio::test]
async fn a_conversation_that_ignores_the_order_to_stop_is_aborted_after_the_grace_time() {
    let (keeper, open, _state) = keeper(Far { stays: true, ..Far::default() });
    let session = keeper.session();
    session.acquire("far").await.unwrap().call(&request("x")).await.unwrap();
    let books = timeout(PATIENCE, keeper.shutdown()).await.unwrap();
    assert_eq!((books.gone, books.unverified), (1, 0));
    assert_eq!(open.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_dropped_keeper_drops_its_conversations() {
    let (keeper, open, _state) = keeper(Far { stays: true, ..Far::default() });
    let session = keeper.session();
    session.acquire("far").await.unwrap().call(&request("x")).await.unwrap();
    drop((session, keeper));
    let ended = async {
        while open.load(Ordering::SeqCst) > 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, ended).await.unwrap();
}
