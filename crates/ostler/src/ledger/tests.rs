use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;
use crate::id::OwnerId;
use crate::identity::Identity;
use crate::level::Level;
use crate::outcome::{Proof, Residue};
use crate::whereabouts::Whereabouts;

const SOMEBODY: Identity = Identity { pid: 1, start: 1 };

/// An owner's ledger with two places.
struct Scene {
    first: TempDir,
    second: TempDir,
    ledger: Ledger,
}

impl Scene {
    fn new() -> Self {
        let (first, second) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let places = Places::new([first.path().to_owned(), second.path().to_owned()]);
        let owner = OwnerRecord {
            id: OwnerId::random().unwrap(),
            process: SOMEBODY,
            program: "test".into(),
            client: None,
            boot: "boot".into(),
        };
        Self { ledger: Ledger::new(places, owner), first, second }
    }

    /// Owner directories in each place.
    fn directories(&self) -> [Vec<PathBuf>; 2] {
        [&self.first, &self.second].map(|place| {
            let entries = fs::read_dir(owners_in(place.path())).into_iter().flatten();
            entries.map(|entry| entry.unwrap().path()).collect()
        })
    }

    fn assert_idle(&self) {
        assert_eq!(self.directories(), [Vec::<PathBuf>::new(), Vec::new()]);
    }

    /// Unsettled instances on disk, in each place.
    fn open_on_disk(&self) -> [Vec<InstanceId>; 2] {
        self.directories().map(|directories| {
            let books = directories.iter().map(|directory| Book::read(directory).unwrap());
            books
                .flat_map(|book| book.open_entries().map(|(id, _)| id).collect::<Vec<_>>())
                .collect()
        })
    }

    fn intend(&self) -> InstanceId {
        let instance = InstanceId::random().unwrap();
        let (name, program) = ("name".to_owned(), "program".to_owned());
        self.ledger
            .intend(Intent {
                instance,
                name,
                program,
                backend: PROCESS.into(),
                handle: String::new(),
                leaf: None,
                cgroups: Vec::new(),
                ways: Ways::default(),
                log: None,
                at: 0,
            })
            .unwrap();
        instance
    }

    fn start(&self, instance: InstanceId) {
        let (guardian, server) = (SOMEBODY, SOMEBODY);
        let whereabouts = Whereabouts::Process { guardian, server };
        let start = Start { instance, whereabouts, level: Some(Level::Tree) };
        self.ledger.note(&Record::Started(start));
    }

    fn end(&self, instance: InstanceId) {
        self.ledger.note(&Record::Ended { instance, end: End::Gone(Proof::NoChild) });
    }

    /// Makes writes to the first directory's file fail, as on a full disk.
    fn fill_the_first(&self) {
        self.ledger.lock()[0].file = OpenOptions::new().append(true).open("/dev/full").unwrap();
    }

    fn text(&self) -> String {
        fs::read_to_string(self.directories()[0][0].join(LEDGER)).unwrap()
    }
}

#[test]
fn an_idle_owner_leaves_nothing() {
    let scene = Scene::new();
    scene.assert_idle();
    let (one, other) = (scene.intend(), scene.intend());
    assert_eq!(scene.directories().map(|found| found.len()), [1, 0]);
    scene.end(one);
    scene.start(other);
    assert_eq!(scene.open_on_disk(), [vec![other], vec![]]);
    scene.end(other);
    scene.assert_idle();
    // It can start again.
    let third = scene.intend();
    assert_eq!(scene.open_on_disk(), [vec![third], vec![]]);
    drop(scene.ledger);
    assert_eq!(fs::read_dir(owners_in(scene.first.path())).unwrap().count(), 1, "it is still open");
}

#[test]
fn a_refused_start_is_settled_and_a_residue_is_not() {
    let scene = Scene::new();
    let (refused, left) = (scene.intend(), scene.intend());
    scene.ledger.note(&Record::Ended { instance: refused, end: End::Refused });
    let end = End::Unverified(Residue::Processes(Vec::new()));
    scene.ledger.note(&Record::Ended { instance: left, end });
    assert_eq!(scene.open_on_disk(), [vec![left], vec![]]);
    scene.end(left);
    scene.assert_idle();
}

#[test]
fn compaction_keeps_open_entries_and_drops_settled_ones() {
    let scene = Scene::new();
    let kept = scene.intend();
    scene.start(kept);
    let mut most = 0;
    for _ in 0..10 * COMPACT_BEYOND {
        let instance = scene.intend();
        scene.start(instance);
        scene.end(instance);
        most = most.max(scene.text().lines().count());
    }
    assert!(most < COMPACT_BEYOND, "{most} lines");
    assert_eq!(scene.open_on_disk(), [vec![kept], vec![]]);
    let book = Book::read(&scene.directories()[0][0]).unwrap();
    assert!(book.entries[&kept].start.is_some());
    assert_eq!(book.owner.program, "test");
}

#[test]
fn many_open_entries_do_not_cause_useless_rewrites() {
    let scene = Scene::new();
    let open: Vec<InstanceId> = (0..2 * COMPACT_BEYOND).map(|_| scene.intend()).collect();
    assert_eq!(scene.text().lines().count(), 1 + open.len());
    scene.end(open[0]);
    assert_eq!(scene.open_on_disk()[0].len(), open.len() - 1);
}

#[test]
fn a_compaction_that_fails_changes_nothing() {
    let scene = Scene::new();
    let kept = scene.intend();
    // Renaming a file onto a directory fails.
    fs::create_dir(scene.directories()[0][0].join(LEDGER_ASIDE)).unwrap();
    for _ in 0..COMPACT_BEYOND {
        let instance = scene.intend();
        scene.end(instance);
    }
    assert_eq!(scene.directories().map(|found| found.len()), [1, 0]);
    assert_eq!(scene.open_on_disk(), [vec![kept], vec![]]);
    fs::remove_dir(scene.directories()[0][0].join(LEDGER_ASIDE)).unwrap();
    // The remains of a failed attempt do not prevent the next.
    symlink("/dev/full", scene.directories()[0][0].join(LEDGER_ASIDE)).unwrap();
    let last = scene.intend();
    assert!(scene.text().lines().count() < COMPACT_BEYOND);
    assert_eq!(scene.open_on_disk()[0].len(), 2);
    scene.end(last);
    scene.end(kept);
    scene.assert_idle();
}

#[test]
fn a_full_place_falls_back_to_the_next() {
    let scene = Scene::new();
    let first = scene.intend();
    scene.fill_the_first();
    fs::create_dir(scene.directories()[0][0].join(LEDGER_ASIDE)).unwrap();
    let second = scene.intend();
    assert_eq!(scene.open_on_disk(), [vec![first], vec![second]]);
    // Each record goes to the directory of its intent.
    scene.start(second);
    scene.end(second);
    assert_eq!(scene.directories().map(|found| found.len()), [1, 0]);
    scene.end(first);
    scene.assert_idle();
}

#[test]
fn an_end_that_could_not_be_written_is_written_later() {
    let scene = Scene::new();
    let (ended, open) = (scene.intend(), scene.intend());
    scene.fill_the_first();
    scene.end(ended);
    assert_eq!(scene.open_on_disk()[0].len(), 2, "the disk was full");
    // The next write brings the file up to date.
    scene.start(open);
    assert_eq!(scene.open_on_disk(), [vec![open], vec![]]);
    scene.fill_the_first();
    scene.end(open);
    // A removal needs no space.
    scene.assert_idle();
}

#[test]
fn without_a_place_every_intent_is_refused() {
    let scene = Scene::new();
    let places = Places::new(["/dev/null/here".into(), "/proc/there".into()]);
    let ledger = Ledger::new(places, scene.ledger.owner.clone());
    let intent = Intent {
        instance: InstanceId::random().unwrap(),
        name: "name".into(),
        program: "program".into(),
        backend: PROCESS.into(),
        handle: String::new(),
        leaf: None,
        cgroups: Vec::new(),
        ways: Ways::default(),
        log: None,
        at: 0,
    };
    let refusal = ledger.intend(intent).unwrap_err().to_string();
    assert_eq!(
        refusal,
        "no directory can hold the ledger (/dev/null/here: Not a directory (os error 20); \
         /proc/there: No such file or directory (os error 2)); set XDG_STATE_HOME to one that can"
    );
}

#[test]
fn a_partial_line_is_ignored_and_the_next_one_counts() {
    let scene = Scene::new();
    let (one, other) = (scene.intend(), scene.intend());
    let directory = scene.directories()[0].remove(0);
    let text = scene.text();
    fs::write(directory.join(LEDGER), &text[..text.len() - 10]).unwrap();
    assert_eq!(scene.open_on_disk(), [vec![one], vec![]]);
    drop(scene.ledger);

    let held = OwnerLock::take_over(&lock_in(&directory), Patience::GiveUp).unwrap().unwrap();
    let end = Record::Ended { instance: one, end: End::Refused };
    append(&directory, &end, &held).unwrap();
    let book = Book::read(&directory).unwrap();
    assert_eq!((book.entries.len(), book.open_entries().count()), (1, 0));
    assert!(!book.entries.contains_key(&other));
}

#[test]
fn the_first_record_of_an_owner_and_of_an_intent_counts() {
    let scene = Scene::new();
    let one = scene.intend();
    scene.start(one);
    let directory = scene.directories()[0].remove(0);
    let doubled =
        scene.text().repeat(2).replacen("\"program\":\"test\"", "\"program\":\"first\"", 1);
    fs::write(directory.join(LEDGER), doubled).unwrap();
    let book = Book::read(&directory).unwrap();
    assert_eq!(book.owner.program, "first");
    assert!(book.entries[&one].start.is_some());
}
