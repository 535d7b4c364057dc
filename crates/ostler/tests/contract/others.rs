//! Keeper and sweep with a backend of the host.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ostler::backend::Backends;
use ostler::keeper::{Config, InstanceState, Keeper, Server, Sharing, What};
use ostler::sweep::dead_owners;
use ostler::{Frame, InstanceId, Outcome, Owner, OwnerId, Places, Proof, Residue, State};

use crate::threads::{self, Threads};
use crate::{spec, terms};

const LIMIT: Duration = Duration::from_secs(5);

#[tokio::test]
async fn a_keeper_shares_its_instances_like_any_others() {
    let directory = tempfile::tempdir().unwrap();
    let owner = Owner::new(Places::new([directory.path().to_owned()]), "others").unwrap();
    let mut server =
        Server { sharing: Sharing::All, ..Server::on(threads::NAME, spec("echo", &[])) };
    server.terms = terms();
    let missing = Server::on("nowhere", spec("echo", &[]));
    let servers = [("it".to_owned(), server), ("missing".to_owned(), missing)].into();
    let backends = Backends::default().with(Arc::new(Threads::default()));
    let config = Config { servers, ..Config::default() };
    let keeper = Keeper::on(backends, owner, config);
    let mut events = keeper.events();

    let session = keeper.session();
    let lease = session.acquire("it").await.unwrap();
    // The echo returns the request itself, which is no response.
    lease.notify(&Frame::parse(r#"{"jsonrpc":"2.0","method":"x"}"#).unwrap()).unwrap();
    let view = keeper.snapshot().instances.remove(0);
    assert_eq!((view.state.clone(), view.pid()), (InstanceState::Ready, None));
    let place = view.place().unwrap().to_owned();
    assert!(place.starts_with("thread-"), "{place}");
    assert_eq!(keeper.why(&place).unwrap().number, view.number);
    assert!(keeper.why("nobody").is_none());
    let refused = session.acquire("missing").await.unwrap_err().to_string();
    assert!(refused.contains("there is no backend 'nowhere'"), "{refused}");

    drop(lease);
    let books = keeper.shutdown().await;
    assert_eq!((books.started, books.gone, books.unverified), (2, 2, 0));
    let proven = std::iter::from_fn(|| events.try_recv().ok())
        .filter(|event| matches!(&event.what, What::Gone { proof: Some(Proof::Other(_)), .. }));
    assert_eq!(proven.count(), 1);
    assert_eq!(fs::read_dir(directory.path().join("owners")).unwrap().count(), 0);
}

/// A ledger whose owner died before a reboot, with a process entry in the old format and an entry of the thread backend.
struct Inherited {
    directory: PathBuf,
    process: InstanceId,
    thread: InstanceId,
}

impl Inherited {
    fn new(place: &Path) -> Self {
        let (process, thread) = (InstanceId::random().unwrap(), InstanceId::random().unwrap());
        let owner = OwnerId::random().unwrap();
        let mut private = fs::DirBuilder::new();
        private.mode(0o700).recursive(true);
        let directory = place.join("owners").join(owner.to_string());
        private.create(&directory).unwrap();
        fs::write(directory.join("owner.lock"), "").unwrap();
        let lines = [
            format!(
                r#"{{"record":"owner","id":"{owner}","process":{{"pid":1,"start":1}},"program":"old","client":null,"boot":"another"}}"#
            ),
            format!(
                r#"{{"record":"intent","instance":"{process}","name":"old","program":"cat","leaf":null,"at":1}}"#
            ),
            format!(
                r#"{{"record":"started","instance":"{process}","process":{{"guardian":{{"pid":2,"start":2}},"server":{{"pid":3,"start":3}}}},"level":"tree"}}"#
            ),
            format!(
                r#"{{"record":"intent","instance":"{thread}","name":"new","program":"echo","backend":"thread","handle":"thread-x","leaf":null,"at":2}}"#
            ),
            format!(
                r#"{{"record":"started","instance":"{thread}","elsewhere":{{"place":"thread-x"}}}}"#
            ),
        ];
        fs::write(directory.join("ledger"), lines.join("\n") + "\n").unwrap();
        Self { directory, process, thread }
    }
}

fn scene() -> (tempfile::TempDir, Places, Inherited) {
    let directory = tempfile::tempdir().unwrap();
    let places = Places::new([directory.path().to_owned()]);
    let inherited = Inherited::new(directory.path());
    (directory, places, inherited)
}

/// A reboot proves that no process is left, and nothing about other backends.
#[test]
fn the_sweep_of_the_fence_leaves_entries_of_other_backends_alone() {
    let (_directory, places, inherited) = scene();
    let dead = dead_owners(&places).remove(0);
    assert_eq!(dead.book().open_of("process").entries.len(), 1);
    let outcomes = dead.settle(LIMIT);
    assert!(!outcomes.contains_key(&inherited.thread), "{outcomes:?}");
    let left = dead_owners(&places).remove(0);
    assert!(left.book().open_entries().any(|(id, _)| id == inherited.thread));
    assert!(inherited.directory.exists());
}

#[tokio::test]
async fn entries_of_an_unknown_backend_are_shown_and_left_alone() {
    let (_directory, places, inherited) = scene();
    let backends = Backends::default();
    let views = backends.snapshot(&places).await;
    assert_eq!(views.len(), 1, "{views:?}");
    let view = &views[0];
    assert_eq!((view.instance, view.state), (inherited.thread, State::Orphaned));
    assert_eq!((view.backend.as_str(), view.place.as_deref()), ("thread", Some("thread-x")));
    assert!(!backends.ask(&view.entry) && backends.part(&view.entry, "thread-x").is_none());
    let dead = dead_owners(&places).remove(0);
    let listed = backends.list(&dead).await;
    assert!(listed[&inherited.thread].traces.lines[0].1.contains("'thread'"), "{listed:?}");
    let outcomes = backends.settle(dead, LIMIT).await;
    let Outcome::Unverified(Residue::Other(residue)) = &outcomes[&inherited.thread] else {
        panic!("{outcomes:?}")
    };
    assert!(residue.contains("'thread'"), "{residue}");
    assert!(inherited.directory.exists(), "a host with that backend has to find it");
}

#[tokio::test]
async fn its_own_backend_is_asked_for_the_proof() {
    let (_directory, places, inherited) = scene();
    let backends = Backends::default().with(Arc::new(Threads::default()));
    let outcomes = backends.settle(dead_owners(&places).remove(0), LIMIT).await;
    let gone = Outcome::Gone(Proof::Other("its thread has ended".into()));
    assert_eq!(outcomes[&inherited.thread], gone);
    assert!(!outcomes.contains_key(&inherited.process), "nothing of it can be left");
    assert!(!inherited.directory.exists());
}
