//! The keeper inside a host program.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use std::sync::Arc;
use std::time::Duration;

use ostler::keeper::{AcquireError, Caps, Cause, Config, Keeper, Server, Sharing, Speech};
use ostler::{GuardianProgram, Owner, Places, ServerSpec};
use ostler_testkit::{binary, is_alive, wait_until};
use rmcp::ServiceExt;

const PATIENCE: Duration = Duration::from_secs(30);

fn stub(guardian: &str) -> Server {
    let spec = ServerSpec {
        name: "stub".into(),
        program: binary("ostler-stub").into(),
        args: Vec::new(),
        env: std::env::vars_os().collect(),
        cwd: None,
    };
    let mut server = Server::new(spec);
    server.terms.guardian = GuardianProgram::At(binary(guardian));
    // A held wire counts as use, so its instance drains before it ends.
    server.limits.drain = Duration::from_millis(100);
    server
}

fn config(server: Server) -> Config {
    Config { servers: [("stub".to_owned(), server)].into(), caps: Caps::default() }
}

fn keeper(server: Server) -> (Keeper, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let owner = Owner::new(Places::new([directory.path().to_owned()]), "embedding").unwrap();
    (Keeper::new(owner, config(server)), directory)
}

#[tokio::test]
async fn a_host_that_becomes_a_guardian_too_late_is_told_so() {
    let (keeper, _state) = keeper(stub("ostler-late"));
    let error = keeper.session().acquire("stub").await.unwrap_err();
    let AcquireError::Failed(ending) = error else { panic!("{error}") };
    let Cause::NotStarted(reason) = &ending.cause else { panic!("{ending}") };
    assert!(reason.to_string().contains("not below #[tokio::main]"), "{reason}");
    let books = keeper.shutdown().await;
    assert_eq!((books.started, books.gone), (1, 1));
}

/// From a bug report: clones of the SDK's client, held by detached tasks, kept the process alive.
#[tokio::test]
async fn l25_s19_clones_of_an_sdk_client_keep_nothing_alive() {
    let server = Server { sharing: Sharing::Session, speech: Speech::Bytes, ..stub("ostler") };
    let (keeper, _state) = keeper(server.clone());
    let session = keeper.session();
    let wire = session.acquire("stub").await.unwrap().wire().unwrap();
    let client = Arc::new(().serve(wire).await.unwrap());
    assert!(!client.list_all_tools().await.unwrap().is_empty());
    let pid = keeper.snapshot().instances[0].pid().unwrap();

    let held = Arc::clone(&client);
    let detached = tokio::spawn(async move {
        let _held = held;
        std::future::pending::<()>().await;
    });
    let mut changed = server;
    changed.spec_mut().unwrap().env.push(("CHANGED".into(), "1".into()));
    let (_, departure) = keeper.replace(config(changed));
    assert!(departure.settled().await.is_empty());
    assert!(!is_alive(u32::try_from(pid).unwrap()));
    assert!(client.list_all_tools().await.is_err(), "a clone gets an error");

    detached.abort();
    let books = keeper.shutdown().await;
    assert_eq!((books.started, books.gone), (1, 1));
}

#[tokio::test]
async fn the_pipes_of_an_instance_are_lent_once() {
    let server = Server { sharing: Sharing::All, speech: Speech::Bytes, ..stub("ostler") };
    let (keeper, _state) = keeper(server);
    let session = keeper.session();
    let lease = session.acquire("stub").await.unwrap();
    let wire = lease.wire().unwrap();
    assert!(lease.wire().is_err());
    drop(wire);
    keeper.shutdown().await;
}

/// The end needs neither a destructor nor a runtime.
#[test]
fn s21_the_end_of_a_runtime_ends_everything() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (keeper, state, pid) = runtime.block_on(async {
        let (keeper, state) = keeper(stub("ostler"));
        let session = keeper.agent("somebody").session();
        session.acquire("stub").await.unwrap();
        let pid = keeper.snapshot().instances[0].pid().unwrap();
        (keeper, state, u32::try_from(pid).unwrap())
    });
    drop(runtime);
    wait_until("the server is gone", PATIENCE, || !is_alive(pid));
    assert!(keeper.books().balance());
    drop(keeper);
    wait_until("the ledger is settled", PATIENCE, || {
        std::fs::read_dir(state.path().join("owners")).unwrap().count() == 0
    });
}
