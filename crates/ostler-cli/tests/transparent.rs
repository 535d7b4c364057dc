//! In front of a server's command, `ostler run` changes nothing that the client or the server sees.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use ostler_testkit::{Launched, Stage, fds_of, is_alive, rows, wait_until};
use rustix::process::Signal;
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(30);

/// Expects one line on stderr and the exit code that shells use.
fn assert_refused(mut command: Command, code: i32, complaint: &str) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), stderr.lines().count()), (Some(code), 1), "{stderr}");
    assert!(stderr.contains(complaint), "{stderr}");
}

/// The client is a shell that waits for its server; the test holds the other end of its stdin.
fn below_a_client(stage: &Stage, redirection: &str, switches: &[&str]) -> Launched {
    let script = format!(r#""$@" {redirection}; exit $?"#);
    let words = [stage.run_words(), stage.stub_words(switches)].concat();
    let mut command = stage.command("sh");
    command.args(["-c", &script, "client"]).args(words);
    let client = Launched::start(&mut command);
    stage.sandbox.wait_ready(PATIENCE);
    client
}

rows! {
    fn there_is_no_such_command(stage) {
        assert_refused(stage.run(&["no-such-command"]), 127, "ostler: no-such-command: command not found");
        assert_refused(stage.run(&["./no/such/command"]), 127, "ostler: ./no/such/command: command not found");
        stage.assert_empty_now();
    }

    fn the_command_cannot_be_executed(stage) {
        assert_refused(stage.run(&["/etc/passwd"]), 126, "ostler: /etc/passwd: cannot be executed: permission denied");
        assert_refused(stage.run(&["/usr"]), 126, "permission denied");
        let script = stage.sandbox.file("script");
        fs::write(&script, "#!/no/such/interpreter\n").unwrap();
        assert!(Command::new("chmod").arg("+x").arg(&script).status().unwrap().success());
        assert_refused(stage.run(&[script.to_str().unwrap()]), 126, "cannot be executed");
        stage.assert_empty_now();
    }

    fn the_working_directory_cannot_be_used(stage) {
        for directory in ["/no/such/directory", "/etc/passwd"] {
            let mut command = stage.command(&stage.run_words()[0]);
            command.args(["run", "--cwd", directory, "--", "true"]);
            assert_refused(command, 126, directory);
        }
        stage.assert_empty_now();
    }

    fn arguments_environment_and_signals_are_the_same(stage) {
        let direct = stage.dump_of(&[]);
        let mut fenced = stage.dump_of(&stage.run_words_with(&["--engine", "off"]));
        assert!(fenced["env"].as_object_mut().unwrap().remove("OSTLER_INSTANCE").is_some());
        for field in ["argv", "cwd", "env", "umask", "sigign", "sigblk", "uid"] {
            assert!(!direct[field].is_null(), "{field}");
            assert_eq!(direct[field], fenced[field], "{field}");
        }
    }

    fn only_the_variables_of_container_engines_differ(stage) {
        let (mut direct, mut fenced) = (stage.dump_of(&[]), stage.dump_of(&stage.run_words()));
        let door = fenced["env"]["DOCKER_HOST"].as_str().unwrap().to_owned();
        let doors = format!("unix://{}/ostler/doors/", stage.sandbox.runtime().display());
        assert!(door.starts_with(&doors), "{door}");
        // A podman command is found through a directory beside the socket.
        let path = |dump: &Value| dump["env"]["PATH"].as_str().unwrap().to_owned();
        let shelf = door.strip_prefix("unix://").unwrap().replace(".sock", ".bin");
        assert_eq!(path(&fenced), format!("{shelf}:{}", path(&direct)));
        for dump in [&mut direct, &mut fenced] {
            let env = dump["env"].as_object_mut().unwrap();
            env.retain(|name, _| !["OSTLER_INSTANCE", "DOCKER_HOST", "PATH"].contains(&name.as_str()));
        }
        assert_eq!(direct["env"], fenced["env"]);
        stage.assert_empty_now();
    }

    fn l47_the_server_has_three_descriptors_and_the_guardian_none_of_them(stage) {
        let list = stage.sandbox.file("fds");
        let mut run = stage.wrap(&["--list-fds", list.to_str().unwrap()]);
        let numbers: Vec<String> = fs::read_to_string(list).unwrap().lines()
            .map(|line| line.split(' ').next().unwrap().to_owned()).collect();
        assert_eq!(numbers, ["0", "1", "2"]);

        let server: Vec<_> = fds_of(stage.sandbox.pids()[0]).into_iter().map(|(_, t)| t).collect();
        for (number, target) in fds_of(stage.guardians()[0]) {
            assert!(!server.contains(&target), "the guardian holds {number}: {}", target.display());
        }
        // The client sees EOF when the server closes stdout: no other process holds it.
        let output = &server[1];
        assert!(fds_of(run.pid()).iter().all(|(_, target)| target != output));
        run.close_stdin();
        assert!(stage.wait_exit(&mut run).success());
    }

    fn stdout_ends_when_the_server_closes_it(stage) {
        let mut run = Launched::start(&mut stage.run(&["sh", "-c", "exec sleep 600 >&-"]));
        assert_eq!(run.line(PATIENCE).unwrap(), None);
        assert!(run.try_exit().is_none());
        run.signal(Signal::TERM);
        stage.wait_exit(&mut run);
        stage.assert_empty_now();
    }

    fn every_byte_passes(stage) {
        let sent: Vec<u8> = (0..5_000_000u32).map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
        let mut command = stage.run(&["cat"]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut received = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                input.write_all(&sent).unwrap();
                drop(input);
            });
            output.read_to_end(&mut received).unwrap();
        });
        assert!(child.wait().unwrap().success());
        assert!(received == sent, "{} of {} bytes, or not the same", received.len(), sent.len());
    }

    fn stdin_is_a_socket_and_is_half_closed(stage) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let words = stage.stub_words(&["--ignore-eof", "--setsid-child"]);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut command = stage.run(&words);
        let mut run = command.stdin(OwnedFd::from(theirs)).stderr(Stdio::null()).spawn().unwrap();
        drop(command);
        stage.sandbox.wait_ready(PATIENCE);
        ours.shutdown(Shutdown::Write).unwrap();
        wait_until("ostler run ends", PATIENCE, || run.try_wait().unwrap());
        stage.assert_empty_now();
    }

    fn stdin_is_a_file(stage) {
        let file = stage.sandbox.file("requests");
        fs::write(&file, "one\ntwo\n").unwrap();
        let output =
            stage.run(&["cat"]).stdin(fs::File::open(file).unwrap()).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"one\ntwo\n"[..]));
        stage.assert_empty_now();
    }

    fn stdin_is_null_and_the_client_is_killed(stage) {
        let mut client = below_a_client(&stage, "</dev/null", &["--ignore-eof", "--double-fork"]);
        client.signal(Signal::KILL);
        stage.wait_exit(&mut client);
        stage.expect_empty();
    }

    fn the_client_is_killed_and_another_process_holds_its_pipe(stage) {
        // The test holds the writing end, as a sibling does that has inherited it.
        let mut client = below_a_client(&stage, "", &["--ignore-term", "--double-fork"]);
        client.signal(Signal::KILL);
        stage.wait_exit(&mut client);
        stage.expect_empty();
    }

    fn stdin_is_a_terminal_that_is_closed(stage) {
        // Not in the sandbox by name: script starts a shell with an environment of its own.
        let words = [stage.run_words(), stage.stub_words(&["--setsid-child"])].concat();
        let mut command = stage.command("script");
        command.args(["--quiet", "--return", "--command", &words.join(" "), "/dev/null"]);
        let mut terminal = Launched::start(&mut command);
        stage.sandbox.wait_ready(PATIENCE);
        let request = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
        terminal.write(request.as_bytes(), PATIENCE).unwrap();
        wait_until("an answer on the terminal", PATIENCE, || {
            let line = terminal.line(PATIENCE).unwrap().unwrap();
            String::from_utf8_lossy(&line).contains("\"result\"")
        });
        terminal.signal(Signal::KILL);
        stage.wait_exit(&mut terminal);
        stage.expect_empty();
    }

    fn l13_nohup_keeps_it_alive(stage) {
        let dump = stage.sandbox.file("dump");
        let words = stage.stub_words(&["--ignore-eof", "--dump", dump.to_str().unwrap()]);
        let words = [vec!["nohup".to_owned()], stage.run_words(), words].concat();
        let mut command = stage.command("sh");
        command.args(["-c", r#""$@" </dev/null & wait"#, "client"]).args(words);
        let mut client = Launched::start(&mut command);
        stage.sandbox.wait_ready(PATIENCE);
        let dump: Value = serde_json::from_slice(&fs::read(dump).unwrap()).unwrap();
        let ignored = u64::from_str_radix(dump["sigign"].as_str().unwrap(), 16).unwrap();
        assert_eq!(ignored & 1, 1, "SIGHUP is not ignored by the server");

        let run = stage.sandbox.cgroup().pids().into_iter()
            .find(|pid| ostler_testkit::Process::read(*pid).is_some_and(|p| p.comm == "ostler"));
        let run = run.unwrap();
        stage.signal(run, Signal::HUP);
        client.signal(Signal::KILL);
        stage.wait_exit(&mut client);
        // TERM is handled after HUP and the client's death, so both had an effect by then.
        assert!(is_alive(run) && is_alive(stage.sandbox.pids()[0]));
        stage.signal(run, Signal::TERM);
        stage.expect_empty();
    }
}
