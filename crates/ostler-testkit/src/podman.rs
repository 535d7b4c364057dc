//! Podman with storage, files and an image of one test, and optionally a service.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::dock::STRANGER;
use crate::docker::IMAGE;
use crate::engine::unmount_all_below;
use crate::image::box_archive;
use crate::process::all_pids;
use crate::stage::PATIENCE;
use crate::{Stage, User, wait_until};

/// Podman settings for private storage, and for a run inside a container.
const CONF: &str = r#"[containers]
netns = "none"
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
"#;

/// Bound on podman's cleanup after a container's end.
const HELPERS: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Podman storage of one user. Drop ends everything in it.
#[derive(Debug)]
pub struct Podman {
    user: User,
    directory: TempDir,
    /// Containers that must stay: one of the same image without labels, one of another instance.
    strangers: Vec<String>,
    service: Option<Child>,
}

impl Podman {
    /// Storage of the stage's user that has the [`IMAGE`].
    pub fn of(stage: &Stage) -> Self {
        let directory = tempfile::Builder::new().prefix("ostler-test-podman-").tempdir();
        let directory = directory.expect("a directory");
        let mut podman = Self { user: stage.user, directory, strangers: Vec::new(), service: None };
        for name in ["", "home", "run"] {
            let path = podman.path(name);
            fs::create_dir_all(&path).expect("a directory");
            fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("chmod");
        }
        let store = podman.path("store").display().to_string();
        let storage = format!(
            "[storage]\ndriver = \"vfs\"\ngraphroot = \"{store}\"\nrootless_storage_path = \"{store}\"\n\
             runroot = \"{}\"\n[storage.options]\nignore_chown_errors = \"{}\"\n",
            podman.path("runroot").display(),
            podman.user != User::Root,
        );
        let conf = format!("{CONF}tmp_dir = \"{}\"\n", podman.path("tmp").display());
        fs::write(podman.path("storage.conf"), storage).expect("a file");
        fs::write(podman.path("containers.conf"), conf).expect("a file");
        let archive = podman.path("image.tar");
        box_archive(&podman.path("root"), &archive);
        if let User::Nobody(uid) = podman.user {
            for name in ["", "home", "run", "image.tar"] {
                chown(podman.path(name), Some(uid), Some(uid)).expect("chown");
            }
            // Podman refuses a runtime directory that is not the user's own.
            stage.sandbox.own_directories(uid);
        }
        podman.expect(&["import", archive.to_str().expect("a path"), IMAGE]);
        for options in [&[][..], &["--label", STRANGER]] {
            let words = [&["run", "--detach"], options, &[IMAGE, "sleep", "1000000"]].concat();
            podman.strangers.push(podman.expect(&words));
        }
        podman
    }

    /// The environment in which a podman command finds this storage.
    pub fn env(&self) -> [(&'static str, PathBuf); 4] {
        [
            ("HOME", self.path("home")),
            ("XDG_RUNTIME_DIR", self.path("run")),
            ("CONTAINERS_CONF", self.path("containers.conf")),
            ("CONTAINERS_STORAGE_CONF", self.path("storage.conf")),
        ]
    }

    /// The same as words of a shell.
    pub fn exports(&self) -> String {
        let word = |(name, value): &(&str, PathBuf)| format!("export {name}={}; ", value.display());
        self.env().iter().map(word).collect()
    }

    /// Runs a podman command, which has to succeed, and returns what it prints.
    pub fn expect(&self, words: &[&str]) -> String {
        let Output { status, stdout, stderr } = self.run(words);
        let stderr = String::from_utf8_lossy(&stderr);
        assert!(status.success(), "podman {words:?}: {status}: {stderr}");
        String::from_utf8_lossy(&stdout).trim().to_owned()
    }

    /// Starts a container from this image as the user, past ostler. It must stay.
    pub fn adopt(&mut self, image: &str) {
        let own = self.expect(&["run", "--detach", image, "sleep", "1000000"]);
        self.strangers.push(own);
    }

    /// Starts a service on this storage, and returns its address.
    pub fn serve(&mut self) -> String {
        self.serve_at(&self.path("run/service.sock"))
    }

    /// The same at a path that the user can write to.
    pub fn serve_at(&mut self, socket: &Path) -> String {
        let url = format!("unix://{}", socket.display());
        let log = File::create(self.path("log")).expect("the service's log");
        let mut command = self.command(&["system", "service", "--time", "0", &url]);
        command.stdout(log.try_clone().expect("the log")).stderr(log);
        self.service = Some(command.spawn().expect("podman starts"));
        wait_until("the service answers", PATIENCE, || UnixStream::connect(socket).is_ok());
        url
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("podman; scripts/prepare installs it")
    }

    fn command(&self, words: &[&str]) -> Command {
        // Outside of the sandbox, whose processes are counted.
        let mut command = match self.user {
            User::Root => Command::new("podman"),
            User::Nobody(uid) => {
                let (mut command, uid) = (Command::new("setpriv"), uid.to_string());
                command.args(["--reuid", &uid, "--regid", &uid, "--clear-groups"]);
                command.args(["--inh-caps=-all", "--", "podman"]);
                command
            }
        };
        command.args(words).envs(self.env()).current_dir("/").stdin(Stdio::null());
        command
    }

    /// The containers that ostler's servers have caused, in any state.
    pub fn containers(&self) -> Vec<String> {
        let filter = "label=ostler.instance";
        let all = self.expect(&["ps", "--all", "--quiet", "--no-trunc", "--filter", filter]);
        let is_ours = |id: &String| !self.strangers.contains(id);
        all.lines().map(str::to_owned).filter(is_ours).collect()
    }

    /// Waits until this many containers run.
    pub fn await_running(&self, count: usize) -> Vec<String> {
        let is_up = |id: &String| self.state(id) == "running";
        wait_until("the containers run", PATIENCE, || {
            let all = self.containers();
            (all.len() == count && all.iter().all(is_up)).then_some(all)
        })
    }

    fn state(&self, container: &str) -> String {
        let words = ["inspect", "--format", "{{.State.Status}}", container];
        String::from_utf8_lossy(&self.run(&words).stdout).trim().to_owned()
    }

    /// Podman's `inspect` of a container.
    pub fn inspect(&self, container: &str) -> Value {
        let mut all: Vec<Value> =
            serde_json::from_str(&self.expect(&["inspect", container])).expect("JSON");
        all.pop().expect("a container")
    }

    /// Waits until storage and processes have nothing of ostler's servers, and checks that bystanders were not touched.
    pub fn expect_nothing_left(&self) {
        let filter = "label=ostler.instance";
        wait_until("no container is in the books", PATIENCE, || self.containers().is_empty());
        for list in [["pod", "ps"], ["network", "ls"]] {
            let words = [&list[..], &["--quiet", "--filter", filter]].concat();
            wait_until("no pod and no network is", PATIENCE, || self.expect(&words).is_empty());
        }
        let count = self.strangers.len();
        wait_until("only strangers' processes are", PATIENCE, || self.monitors().len() == count);
        for stranger in &self.strangers {
            assert_eq!(self.state(stranger), "running", "a stranger's container");
        }
    }

    /// The processes that watch over containers.
    fn monitors(&self) -> Vec<u32> {
        let place = self.directory.path().to_str().expect("a path");
        let is_its = |pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line);
            line.contains("conmon") && line.contains(place)
        };
        all_pids().into_iter().filter(is_its).collect()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        if let Some(mut service) = self.service.take() {
            let _ = service.kill();
            let _ = service.wait();
        }
        self.run(&["rm", "--all", "--force", "--time", "0"]);
        // An unprivileged user's podman leaves these behind.
        if let User::Nobody(_) = self.user {
            let pid = read_pid(&self.path("run/libpod/tmp/pause.pid"));
            if let Some(pid) = pid.or_else(|| read_pid(&self.path("tmp/pause.pid"))) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        self.outlive_helpers();
        unmount_all_below(self.directory.path());
    }
}

impl Podman {
    /// Podman tidies up after a container in processes of its own, which make the directory again.
    fn outlive_helpers(&self) {
        let place = self.directory.path().display().to_string();
        let is_helper = |pid: &u32| {
            ["cmdline", "environ"].iter().any(|file| {
                let text = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
                String::from_utf8_lossy(&text).contains(&place)
            })
        };
        let deadline = Instant::now() + HELPERS;
        while all_pids().iter().any(is_helper) && Instant::now() < deadline {
            sleep(LOOK_EVERY);
        }
    }
}

fn read_pid(file: &Path) -> Option<Pid> {
    fs::read_to_string(file).ok()?.trim().parse().ok().and_then(Pid::from_raw)
}
