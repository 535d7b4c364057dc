//! `ostler run` under a real service manager, in a private root.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use std::fs;
use std::process::{Command, Output};
use std::time::Duration;

use ostler_testkit::{Bystanders, Launched, Process, Sandbox, User, binary, wait_until};
use serde_json::{Value, json};

/// Runtime directory of the machine's user.
const RUNTIME: &str = "/run/user/0";
const PATIENCE: Duration = Duration::from_mins(1);

/// Boots systemd as pid 1 of its own namespaces, on a copy of this machine's files that only it
/// sees. `$1` is the test's directory, which both share.
const BOOT: &str = r#"
set -e
mkdir "$1/machine"
mount -t tmpfs tmpfs "$1/machine"
mkdir "$1/machine/files" "$1/machine/work" "$1/machine/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/machine/files,workdir=$1/machine/work" "$1/machine/root"
cd "$1/machine/root"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
mount --rbind /dev dev
mkdir -p ".$1"
mount --bind "$1" ".$1"
rm -rf etc/systemd/system
mkdir -p etc/systemd/system
cp "$1"/files/*.service etc/systemd/system/
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  chroot . /lib/systemd/systemd --unit=basic.target --log-target=null
"#;

/// A machine with systemd, whose every process is in the sandbox.
struct Machine {
    sandbox: Sandbox,
    bystanders: Bystanders,
    unshare: Launched,
}

impl Machine {
    /// With these units, by name and text.
    fn boot(units: impl Fn(&Sandbox) -> Vec<(String, String)>) -> Self {
        let sandbox = Sandbox::new();
        let bystanders = Bystanders::start(&sandbox, User::Root);
        for (name, text) in units(&sandbox) {
            fs::write(sandbox.file(&format!("{name}.service")), text).unwrap();
        }
        let mut command = sandbox.command("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child", "--cgroup", "--ipc", "--uts"]);
        command.args(["bash", "-c", BOOT, "boot"]).arg(sandbox.path());
        let machine = Self { unshare: Launched::start(&mut command), sandbox, bystanders };
        wait_until("systemd is up", PATIENCE, || {
            machine.systemctl(&["is-system-running"]).stdout.starts_with(b"running")
        });
        machine
    }

    fn systemctl(&self, words: &[&str]) -> Output {
        self.command("systemctl").args(words).output().unwrap()
    }

    /// A program inside of the machine.
    fn command(&self, program: &str) -> Command {
        let first = self.sandbox.cgroup().pids().into_iter().find(|pid| {
            Process::read(*pid).is_some_and(|p| p.ppid == self.unshare.pid() && p.comm == "systemd")
        });
        // Before the service manager is up, the target does not exist.
        let target = first.unwrap_or(0).to_string();
        let mut command = Command::new("nsenter");
        command.args(["--target", &target, "--mount", "--pid", "--cgroup", "--root", "--wd"]);
        command.arg(program);
        command
    }

    /// All processes of the service, including guardians and detached ones.
    fn processes(&self) -> Vec<String> {
        let pids = self.sandbox.cgroup().pids().into_iter().filter_map(Process::read);
        pids.map(|p| p.comm).filter(|name| name.starts_with("ostler")).collect()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.bystanders.assert_untouched();
        }
    }
}

/// A user of the machine, with a service manager of its own.
struct LoggedIn<'a>(&'a Machine);

impl<'a> LoggedIn<'a> {
    /// Runs the manager as systemd itself does at a login.
    fn unit(sandbox: &Sandbox) -> (String, String) {
        let text = format!(
            "[Service]\n\
             Type=notify\n\
             Environment=HOME={} XDG_RUNTIME_DIR={RUNTIME}\n\
             ExecStartPre=/bin/mkdir -p -m 700 {RUNTIME}\n\
             ExecStart=/lib/systemd/systemd --user\n\
             Delegate=yes\n",
            sandbox.home().display()
        );
        ("login".to_owned(), text)
    }

    fn new(machine: &'a Machine) -> Self {
        let started = machine.systemctl(&["start", "login"]);
        assert!(started.status.success(), "{started:?}");
        Self(machine)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = self.0.command(program);
        let home = self.0.sandbox.home();
        command.env("HOME", &home).env("XDG_STATE_HOME", home.join("state"));
        command.env("XDG_RUNTIME_DIR", RUNTIME).env_remove("XDG_CONFIG_HOME");
        command
    }

    fn ostler(&self, words: &[&str]) -> Output {
        let program = self.0.sandbox.reachable(&binary("ostler"));
        self.command(program.to_str().unwrap()).args(words).output().unwrap()
    }

    fn expect_ostler(&self, words: &[&str]) -> String {
        let output = self.ostler(words);
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The state of the service.
    fn service(&self) -> Value {
        serde_json::from_slice(&self.ostler(&["service", "status", "--json"]).stdout).unwrap()
    }

    /// A client whose call has started the server.
    fn client(&self) -> Launched {
        let program = self.0.sandbox.reachable(&binary("ostler"));
        let mut client =
            Launched::start(self.command(program.to_str().unwrap()).args(["connect", "rude"]));
        client.initialize();
        let answer =
            client.call("tools/call", &json!({ "name": "echo", "arguments": { "message": "x" } }));
        assert!(answer["result"].is_object(), "{answer}");
        client
    }

    fn servers(&self) -> usize {
        self.0.processes().iter().filter(|name| *name == "ostler-stub").count()
    }
}

/// A service that is a rude server inside a fence, with the way of killing of its manager.
fn unit(sandbox: &Sandbox, name: &str, kill_mode: &str) -> (String, String) {
    let (ostler, stub) =
        (sandbox.reachable(&binary("ostler")), sandbox.reachable(&binary("ostler-stub")));
    let (ostler, stub) = (ostler.display(), stub.display());
    let state = sandbox.state().join(name);
    let ready = sandbox.file(&format!("{name}.ready"));
    let text = format!(
        "[Service]\n\
         Environment=XDG_STATE_HOME={}\n\
         ExecStart={ostler} run --verbose -- {stub} --ignore-eof --ignore-term --setsid-child \
         --double-fork --empty-env --descendants-ignore-term --ready {}\n\
         ExecStopPost={ostler} reap --yes\n\
         KillMode={kill_mode}\n\
         TimeoutStopSec=5\n",
        state.display(),
        ready.display(),
    );
    (name.to_owned(), text)
}

mod alone {
    use super::*;

    /// The main process is killed; the manager's own way of killing may also take the guardian.
    #[test]
    fn f27_the_main_process_of_a_unit_is_killed() {
        let modes = ["mixed", "control-group", "process"];
        let machine = Machine::boot(|sandbox| {
            modes.iter().map(|mode| unit(sandbox, &format!("server-{mode}"), mode)).collect()
        });
        for mode in modes {
            let name = format!("server-{mode}");
            assert!(machine.systemctl(&["start", &name]).status.success());
            let ready = machine.sandbox.file(&format!("{name}.ready"));
            wait_until("the server is up", PATIENCE, || ready.exists());
            assert!(machine.processes().len() >= 5, "{:?}", machine.processes());
            let killed = machine.systemctl(&["kill", "--kill-whom=main", "--signal=KILL", &name]);
            assert!(killed.status.success());
            wait_until(&format!("nothing is left at KillMode={mode}"), PATIENCE, || {
                machine.processes().is_empty()
            });
            let state = machine.sandbox.state().join(&name).join("ostler/owners");
            wait_until("the ledger is settled", PATIENCE, || {
                fs::read_dir(&state).is_ok_and(|mut owners| owners.next().is_none())
            });
        }
    }

    /// The manager stops the unit in the ordinary way.
    #[test]
    fn f27_a_unit_is_stopped() {
        let machine = Machine::boot(|sandbox| vec![unit(sandbox, "server", "mixed")]);
        assert!(machine.systemctl(&["start", "server"]).status.success());
        let ready = machine.sandbox.file("server.ready");
        wait_until("the server is up", PATIENCE, || ready.exists());
        assert!(machine.systemctl(&["stop", "server"]).status.success());
        wait_until("nothing is left", PATIENCE, || machine.processes().is_empty());
    }

    /// The gateway as a service: systemd starts it for its first client, and nothing is left when it is killed or removed.
    #[test]
    fn f27_an_installed_gateway_is_killed_and_removed() {
        let machine = Machine::boot(|sandbox| vec![LoggedIn::unit(sandbox)]);
        let user = LoggedIn::new(&machine);
        let home = machine.sandbox.home();
        let stub = machine.sandbox.reachable(&binary("ostler-stub"));
        let words = ["--ignore-eof", "--ignore-term", "--setsid-child", "--double-fork"];
        let server = json!({ "command": stub, "args": words, "share": "all" });
        fs::create_dir_all(home.join(".config/ostler")).unwrap();
        let configuration = json!({ "mcpServers": { "rude": server } });
        fs::write(home.join(".config/ostler/ostler.json"), configuration.to_string()).unwrap();

        assert_eq!(user.ostler(&["service", "status"]).status.code(), Some(3));
        let unit = home.join(".config/systemd/user/ostler.service");
        fs::create_dir_all(unit.parent().unwrap()).unwrap();
        fs::write(&unit, "[Service]\nExecStart=/bin/true\n").unwrap();
        let refused = user.ostler(&["service", "install"]);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(said.contains("was not written by ostler; move it away first"), "{said}");
        assert!(fs::read_to_string(&unit).unwrap().contains("/bin/true"));
        fs::remove_file(&unit).unwrap();
        user.expect_ostler(&["service", "install"]);
        let status = user.service();
        assert_eq!([&status["socket"], &status["service"]], ["active", "inactive"], "{status}");
        let client = user.client();
        assert_eq!(user.service()["service"], "active");
        assert!(user.servers() >= 3, "{:?}", machine.processes());
        let ended = user
            .command("systemctl")
            .args(["--user", "kill", "--kill-whom=main", "-sKILL", "ostler"])
            .output();
        assert!(ended.unwrap().status.success());
        wait_until("no server is left", PATIENCE, || user.servers() == 0);
        drop(client);

        let client = user.client();
        user.expect_ostler(&["service", "uninstall"]);
        wait_until("nothing is left", PATIENCE, || machine.processes().is_empty());
        drop(client);
        assert!(!unit.exists());
        assert_eq!(user.ostler(&["service", "uninstall"]).status.code(), Some(3));
    }
}
