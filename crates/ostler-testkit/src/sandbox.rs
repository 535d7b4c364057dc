//! Isolation of one test: directories, a token in the environment, and a cgroup.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tempfile::TempDir;

use crate::ambient::keep_descriptors_from_programs;
use crate::controllers::Controllers;
use crate::process::all_pids;
use crate::survivors::Survivors;
use crate::system::System;
use crate::wait::{poll, wait_until};
use crate::{Cgroup, Token, binary};

/// Joins each cgroup of the list `$0` before the program starts, without a hook between fork and exec.
const JOIN: &str =
    r#"IFS=:; for cgroup in $0; do echo $$ > "$cgroup/cgroup.procs" || exit; done; exec "$@""#;
/// Writable for every user, because the program under test may be any.
const SUBDIRECTORIES: [&str; 4] = ["state", "runtime", "home", "files"];

/// User of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// Root, the user of the tests.
    Root,
    /// An unprivileged user without groups and capabilities.
    Nobody(u32),
}

/// Directories, a token and a cgroup of one test. Its drop ends and removes all of it.
#[derive(Debug)]
pub struct Sandbox {
    // Dropped first, so that the processes are gone before their directories.
    cgroup: Cgroup,
    controllers: Option<Controllers>,
    token: Token,
    directory: TempDir,
}

impl Sandbox {
    /// A new one. Panics with the reason where the machine cannot provide it.
    pub fn new() -> Self {
        keep_descriptors_from_programs();
        let token = Token::random();
        let cgroup = Cgroup::create(&format!("ostler-test-{}", token.hex()));
        let directory = tempfile::Builder::new()
            .prefix("ostler-test-")
            .permissions(Permissions::from_mode(0o755))
            .tempdir()
            .expect("a temporary directory");
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).expect("chmod");
        for name in SUBDIRECTORIES {
            let path = directory.path().join(name);
            fs::create_dir(&path).expect("a directory of the sandbox");
            // After the creation, because the umask applies to it.
            fs::set_permissions(&path, Permissions::from_mode(0o777)).expect("chmod");
        }
        Self { cgroup, controllers: None, token, directory }
    }

    /// Its token.
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// Its cgroup.
    pub fn cgroup(&self) -> &Cgroup {
        &self.cgroup
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The `XDG_STATE_HOME` of its programs.
    pub fn state(&self) -> PathBuf {
        self.path().join("state")
    }

    /// The `XDG_RUNTIME_DIR` and the `OSTLER_RUNTIME_DIR` of its programs: no test uses the user's own gateways.
    pub fn runtime(&self) -> PathBuf {
        self.path().join("runtime")
    }

    /// The `HOME` of its programs.
    pub fn home(&self) -> PathBuf {
        self.path().join("home")
    }

    /// A path for a file that does not count as residue: the stub's `--ready`, `--pid-file` and so on.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join("files").join(name)
    }

    /// Its throw-away user.
    pub fn nobody(&self) -> User {
        User::Nobody(self.token.uid())
    }

    /// A command that runs inside of the sandbox as the test's user. Arguments may be added.
    ///
    /// The process group is that of the test, as it is for a program that a client starts.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        self.command_as(User::Root, program)
    }

    /// A new one with a cgroup also in each v1 hierarchy that limits a resource.
    pub fn with_controllers() -> Self {
        let mut sandbox = Self::new();
        let name = format!("ostler-test-{}", sandbox.token.hex());
        sandbox.controllers = Some(Controllers::create(&name));
        sandbox
    }

    /// The cgroups below the test's own in the v1 hierarchy of that controller.
    pub fn limited_by(&self, controller: &str) -> Vec<PathBuf> {
        let own = self.controllers.as_ref().and_then(|controllers| controllers.of(controller));
        own.map(crate::controllers::children).unwrap_or_default()
    }

    /// All cgroups below the test's own.
    pub(crate) fn cgroups_left(&self) -> Vec<PathBuf> {
        let limits = self.controllers.iter().flat_map(Controllers::children);
        self.cgroup.children().into_iter().chain(limits).collect()
    }

    /// A command that runs inside of the sandbox as that user. Arguments may be added.
    pub fn command_as(&self, user: User, program: impl AsRef<OsStr>) -> Command {
        let mut command = command_in(&self.cgroups(), &self.token, &[], user, program.as_ref());
        self.surround(&mut command);
        command
    }

    fn surround(&self, command: &mut Command) {
        command
            .env("XDG_STATE_HOME", self.state())
            .env("XDG_RUNTIME_DIR", self.runtime())
            .env("OSTLER_RUNTIME_DIR", self.runtime())
            .env("HOME", self.home());
    }

    /// The same behind a command that needs root and runs its arguments, such as `nsenter`.
    pub fn command_behind(
        &self,
        prefix: &[&str],
        user: User,
        program: impl AsRef<OsStr>,
    ) -> Command {
        let prefix: Vec<&OsStr> = prefix.iter().map(OsStr::new).collect();
        let mut command = command_in(&self.cgroups(), &self.token, &prefix, user, program.as_ref());
        self.surround(&mut command);
        command
    }

    /// The same with `/tmp` and `/run` of the test's own ([`Sandbox::system`]), and without the variables that name a
    /// runtime directory: as on a machine without other users.
    pub fn command_on_own_system(&self, user: User, program: impl AsRef<OsStr>) -> Command {
        let prefix = self.system().prefix();
        let prefix: Vec<&OsStr> = prefix.iter().map(OsString::as_os_str).collect();
        let mut command = command_in(&self.cgroups(), &self.token, &prefix, user, program.as_ref());
        command
            .env("XDG_STATE_HOME", self.state())
            .env("HOME", self.home())
            .env_remove("XDG_RUNTIME_DIR")
            .env_remove("OSTLER_RUNTIME_DIR");
        command
    }

    /// The system directories of [`Sandbox::command_on_own_system`].
    pub fn system(&self) -> System {
        System::of(self.path())
    }

    fn cgroups(&self) -> Vec<&Path> {
        let controllers = self.controllers.iter().flat_map(Controllers::paths);
        std::iter::once(self.cgroup.path()).chain(controllers).collect()
    }

    /// The stub inside of the sandbox, with a ready file for [`Sandbox::wait_ready`] and a pid file for
    /// [`Sandbox::pids`].
    pub fn stub(&self) -> Command {
        self.stub_as(User::Root)
    }

    /// The same as another user.
    pub fn stub_as(&self, user: User) -> Command {
        let mut command = self.command_as(user, self.reachable(&binary("ostler-stub")));
        command.arg("--ready").arg(self.file("ready")).arg("--pid-file").arg(self.file("pids"));
        command
    }

    /// Waits for the ready file of [`Sandbox::stub`].
    pub fn wait_ready(&self, limit: Duration) {
        let ready = self.file("ready");
        wait_until("the stub says that it is ready", limit, || ready.exists());
    }

    /// The pids in the pid file of [`Sandbox::stub`]: the server first, then descendants.
    pub fn pids(&self) -> Vec<u32> {
        crate::pids_in(&self.file("pids"))
    }

    /// Gives the test's cgroup to a user, as a service manager delegates a subtree.
    pub fn delegate_to(&self, uid: u32) {
        let directory = self.cgroup.path();
        chown(directory, Some(uid), Some(uid)).expect("chown of the cgroup");
        for name in ["cgroup.procs", "cgroup.threads", "cgroup.subtree_control"] {
            chown(directory.join(name), Some(uid), Some(uid)).expect("chown of the cgroup's files");
        }
    }

    /// The same with the cgroups of [`Sandbox::with_controllers`], and those alone.
    pub fn delegate_controllers_to(&self, uid: u32) {
        self.controllers.as_ref().expect("a sandbox with controllers").delegate_to(uid);
    }

    /// Gives the state, runtime and home directories to a user alone, as a login does.
    pub fn own_directories(&self, uid: u32) {
        for path in [self.state(), self.runtime(), self.home()] {
            chown(&path, Some(uid), Some(uid)).expect("chown of a directory");
            fs::set_permissions(&path, Permissions::from_mode(0o700)).expect("chmod");
        }
    }

    /// A link to, or a copy of, a program where every user can reach it, also if the checkout is private.
    pub fn reachable(&self, program: &Path) -> PathBuf {
        let directory = self.path().join("bin");
        fs::create_dir_all(&directory).expect("a directory for programs");
        fs::set_permissions(&directory, Permissions::from_mode(0o755)).expect("chmod");
        let target = directory.join(program.file_name().expect("the name of a program"));
        if !target.exists() && fs::hard_link(program, &target).is_err() {
            fs::copy(program, &target).expect("a copy of the program");
        }
        target
    }

    /// All survivors of the test at this moment.
    pub fn survivors(&self) -> Survivors {
        Survivors::find(self)
    }

    /// Waits until nothing is left, and panics with the list otherwise.
    pub fn expect_no_survivors(&self, limit: Duration) {
        self.expect_none(limit, Survivors::is_none);
    }

    /// Waits until no process and no zombie is left; files and cgroups may be.
    pub fn expect_no_process_left(&self, limit: Duration) {
        self.expect_none(limit, Survivors::has_no_process);
    }

    fn expect_none(&self, limit: Duration, is_none: fn(&Survivors) -> bool) {
        if poll(limit, || is_none(&self.survivors())).is_none() {
            let left = self.survivors();
            assert!(is_none(&left), "left after {limit:?}:\n{left}");
        }
    }

    /// The code under test may have moved processes out of the cgroup; the token still marks them.
    /// Returns how many there were.
    fn kill_token_carriers(&self) -> usize {
        let carriers: Vec<u32> =
            all_pids().into_iter().filter(|pid| self.token.is_carried_by(*pid)).collect();
        for pid in &carriers {
            let Some(target) = i32::try_from(*pid).ok().and_then(Pid::from_raw) else { continue };
            let Ok(pidfd) = pidfd_open(target, PidfdFlags::empty()) else { continue };
            // Once more, now that the pid cannot be given to another process unnoticed.
            if self.token.is_carried_by(*pid) {
                let _ = pidfd_send_signal(&pidfd, Signal::KILL);
            }
        }
        carriers.len()
    }
}

impl Default for Sandbox {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // Before the directories go, because survivors could create new files in them.
        let _ = self.cgroup.end();
        poll(Duration::from_secs(10), || self.kill_token_carriers() == 0);
    }
}

/// The command that joins the cgroups, runs the prefix, becomes the user, and then the program.
pub(crate) fn command_in(
    cgroups: &[&Path],
    token: &Token,
    prefix: &[&OsStr],
    user: User,
    program: &OsStr,
) -> Command {
    let (name, value) = token.env();
    let mut command = Command::new("/bin/sh");
    let cgroups: Vec<&OsStr> = cgroups.iter().map(|path| path.as_os_str()).collect();
    command.arg("-c").arg(JOIN).arg(cgroups.join(OsStr::new(":"))).env(name, value);
    command.args(prefix);
    if let User::Nobody(uid) = user {
        let uid = uid.to_string();
        command.args(["setpriv", "--reuid", &uid, "--regid", &uid]);
        command.args(["--clear-groups", "--inh-caps=-all", "--"]);
    }
    command.arg(program);
    command
}
