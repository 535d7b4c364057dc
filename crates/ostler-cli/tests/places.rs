//! Directories of the ledger, and the fallbacks if they cannot be used.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use ostler_testkit::{Launched, Stage, User, rows, wait_until};
use rustix::process::Signal;

const PATIENCE: Duration = Duration::from_secs(30);

/// A small file system, mounted for as long as this lives.
struct Tmpfs(PathBuf);

impl Tmpfs {
    fn mount(path: &Path) -> Self {
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64k,mode=0777", "ostler-test"])
            .arg(path)
            .status();
        assert!(status.unwrap().success());
        Self(path.to_owned())
    }

    /// Fills the file system completely.
    fn fill(&self) {
        assert!(fs::write(self.0.join("filler"), vec![0; 1 << 20]).is_err());
    }

    fn empty(&self) {
        fs::remove_file(self.0.join("filler")).unwrap();
    }

    fn make_read_only(&self) {
        let status = Command::new("mount").args(["-o", "remount,ro"]).arg(&self.0).status();
        assert!(status.unwrap().success());
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

fn uid_of(stage: &Stage) -> u32 {
    if let User::Nobody(uid) = stage.user { uid } else { 0 }
}

/// The environment that decides where the ledger is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Machine {
    /// The directories of the sandbox are named by variables.
    Usual,
    /// No runtime directory is named, so that the one which depends on the uid counts.
    Own,
}

impl Machine {
    fn ostler(self, stage: &Stage, words: &[&str]) -> Command {
        let ostler = &stage.run_words()[0];
        let mut command = match self {
            Self::Usual => stage.command(ostler),
            Self::Own => stage.sandbox.command_on_own_system(stage.user, ostler),
        };
        command.args(words);
        command
    }
}

/// Path of a user's temporary directory on the test's own system: outside, and as programs see it.
fn by_uid(stage: &Stage) -> (PathBuf, PathBuf) {
    let name = format!("ostler-{}", uid_of(stage));
    (stage.sandbox.system().tmp().join(&name), Path::new("/tmp").join(name))
}

/// Replaces the directory by a file, so that not even root can use it.
fn obstruct(place: &Path) {
    fs::remove_dir(place).unwrap();
    fs::write(place, "").unwrap();
}

fn ledgers_in(place: &Path) -> usize {
    fs::read_dir(place.join("owners")).map_or(0, Iterator::count)
}

/// Runs a server whose ledger must be in `place`: it is there while the server lives, also after
/// both of its keepers have died, and a sweep finds it there.
fn assert_kept_in(stage: &Stage, machine: Machine, place: &Path) {
    let start = || {
        let _ = fs::remove_file(stage.sandbox.file("ready"));
        let words = stage.stub_words(&["--setsid-child"]);
        let run = Launched::start(machine.ostler(stage, &["run", "--"]).args(words));
        stage.sandbox.wait_ready(PATIENCE);
        assert_eq!(ledgers_in(place), 1, "{}", run.stderr());
        let found = fs::metadata(place).unwrap();
        assert_eq!((found.mode() & 0o777, found.uid()), (0o700, uid_of(stage)));
        run
    };
    let mut run = start();
    run.close_stdin();
    assert!(stage.wait_exit(&mut run).success());
    assert_eq!(ledgers_in(place), 0);

    let mut run = start();
    run.signal(Signal::KILL);
    stage.wait_exit(&mut run);
    wait_until("its guardian has settled the ledger", PATIENCE, || ledgers_in(place) == 0);

    let mut run = start();
    stage.abandon(&mut run);
    assert_eq!(ledgers_in(place), 1);
    let reaped = machine.ostler(stage, &["reap", "--yes"]).output().unwrap();
    assert!(reaped.status.success());
    assert_eq!(ledgers_in(place), 0);
    stage.sandbox.expect_no_process_left(PATIENCE);
    stage.bystanders().assert_untouched();
}

/// Expects one line with the reason, and that nothing was started.
fn assert_refused(stage: &Stage, machine: Machine, reasons: &[&str]) {
    let started = stage.sandbox.file("started");
    let mut command = machine.ostler(stage, &["run", "--"]);
    let output = command.arg("touch").arg(&started).stdin(Stdio::null()).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), stderr.lines().count()), (Some(1), 1), "{stderr}");
    assert!(stderr.starts_with("ostler: touch: no directory can hold the ledger ("), "{stderr}");
    for reason in reasons {
        assert!(stderr.contains(reason), "{reason} is not said: {stderr}");
    }
    assert!(!started.exists());
    stage.sandbox.expect_no_process_left(PATIENCE);
    assert_eq!(stage.sandbox.survivors().cgroups, Vec::<PathBuf>::new());
    stage.bystanders().assert_untouched();
}

rows! {
    fn the_state_directory_is_the_first_choice(stage) {
        assert_kept_in(&stage, Machine::Usual, &stage.sandbox.state().join("ostler"));
        // Sockets are there, as long as their servers live.
        assert_eq!(ledgers_in(&stage.sandbox.runtime().join("ostler")), 0);
        assert_eq!(fs::read_dir(stage.sandbox.runtime().join("ostler/doors")).unwrap().count(), 0);
    }

    fn a_state_directory_that_cannot_be_written_is_followed_by_the_runtime_directory(stage) {
        match stage.user {
            User::Root => obstruct(&stage.sandbox.state()),
            User::Nobody(_) => {
                fs::set_permissions(stage.sandbox.state(), Permissions::from_mode(0o555)).unwrap();
            }
        }
        assert_kept_in(&stage, Machine::Usual, &stage.sandbox.runtime().join("ostler"));
    }

    fn a_read_only_state_directory_is_followed_by_the_runtime_directory(stage) {
        let tmpfs = Tmpfs::mount(&stage.sandbox.state());
        tmpfs.make_read_only();
        assert_kept_in(&stage, Machine::Usual, &stage.sandbox.runtime().join("ostler"));
    }

    fn a_full_state_directory_is_followed_by_the_runtime_directory(stage) {
        let tmpfs = Tmpfs::mount(&stage.sandbox.state());
        tmpfs.fill();
        assert_kept_in(&stage, Machine::Usual, &stage.sandbox.runtime().join("ostler"));
        // The attempts left nothing there.
        tmpfs.empty();
        assert_eq!(ledgers_in(&stage.sandbox.state().join("ostler")), 0);
    }

    /// Written records stay, and the end of the server is noticed although it can't be written.
    fn a_state_directory_that_fills_up_while_a_server_runs(stage) {
        let tmpfs = Tmpfs::mount(&stage.sandbox.state());
        let mut host = stage.host(3, &["--setsid-child"], &[]);
        tmpfs.fill();
        assert_eq!(stage.ostler_json(&["ps", "--json"]).as_array().unwrap().len(), 3);
        assert!(host.obey("stop").starts_with("gone: 3 "));
        assert_eq!(stage.ostler_json(&["ps", "--json"]), serde_json::json!([]));
        assert!(stage.ledgers().is_empty());
        assert!(host.obey("cycle").starts_with("gone: 3 "));
        host.order("exit");
        stage.wait_exit(&mut host.0);
        tmpfs.empty();
        stage.expect_empty();
    }

    fn without_a_state_directory_the_ledger_is_in_the_runtime_directory_of_the_uid(stage) {
        obstruct(&stage.sandbox.state());
        let runtime = stage.sandbox.system().log_in(uid_of(&stage));
        assert_kept_in(&stage, Machine::Own, &runtime.join("ostler"));
        assert!(!by_uid(&stage).0.exists());
    }

    fn without_both_the_ledger_is_in_the_temporary_directory(stage) {
        obstruct(&stage.sandbox.state());
        assert_kept_in(&stage, Machine::Own, &by_uid(&stage).0);
    }

    fn without_a_place_for_the_ledger_nothing_is_started(stage) {
        obstruct(&stage.sandbox.state());
        obstruct(&stage.sandbox.runtime());
        assert_refused(&stage, Machine::Usual, &[
            &format!("{}/ostler: Not a directory", stage.sandbox.state().display()),
            &format!("{}/ostler: Not a directory", stage.sandbox.runtime().display()),
            "set XDG_STATE_HOME to one that can",
        ]);
    }

    fn a_temporary_directory_of_another_user_is_refused(stage) {
        obstruct(&stage.sandbox.state());
        let (place, seen) = by_uid(&stage);
        fs::create_dir(&place).unwrap();
        fs::set_permissions(&place, Permissions::from_mode(0o777)).unwrap();
        chown(&place, Some(12345), Some(12345)).unwrap();
        assert_refused(&stage, Machine::Own, &[&format!("{} belongs to another user", seen.display())]);
        assert_eq!(fs::read_dir(&place).unwrap().count(), 0);

        // A symlink is not followed either.
        fs::remove_dir(&place).unwrap();
        std::os::unix::fs::symlink(stage.sandbox.home(), &place).unwrap();
        assert_refused(&stage, Machine::Own, &[&seen.display().to_string()]);
        assert_eq!(fs::read_dir(stage.sandbox.home()).unwrap().count(), 0);
    }

    /// Files that other users could have created are not used.
    fn a_temporary_directory_that_others_can_write_to_is_refused(stage) {
        obstruct(&stage.sandbox.state());
        let (place, seen) = by_uid(&stage);
        fs::create_dir(&place).unwrap();
        chown(&place, Some(uid_of(&stage)), None).unwrap();
        for mode in [0o777, 0o770] {
            fs::set_permissions(&place, Permissions::from_mode(mode)).unwrap();
            assert_refused(&stage, Machine::Own, &[&format!("{} and its parent directory are writable by other users", seen.display())]);
        }
        // A directory that others could only read is closed to them and used.
        fs::set_permissions(&place, Permissions::from_mode(0o755)).unwrap();
        assert_kept_in(&stage, Machine::Own, &place);
    }
}
