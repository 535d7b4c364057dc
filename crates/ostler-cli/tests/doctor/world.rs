//! A machine of the test's own: a PID namespace in which hosts, servers and unrelated processes are planted.
//!
//! Everything in it is a real process. Servers are Node programs that stay when their input ends, as many published ones
//! do; hosts are a Node program, which gives its servers sockets as Node does, and a shell with pipes; npx is npm's own.
//! Process 1 of the namespace adopts and reaps. Audits of other tests never see it, because it is another namespace.

use std::cell::RefCell;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use ostler_testkit::{Launched, Stage, User, binary, wait_until};
use rustix::process::Signal;
use serde_json::Value;

use crate::PATIENCE;

/// A server that stays. It tells its pid in the file `PID_FILE`; with `--helper` it starts a detached program and tells
/// that one's pid beside it.
const SERVER: &str = r"
const fs = require('fs');
const tell = (file, pid) => { fs.writeFileSync(file + '.new', String(pid)); fs.renameSync(file + '.new', file); };
if (process.argv.includes('--helper')) {
  const options = { detached: true, stdio: 'ignore' };
  tell(process.env.PID_FILE + '.helper', require('child_process').spawn('sleep', ['100000'], options).pid);
}
tell(process.env.PID_FILE, process.pid);
if (process.argv.includes('--stubborn')) process.on('SIGTERM', () => {});
process.stdin.on('data', () => {}).on('error', () => {});
setInterval(() => {}, 1000000);
";

/// A host: starts the command in its arguments with its own ends of stdin and stdout, and tells its pid.
const HOST: &str = r"
const [file, ...words] = process.argv.slice(2);
require('child_process').spawn(words[0], words.slice(1), { stdio: ['pipe', 'pipe', 'ignore'] });
require('fs').writeFileSync(file, String(process.pid));
setInterval(() => {}, 1000000);
";

pub(crate) struct World {
    pub(crate) stage: Stage,
    init: Launched,
    /// Children in the namespace, to be reaped.
    planted: RefCell<Vec<Child>>,
    /// Pid of the namespace's process 1, seen from outside.
    init_pid: String,
}

impl World {
    pub(crate) fn new(stage: Stage) -> Self {
        let stub = stage.sandbox.reachable(&binary("ostler-stub"));
        let file = stage.sandbox.file("init");
        let script = format!("readlink /proc/self > {}; exec sleep 100000", file.display());
        let mut unshare = stage.sandbox.command("unshare");
        unshare.args(["--pid", "--fork", "--mount-proc", "--kill-child"]).arg(stub);
        let init = Launched::start(unshare.args(["reap", "--", "sh", "-c", &script]));
        wait_until("the namespace is there", PATIENCE, || file.exists());
        let children = format!("/proc/{0}/task/{0}/children", init.pid());
        let init_pid = wait_until("process 1 runs", PATIENCE, || {
            let children = fs::read_to_string(&children).ok()?;
            children.split_whitespace().next().map(str::to_owned)
        });
        let world = Self { stage, init, planted: RefCell::default(), init_pid };
        world.write("claude.js", HOST);
        for server in ["x-mcp", "y-mcp", "shop", "typescript-language-server"] {
            world.install(server);
        }
        fs::write(world.path("package.json"), r#"{"name":"project"}"#).unwrap();
        world
    }

    /// A package with one program, where npx finds it.
    fn install(&self, name: &str) {
        let script = format!("#!/usr/bin/env node\n{SERVER}");
        let file = self.write(&format!("node_modules/{name}/cli.js"), &script);
        let package =
            format!(r#"{{"name":"{name}","version":"1.0.0","bin":{{"{name}":"cli.js"}}}}"#);
        self.write(&format!("node_modules/{name}/package.json"), &package);
        let link = self.path(&format!("node_modules/.bin/{name}"));
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(file, link).unwrap();
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// A path in the project that everything runs in.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.stage.sandbox.file("project").join(name)
    }

    pub(crate) fn user(&self) -> User {
        self.stage.user
    }

    /// A user that is not the stage's.
    pub(crate) fn other_user(&self) -> User {
        match self.stage.user {
            User::Root => self.stage.sandbox.nobody(),
            User::Nobody(_) => User::Root,
        }
    }

    /// A command in the namespace.
    pub(crate) fn inside(&self, user: User, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let directory = format!("--wd={}", self.path("").display());
        let prefix = ["nsenter", "--target", &self.init_pid, "--pid", "--mount", &directory, "--"];
        let mut command = self.stage.sandbox.command_behind(&prefix, user, program);
        command.env("DOCKER_HOST", "unix:///nonexistent/docker.sock");
        command.env("npm_config_offline", "true").env("npm_config_update_notifier", "false");
        // Variables of the test's own environment must not influence the attribution.
        for name in
            ["CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CODEX_HOME", "VSCODE_PID", "VSCODE_IPC_HOOK"]
        {
            command.env_remove(name);
        }
        command
    }

    /// Starts a server through a host that gives it sockets. Returns the host's pid and the server's.
    pub(crate) fn host(&self, name: &str, user: User, words: &[&str]) -> (i32, i32) {
        let (host, server) = (self.pid_file(&format!("{name}-host")), self.pid_file(name));
        // A host is known by the name of its script.
        let script = self.path("claude");
        if !script.exists() {
            fs::copy(self.path("claude.js"), &script).unwrap();
        }
        let mut command = self.inside(user, "node");
        command.arg(script).arg(&host).args(words).env("PID_FILE", &server);
        self.start(command.env("CLAUDECODE", "1"));
        (read_pid(&host), read_pid(&server))
    }

    /// Starts a server in a pipeline of a shell that is called `codex`. Returns the pids of the shell and of both its
    /// neighbours, and the server's.
    pub(crate) fn pipeline(&self, name: &str, words: &[&str]) -> (Vec<i32>, i32) {
        let shell = self.stage.sandbox.reachable(Path::new("/bin/dash"));
        let codex = shell.with_file_name("codex");
        fs::copy(&shell, &codex).unwrap();
        let (all, server) = (self.pid_file(&format!("{name}-all")), self.pid_file(name));
        let (all, words) = (all.display(), words.join(" "));
        let script = format!(
            "sh -c 'echo $$ >> {all}; exec sleep 100000' | {words} | \
             sh -c 'echo $$ >> {all}; exec cat' & echo $$ >> {all}; wait"
        );
        let mut command = self.inside(self.user(), codex);
        self.start(command.args(["-c", &script]).env("PID_FILE", &server));
        let server = read_pid(&server);
        let pids = wait_until("the pipeline is up", PATIENCE, || {
            let text = fs::read_to_string(self.pid_file(&format!("{name}-all"))).ok()?;
            let pids: Vec<i32> = text.lines().filter_map(|line| line.parse().ok()).collect();
            (pids.len() == 3).then_some(pids)
        });
        (pids, server)
    }

    fn start(&self, command: &mut Command) {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.planted.borrow_mut().push(command.spawn().unwrap());
    }

    pub(crate) fn pid_file(&self, name: &str) -> PathBuf {
        self.stage.sandbox.file(&format!("{name}.pid"))
    }

    /// Kills processes of the namespace, and waits until they are gone.
    pub(crate) fn kill(&self, pids: &[i32]) {
        let words: Vec<String> = pids.iter().map(ToString::to_string).collect();
        let status = self.inside(User::Root, "kill").arg("-KILL").args(&words).status().unwrap();
        assert!(status.success());
        wait_until("they are gone", PATIENCE, || !pids.iter().any(|pid| self.is_alive(*pid)));
    }

    pub(crate) fn is_alive(&self, pid: i32) -> bool {
        let mut command = self.inside(User::Root, "sh");
        // A dead process may be gone or a zombie, and may change between two commands.
        let test = format!(
            "state=$(grep State: /proc/{pid}/status 2> /dev/null) && case $state in *[ZX]*) false;; esac"
        );
        command.args(["-c", &test]).status().unwrap().success()
    }

    /// The parent of a process of the namespace.
    pub(crate) fn parent_of(&self, pid: i32) -> i32 {
        let mut command = self.inside(User::Root, "sh");
        let read = format!("grep PPid: /proc/{pid}/status");
        let output = command.args(["-c", &read]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// A command of ostler's in the namespace.
    pub(crate) fn ostler(&self, words: &[&str]) -> Output {
        let ostler = self.stage.sandbox.reachable(&binary("ostler"));
        self.inside(self.user(), ostler).args(words).output().unwrap()
    }

    pub(crate) fn json(&self, words: &[&str]) -> Value {
        let output = self.ostler(words);
        let text = String::from_utf8_lossy(&output.stdout);
        serde_json::from_str(&text).unwrap_or_else(|error| {
            panic!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr))
        })
    }

    /// The finds of a kind, each by the pids of its processes.
    pub(crate) fn finds(&self, kind: &str) -> Vec<Value> {
        let report = self.json(&["doctor", "--json"]);
        let finds = report["finds"].as_array().unwrap().iter();
        finds.filter(|find| find["kind"] == kind).cloned().collect()
    }

    /// Ends the namespace with all that is in it.
    pub(crate) fn end(mut self) {
        self.init.signal(Signal::KILL);
        self.init.wait_exit(PATIENCE);
        for child in &mut self.planted.take() {
            child.wait().unwrap();
        }
        self.stage.sandbox.expect_no_process_left(PATIENCE);
        self.stage.bystanders().assert_untouched();
    }
}

pub(crate) fn read_pid(file: &Path) -> i32 {
    wait_until("the pid is told", PATIENCE, || fs::read_to_string(file).ok()?.trim().parse().ok())
}

/// The pids of a find, the root first.
pub(crate) fn pids_of(find: &Value) -> Vec<i32> {
    let processes = find["processes"].as_array().unwrap().iter();
    processes.map(|one| i32::try_from(one["pid"].as_i64().unwrap()).unwrap()).collect()
}
