//! `ps`, `why`, `stop`, completions and the manual.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use std::fs;
use std::os::unix::fs::chown;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use ostler_testkit::{
    Launched, Process, STUBBORN, Sandbox, Stage, User, is_alive, rows, wait_until,
};
use rustix::process::Signal;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(30);

/// A wrapped stub that is called `name`, up and running, with its own pids: the server first.
fn start(stage: &Stage, name: &str, switches: &[&str]) -> (Launched, Vec<u32>) {
    for file in ["ready", "pids"] {
        let _ = fs::remove_file(stage.sandbox.file(file));
    }
    let mut command = stage.command(&stage.run_words()[0]);
    command.args(["run", "--name", name, "--grace", "300ms", "--containment", stage.level(), "--"]);
    let run = Launched::start(command.args(stage.stub_words(switches)));
    stage.sandbox.wait_ready(PATIENCE);
    wait_until("it is on record as running", PATIENCE, || {
        view_of(stage, name).is_some_and(|view| view["state"] == "running")
    });
    (run, stage.sandbox.pids())
}

fn view_of(stage: &Stage, name: &str) -> Option<Value> {
    let views = stage.ostler_json(&["ps", "--json"]);
    views.as_array().unwrap().iter().find(|view| view["name"] == name).cloned()
}

fn instance_of(stage: &Stage, name: &str) -> String {
    view_of(stage, name).unwrap()["instance"].as_str().unwrap().to_owned()
}

/// The exit code and stderr of a command without output on stdout.
fn complaint(output: &Output) -> (i32, String) {
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    (output.status.code().unwrap(), String::from_utf8(output.stderr.clone()).unwrap())
}

fn as_json(process: &Process) -> Value {
    json!({"pid": process.pid, "name": process.comm, "start": process.start_time, "parent": process.ppid})
}

/// The text without ages.
fn without_age(said: &str) -> String {
    let (before, rest) = said.split_once("started ").unwrap();
    let (_, after) = rest.split_once(" ago").unwrap();
    format!("{before}started N ago{after}")
}

fn end(stage: &Stage, run: &mut Launched) {
    run.close_stdin();
    stage.wait_exit(run);
}

rows! {
    fn without_servers_the_commands_report_that_there_are_none(stage) {
        assert_eq!(stage.ostler(&["ps"]), "no servers\n");
        assert_eq!(stage.ostler(&["ps", "--tree"]), "no servers\n");
        assert_eq!(stage.ostler_json(&["ps", "--json"]), json!([]));
        assert_eq!(stage.ostler(&["reap"]), "nothing to reap: no dead owner has left anything\n");
        assert_eq!(stage.ostler_json(&["reap", "--json"]), json!([]));
        assert_eq!(stage.ostler_json(&["reap", "--yes", "--json"]), json!([]));
        assert_eq!(stage.ostler(&["stop", "--all"]), "no servers\n");
        assert_eq!(stage.ostler_json(&["stop", "--all", "--json"]), json!([]));
        // Queries leave no files either.
        assert_eq!(fs::read_dir(stage.sandbox.state()).unwrap().count(), 0);
        stage.assert_empty_now();
    }

    fn ps_shows_each_server_and_its_owner(stage) {
        let (mut run, pids) = start(&stage, "first", &["--setsid-child"]);
        let (mut other, _) = start(&stage, "second", &[]);
        let client = Process::read(std::process::id()).unwrap();
        let table = stage.ostler(&["ps", "--wide"]);
        let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        let headers = [
            "NAME", "STATE", "LEVEL", "PID", "PROCS", "CONTAINERS", "RSS", "AGE", "LEASES", "CALLS",
            "RESTARTS", "KEY", "COMMAND", "OWNER", "CLIENT",
        ];
        assert_eq!(rows[0], headers);
        assert_eq!(rows.len(), 3);
        let pid = pids[0].to_string();
        assert_eq!(rows[1][..6], ["first", "running", stage.level(), &pid, "2", "0"]);
        let (stub, owner, client_pid) = (
            stage.stub_words(&[]).remove(0), format!("({})", run.pid()), format!("({})", client.pid),
        );
        assert_eq!(rows[1][9..], ["-", "-", "-", "-", &stub, "ostler", "run", &owner, &client.comm, &client_pid]);
        assert_eq!(rows[2][..3], ["second", "running", stage.level()]);
        let table = stage.ostler(&["ps"]);
        let row: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(row[..4], ["first", "running", &pid, "2"]);
        assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");

        let mut view = view_of(&stage, "first").unwrap();
        assert!(view["rss"].as_u64().unwrap() > 0);
        assert!(view["started_at"].as_u64().unwrap() > 0);
        let guardian = Process::read(stage.guardians_of(run.pid())[0]).unwrap();
        let processes: Vec<Value> =
            pids.iter().map(|pid| as_json(&Process::read(*pid).unwrap())).collect();
        let (owner, boot) = (
            Process::read(run.pid()).unwrap(),
            fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap(),
        );
        let processes_shown = view["processes"].as_array_mut().unwrap().iter_mut();
        processes_shown.for_each(|process| drop(process.as_object_mut().unwrap().remove("state")));
        view["guardian"].as_object_mut().unwrap().remove("state");
        for varying in ["rss", "started_at", "instance"] {
            view.as_object_mut().unwrap().remove(varying);
        }
        let id = view["owner"].as_object_mut().unwrap().remove("id").unwrap();
        assert!(stage.ledgers().iter().any(|path| path.ends_with(id.as_str().unwrap())));
        assert_eq!(view, json!({
            "name": "first", "program": stub, "backend": "process", "state": "running",
            "containment": stage.level(),
            "pid": pids[0], "guardian": as_json(&guardian), "processes": processes,
            "containers": [], "unreachable": null, "gateway": null,
            "owner": {
                "process": {"pid": owner.pid, "start": owner.start_time}, "program": "ostler run",
                "client": {
                    "process": {"pid": client.pid, "start": client.start_time}, "name": client.comm,
                },
                "boot": boot.trim(),
            },
        }));
        end(&stage, &mut other);
        end(&stage, &mut run);
        stage.assert_empty_now();
    }

    fn ps_shows_the_tree_of_each_server(stage) {
        let (mut run, pids) = start(&stage, "tree", &["--setsid-child"]);
        let line = |pid: u32| Process::read(pid).unwrap().cmdline();
        let expected = format!(
            "tree (running, {})\n  {} {}\n    {} {}\n  held by guardian {}\n",
            instance_of(&stage, "tree"),
            pids[0], line(pids[0]), pids[1], line(pids[1]),
            stage.guardians()[0],
        );
        assert_eq!(stage.ostler(&["ps", "--tree"]), expected);
        end(&stage, &mut run);
        stage.assert_empty_now();
    }

    fn why_shows_the_client_that_a_process_runs_for(stage) {
        let (mut run, pids) = start(&stage, "known", &["--setsid-child", "--double-fork", "--empty-env"]);
        let (guardian, owner) = (stage.guardians()[0], run.pid());
        let client = Process::read(std::process::id()).unwrap();
        let said_of = |pid: u32| without_age(&stage.ostler(&["why", &pid.to_string()]));
        let rest = format!(
            "\n  instance    {}, running, started N ago\n  server      {} ({})\n  guardian    {guardian}\n  \
             containment {}\n  owner       ostler run ({owner}), alive\n  client      {} ({})\n",
            instance_of(&stage, "known"), stage.stub_words(&[])[0], pids[0], stage.level(), client.comm, client.pid,
        );
        let roles = [
            (pids[0], "ostler-stub", "is the server 'known'", "server"),
            (pids[1], "ostler-stub", "was caused by the server 'known'", "descendant"),
            (pids[2], "ostler-stub", "was caused by the server 'known'", "descendant"),
            (guardian, "ostler-guardian", "is the guardian of the server 'known'", "guardian"),
            (owner, "ostler", "is the owner of the server 'known'", "owner"),
        ];
        for (pid, name, role, word) in roles {
            assert_eq!(said_of(pid), format!("process {pid} ({name}) {role}{rest}"));
            let answer = stage.ostler_json(&["why", &pid.to_string(), "--json"]);
            assert_eq!((&answer["role"], &answer["process"]["pid"]), (&json!(word), &json!(pid)));
            assert_eq!(answer["instance"]["name"], "known");
        }
        end(&stage, &mut run);
        stage.assert_empty_now();
    }

    fn why_reports_an_unrelated_process_as_not_found(stage) {
        let (mut run, _) = start(&stage, "known", &[]);
        let stranger = stage.bystanders().pids()[0];
        let said = format!("ostler: process {stranger} (ostler-stub, state S) belongs to no server of ostler\n");
        let (code, complaint_of_it) = complaint(&stage.try_ostler(&["why", &stranger.to_string()]));
        assert_eq!((code, complaint_of_it.replace("state R", "state S")), (3, said));
        let nobody = i32::MAX.to_string();
        let said = format!("ostler: there is no process {nobody}\n");
        assert_eq!(complaint(&stage.try_ostler(&["why", &nobody])), (3, said.clone()));
        assert_eq!(complaint(&stage.try_ostler(&["why", &nobody, "--json"])), (3, said));
        for nonsense in ["0", "-1", "x", "a b"] {
            assert_eq!(complaint(&stage.try_ostler(&["why", nonsense])).0, 2, "{nonsense}");
        }
        end(&stage, &mut run);
        stage.assert_empty_now();
    }

    fn stop_by_name_by_pid_and_by_id(stage) {
        let (mut kept, kept_pids) = start(&stage, "kept", &["--setsid-child"]);
        for (round, switches) in [&["--setsid-child", "--ignore-eof"][..], STUBBORN, &["--setsid-child"]].iter().enumerate() {
            let (mut run, pids) = start(&stage, "ended", switches);
            let instance = instance_of(&stage, "ended");
            let target = match round {
                0 => "ended".to_owned(),
                1 => pids[0].to_string(),
                _ => instance[..12].to_owned(),
            };
            if round == 1 {
                let said = stage.ostler_json(&["stop", &target, "--json"]);
                assert_eq!(said, json!([{"instance": instance, "name": "ended", "stopped": true}]));
            } else {
                assert_eq!(stage.ostler(&["stop", &target]), "ended: stopped\n");
            }
            assert!(!pids.iter().any(|pid| is_alive(*pid)));
            stage.wait_exit(&mut run);
        }
        for by in ["its descendant", "its guardian", "its owner"] {
            let (mut run, pids) = start(&stage, "ended", &["--setsid-child"]);
            let pid = match by {
                "its descendant" => pids[1],
                "its guardian" => stage.guardians_of(run.pid())[0],
                _ => run.pid(),
            };
            assert_eq!(stage.ostler(&["stop", &pid.to_string()]), "ended: stopped\n", "{by}");
            stage.wait_exit(&mut run);
        }
        assert!(kept_pids.iter().all(|pid| is_alive(*pid)));
        end(&stage, &mut kept);
        stage.assert_empty_now();
    }

    fn stop_all(stage) {
        let mut runs = [
            start(&stage, "one", STUBBORN).0, start(&stage, "two", &["--setsid-child"]).0, start(&stage, "two", &[]).0,
        ];
        assert_eq!(stage.ostler(&["stop", "--all"]), "one: stopped\ntwo: stopped\ntwo: stopped\n");
        for run in &mut runs {
            stage.wait_exit(run);
        }
        stage.assert_empty_now();
    }

    fn stop_ends_orphans_too(stage) {
        let (mut run, pids) = start(&stage, "orphan", &["--setsid-child"]);
        stage.abandon(&mut run);
        assert!(is_alive(pids[1]));
        assert_eq!(stage.ostler(&["stop", "orphan"]), "orphan: stopped\n");
        stage.assert_empty_now();
    }

    fn stop_of_something_unknown_stops_nothing(stage) {
        let (mut run, pids) = start(&stage, "known", &[]);
        let stranger = stage.bystanders().pids()[0].to_string();
        for target in ["unknown", "know", &stranger, &instance_of(&stage, "known")[..3]] {
            let said = format!("ostler: there is no server '{target}'; `ostler ps` lists them\n");
            assert_eq!(complaint(&stage.try_ostler(&["stop", "known", target])), (3, said));
        }
        assert_eq!(complaint(&stage.try_ostler(&["stop"])).0, 2);
        assert_eq!(complaint(&stage.try_ostler(&["stop", "--all", "known"])).0, 2);
        assert!(is_alive(pids[0]));
        end(&stage, &mut run);
        stage.assert_empty_now();
    }

    /// Digits may be a pid, and by chance the beginning of another server's id.
    fn stop_does_not_take_a_pid_for_an_id(stage) {
        let (mut run, pids) = start(&stage, "meant", &[]);
        let ledger = stage.ledgers().remove(0);
        let text = fs::read_to_string(ledger.join("ledger")).unwrap();
        let instance = format!("{:0<32}", pids[0]);
        let text = text.replace(&instance_of(&stage, "meant"), &instance).replace("meant", "not meant");
        let other = ledger.with_file_name("f".repeat(32));
        fs::create_dir(&other).unwrap();
        fs::write(other.join("ledger"), text).unwrap();
        fs::write(other.join("owner.lock"), "").unwrap();
        if let User::Nobody(uid) = stage.user {
            for path in [other.clone(), other.join("ledger"), other.join("owner.lock")] {
                chown(path, Some(uid), None).unwrap();
            }
        }
        assert_eq!(stage.ostler(&["stop", &pids[0].to_string()]), "meant: stopped\n");
        assert!(other.exists());
        stage.wait_exit(&mut run);
        stage.ostler(&["reap", "--yes"]);
        stage.assert_empty_now();
    }

    fn stop_names_the_remaining_processes_after_its_timeout(stage) {
        let script = r#"trap '' TERM; : > "$0"; while :; do sleep 0.02; done"#;
        let up = stage.sandbox.file("up");
        let mut command = stage.command(&stage.run_words()[0]);
        command.args(["run", "--name", "slow", "--grace", "20h", "--", "sh", "-c", script]).arg(&up);
        let mut run = Launched::start(&mut command);
        wait_until("the server is up", PATIENCE, || up.exists());
        let output = stage.try_ostler(&["stop", "slow", "--timeout", "50ms"]);
        assert_eq!(output.status.code(), Some(4));
        assert_eq!(output.stdout, b"slow: still there; its guardian continues\n");
        run.signal(Signal::KILL);
        stage.wait_exit(&mut run);
        stage.expect_empty();
    }

    fn stop_of_an_embedded_server_is_reported_to_its_host(stage) {
        let mut host = stage.host(2, &["--setsid-child", STUBBORN.join(" ").as_str()], &[]);
        let mut command = stage.command(&stage.run_words()[0]);
        let mut stop = Launched::start(command.args(["stop", "stub", "--json"]));
        let learned = host.obey("learn");
        assert_eq!(stage.wait_exit(&mut stop).code(), Some(0));
        let lines: Vec<&str> = learned.lines().collect();
        assert_eq!(lines.iter().filter(|line| **line == "learned: empty").count(), 2, "{learned}");
        assert!(lines[0].starts_with("learned: signal: "), "{learned}");
        // The host lives on, without zombies, and can start others.
        assert_eq!(stage.sandbox.survivors().pids(), [host.0.pid()]);
        assert_eq!(ostler_testkit::zombies_of(host.0.pid()), []);
        assert!(stage.ledgers().is_empty());
        assert!(host.obey("cycle").starts_with("gone: 2 "));
        host.order("exit");
        stage.wait_exit(&mut host.0);
        stage.assert_empty_now();
    }

    fn secrets_are_shown_nowhere(stage) {
        const SECRET: &str = "correct-horse-battery-staple";
        let up = stage.sandbox.file("up");
        let mut command = stage.command(&stage.run_words()[0]);
        command.args(["run", "--grace", "300ms", "--", "sh", "-c", r#": > "$0"; setsid sleep 600 & wait"#]);
        command.arg(&up).arg(SECRET).env("API_TOKEN", SECRET);
        let mut run = Launched::start(&mut command);
        wait_until("the server is up", PATIENCE, || up.exists() && stage.sandbox.survivors().pids().len() == 4);
        let server = wait_until("it is on record", PATIENCE, || view_of(&stage, "sh")?["pid"].as_u64());
        let server = server.to_string();
        let mut said = vec![run.stderr()];
        let all = [
            &["ps"][..], &["ps", "--json"], &["why", &server], &["why", &server, "--json"], &["reap"],
        ];
        said.extend(all.iter().map(|words| stage.ostler(words)));
        let ledger = stage.ledgers().remove(0);
        said.push(fs::read_to_string(ledger.join("ledger")).unwrap());
        for file in ["cmdline", "environ"] {
            let path = format!("/proc/{}/{file}", stage.guardians()[0]);
            said.push(String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned());
        }
        stage.abandon(&mut run);
        said.push(stage.ostler(&["reap"]));
        said.push(stage.ostler(&["reap", "--json"]));
        assert!(said.iter().any(|text| text.contains("would be ended")));
        said.push(stage.ostler(&["stop", "sh", "--json"]));
        for text in said {
            assert!(!text.contains(SECRET), "{text}");
        }
        stage.assert_empty_now();
    }
}

/// At leaf the cgroup identifies the process without a mark in its environment and without a guardian.
#[test]
fn why_knows_an_unmarked_orphan_at_leaf() {
    let stage = Stage::leaf();
    let (mut run, pids) = start(&stage, "known", &["--double-fork", "--empty-env"]);
    stage.abandon(&mut run);
    let answer = stage.ostler_json(&["why", &pids[1].to_string(), "--json"]);
    assert_eq!(answer["role"], "descendant");
    assert_eq!(answer["instance"]["state"], "orphaned");
    assert_eq!(answer["instance"]["guardian"], Value::Null);
    stage.ostler(&["reap", "--yes"]);
    stage.assert_empty_now();
}

fn ostler(sandbox: &Sandbox, words: &[&str]) -> String {
    let mut command = sandbox.command(ostler_testkit::binary("ostler"));
    let output = command.args(words).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

const COMMANDS: [&str; 18] = [
    "run",
    "serve",
    "connect",
    "ps",
    "why",
    "stop",
    "restart",
    "reload",
    "down",
    "sessions",
    "events",
    "doctor",
    "reap",
    "check",
    "schema",
    "demo",
    "completions",
    "man",
];

#[test]
fn completions_know_every_command() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = ostler(&sandbox, &["completions", shell]);
        for command in COMMANDS {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
    let script = sandbox.file("completions");
    fs::write(&script, ostler(&sandbox, &["completions", "bash"])).unwrap();
    assert!(Command::new("bash").arg("-n").arg(&script).status().unwrap().success());
}

#[test]
fn the_manual_has_a_section_for_every_command() {
    let page = ostler(&Sandbox::new(), &["man"]);
    assert!(page.contains(".TH ostler 1"), "{page}");
    for command in COMMANDS {
        assert!(page.contains(&format!(".SH \"OSTLER {}\"", command.to_uppercase())), "{command}");
    }
}
