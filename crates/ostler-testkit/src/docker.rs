//! The docker command, with which tests query an engine.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::image::box_archive;

/// The image that each engine has: a shell and the small tools, and nothing else.
pub const IMAGE: &str = "ostler-test-box";

/// Directory without a docker configuration.
const NO_CONFIG: &str = "/nonexistent/docker";

/// A client of an engine of this machine.
#[derive(Clone, Debug)]
pub struct Docker {
    socket: PathBuf,
}

impl Docker {
    /// The engine that the test command starts for all tests, with the [`IMAGE`]. Every user may use
    /// it.
    pub fn shared() -> Self {
        let host = std::env::var("DOCKER_HOST").expect("scripts/test starts the engine");
        let socket = host.strip_prefix("unix://").expect("the engine's socket");
        let docker = Self::at(socket.into());
        docker.open_to_all();
        let has_image = docker.command().args(["image", "inspect", IMAGE]).output();
        if !has_image.expect("docker runs").status.success() {
            docker.import_image();
        }
        docker
    }

    pub(crate) fn at(socket: PathBuf) -> Self {
        Self { socket }
    }

    /// Its address, for `DOCKER_HOST`.
    pub fn host(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    /// Its socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Lets every user use it.
    pub fn open_to_all(&self) {
        let directory = self.socket.parent().expect("a directory");
        for (path, mode) in [(directory, 0o755), (&self.socket, 0o666)] {
            fs::set_permissions(path, Permissions::from_mode(mode)).expect("chmod");
        }
    }

    pub(crate) fn import_image(&self) {
        let directory = tempfile::tempdir().expect("a directory");
        let archive = directory.path().join("image.tar");
        box_archive(&directory.path().join("root"), &archive);
        self.expect(&["import", archive.to_str().expect("a path"), IMAGE]);
    }

    /// The docker command, as a client of this engine.
    pub fn command(&self) -> Command {
        let mut command = Command::new("docker");
        for name in ["DOCKER_CONTEXT", "DOCKER_TLS", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"] {
            command.env_remove(name);
        }
        command.env("DOCKER_HOST", self.host()).env("DOCKER_CONFIG", NO_CONFIG);
        command.stdin(Stdio::null());
        command
    }

    /// Runs a docker command, which has to succeed, and returns what it prints.
    pub fn expect(&self, words: &[&str]) -> String {
        let Output { status, stdout, stderr } =
            self.command().args(words).output().expect("docker runs");
        let stderr = String::from_utf8_lossy(&stderr);
        assert!(status.success(), "docker {words:?}: {status}: {stderr}");
        String::from_utf8_lossy(&stdout).trim().to_owned()
    }

    /// The ids of the containers with this label (`name` or `name=value`), in any state.
    pub fn containers(&self, label: &str) -> Vec<String> {
        self.ids(&["ps", "--all"], label)
    }

    /// The same for those that run.
    pub fn running(&self, label: &str) -> Vec<String> {
        self.ids(&["ps", "--filter", "status=running"], label)
    }

    /// The ids of the networks with this label.
    pub fn networks(&self, label: &str) -> Vec<String> {
        self.ids(&["network", "ls"], label)
    }

    /// The names of all volumes.
    pub fn volumes(&self) -> Vec<String> {
        lines(&self.expect(&["volume", "ls", "--quiet"]))
    }

    /// The state of a container, in the engine's words; empty if there is none.
    pub fn state(&self, container: &str) -> String {
        let words = ["inspect", "--format", "{{.State.Status}}", container];
        let output = self.command().args(words).output().expect("docker runs");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn ids(&self, list: &[&str], label: &str) -> Vec<String> {
        let filter = format!("label={label}");
        let words = [list, &["--quiet", "--no-trunc", "--filter", &filter]].concat();
        lines(&self.expect(&words))
    }
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}
