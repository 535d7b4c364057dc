//! Recognition of an instance's guardian, and of processes that only look like one.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use std::fs;
use std::time::Duration;

use ostler_testkit::{Launched, Process, Stage, binary, is_alive, rows, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(30);

/// Command lines that disguise a server's child as a guardian. `$FIFO` has no writer, so the child reads it until it is
/// killed; `$0` and `$1` are the arguments after the shell script.
const MARKED: &str =
    r#"(exec -a ostler-guardian cat - "$OSTLER_INSTANCE" <>"$FIFO") & echo $! >"$PIDS/impostor""#;
const UNMARKED: &str = r#"env -i bash -c 'exec -a ostler-guardian cat - "$0" <>"$1"' "$OSTLER_INSTANCE" "$FIFO" & echo $! >"$PIDS/impostor""#;

/// A server with a marked child that survives it, and with a disguised child.
struct Masquerade {
    run: Launched,
    marked: u32,
    impostor: u32,
}

impl Masquerade {
    fn start(stage: &Stage, disguise: &str) -> Self {
        let (fifo, pids) = (stage.sandbox.file("fifo"), stage.sandbox.path().join("files"));
        for name in ["fifo", "marked", "impostor"] {
            let _ = fs::remove_file(stage.sandbox.file(name));
        }
        let script = format!(
            "mkfifo \"$FIFO\"; {disguise}; setsid sleep 100000 & echo $! >\"$PIDS/marked\"; echo up; wait"
        );
        let mut command = stage.run(&["bash", "-c", &script]);
        let mut run = Launched::start(command.env("FIFO", fifo).env("PIDS", pids));
        assert_eq!(run.line(PATIENCE).unwrap().unwrap(), b"up");
        wait_until("its start is on record", PATIENCE, || started(stage).is_some());
        let pid = |name: &str| -> u32 {
            fs::read_to_string(stage.sandbox.file(name)).unwrap().trim().parse().unwrap()
        };
        let (marked, impostor) = (pid("marked"), pid("impostor"));
        wait_until("the child is in disguise", PATIENCE, || {
            Process::read(impostor).is_some_and(|it| it.cmdline().starts_with("ostler-guardian - "))
        });
        Self { run, marked, impostor }
    }
}

/// The ledger line that names guardian and server.
fn started(stage: &Stage) -> Option<Value> {
    let ledger = fs::read_to_string(stage.ledgers().first()?.join("ledger")).ok()?;
    let lines = ledger.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.into_iter().find(|line| line["record"] == "started")
}

/// Forges the ledger so that it names this process as guardian, as a server of the same user could.
fn forge_guardian(stage: &Stage, pid: u32) {
    let line = started(stage).unwrap();
    let mut forged = line.clone();
    forged["process"]["guardian"] =
        json!({ "pid": pid, "start": Process::read(pid).unwrap().start_time });
    let path = stage.ledgers()[0].join("ledger");
    let is_other = |text: &&str| serde_json::from_str::<Value>(text).ok().as_ref() != Some(&line);
    let ledger = fs::read_to_string(&path).unwrap();
    let kept: Vec<&str> = ledger.lines().filter(is_other).collect();
    fs::write(path, format!("{}\n{forged}\n", kept.join("\n"))).unwrap();
}

/// Kills the owner and stops the guardian, and returns the guardian's pid.
fn hold_guardian(stage: &Stage, owner: &mut Launched) -> u32 {
    let guardian = stage.guardians_of(owner.pid())[0];
    stage.signal(guardian, Signal::STOP);
    wait_until("it is stopped", PATIENCE, || {
        Process::read(guardian).is_some_and(|found| found.state == 'T')
    });
    owner.signal(Signal::KILL);
    stage.wait_exit(owner);
    guardian
}

/// Expects that `ps` and `reap` recognise the guardian and leave its instance to it.
fn expect_recognised(stage: &Stage, guardian: u32) {
    let shown = stage.ostler_json(&["ps", "--json"]);
    assert_eq!(
        (&shown[0]["guardian"]["pid"], &shown[0]["state"]),
        (&json!(guardian), &json!("ending"))
    );
    let found = stage.ostler_json(&["reap", "--yes", "--json"]);
    assert_eq!(
        (&found[0]["guardian"], &found[0]["outcome"]),
        (&json!(guardian), &json!("left_to_its_guardian"))
    );
    stage.signal(guardian, Signal::CONT);
    stage.expect_empty();
}

rows! {
    fn a_server_in_a_guardians_disguise_is_swept(stage) {
        for (disguise, is_found) in [(MARKED, true), (UNMARKED, stage.level() == "leaf")] {
            let Masquerade { mut run, marked, impostor } = Masquerade::start(&stage, disguise);
            stage.abandon(&mut run);
            assert!(is_alive(marked) && is_alive(impostor));
            let shown = stage.ostler_json(&["ps", "--json"]);
            assert_eq!((&shown[0]["guardian"], &shown[0]["state"]), (&Value::Null, &json!("orphaned")));
            stage.ostler(&["reap", "--yes"]);
            assert!(!is_alive(marked), "{disguise}");
            // Without a leaf and without the mark nothing identifies it.
            assert_eq!(is_alive(impostor), !is_found, "{disguise}");
            if !is_found {
                stage.signal(impostor, Signal::KILL);
            }
            stage.expect_empty();
        }
    }

    fn a_ledger_cannot_make_a_guardian_of_a_process_inside_the_fence(stage) {
        let Masquerade { mut run, marked, impostor } = Masquerade::start(&stage, MARKED);
        forge_guardian(&stage, impostor);
        stage.abandon(&mut run);
        stage.ostler(&["reap", "--yes"]);
        assert!(!is_alive(marked) && !is_alive(impostor));
        stage.assert_empty_now();

        // Nor of a process anywhere whose command line does not claim to be a guardian.
        let Masquerade { mut run, marked, .. } = Masquerade::start(&stage, MARKED);
        forge_guardian(&stage, stage.bystanders().pids()[0]);
        stage.abandon(&mut run);
        stage.ostler(&["reap", "--yes"]);
        assert!(!is_alive(marked));
        stage.assert_empty_now();
    }

    fn stop_signals_no_process_that_only_looks_like_the_guardian(stage) {
        let Masquerade { mut run, impostor, .. } = Masquerade::start(&stage, UNMARKED);
        let guardian = stage.guardians_of(run.pid())[0];
        let shown = stage.ostler_json(&["ps", "--json"]);
        assert_eq!(shown[0]["guardian"]["pid"], guardian);
        let shown = shown[0]["processes"].as_array().unwrap();
        assert!(shown.iter().any(|process| process["pid"] == impostor), "{shown:?}");
        stage.ostler(&["stop", "bash"]);
        stage.wait_exit(&mut run);
        stage.assert_empty_now();
    }

    fn a_process_with_the_porters_name_is_shown(stage) {
        let script = r#"cp "$(command -v sleep)" "$PORTER"; (setsid env -i "$PORTER" 100000 &); echo up; exec cat"#;
        let mut command = stage.run(&["sh", "-c", script]);
        let mut run = Launched::start(command.env("PORTER", stage.sandbox.file("ostler-porter")));
        assert_eq!(run.line(PATIENCE).unwrap().unwrap(), b"up");
        let porter = wait_until("it runs", PATIENCE, || stage.named("ostler-porter").pop());
        wait_until("it is an orphan", PATIENCE, || {
            Process::read(porter).is_some_and(|found| found.ppid == stage.guardians()[0])
        });
        let shown = stage.ostler_json(&["ps", "--json"]);
        let shown = shown[0]["processes"].as_array().unwrap();
        assert!(shown.iter().any(|process| process["pid"] == porter), "{shown:?}");
        run.close_stdin();
        stage.wait_exit(&mut run);
        stage.assert_empty_now();
    }

    fn a_guardian_is_recognised_after_its_program_was_replaced(stage) {
        let mut run = stage.wrap(&["--setsid-child"]);
        let program = stage.run_words().remove(0);
        fs::remove_file(&program).unwrap();
        fs::copy(binary("ostler"), &program).unwrap();
        let guardian = hold_guardian(&stage, &mut run);
        let link = fs::read_link(format!("/proc/{guardian}/exe")).unwrap();
        assert!(link.to_str().unwrap().ends_with(" (deleted)"), "{}", link.display());
        expect_recognised(&stage, guardian);
    }

    fn a_guardian_of_another_program_is_recognised(stage) {
        let mut host = stage.host(1, &["--setsid-child"], &[]);
        let guardian = hold_guardian(&stage, &mut host.0);
        let link = fs::read_link(format!("/proc/{guardian}/exe")).unwrap();
        assert!(link.ends_with("ostler-host"), "{}", link.display());
        expect_recognised(&stage, guardian);
    }
}

/// The fence is inside another one, so the guardian's ancestors carry a mark: that of the other instance.
#[test]
fn a_guardian_inside_another_fence_is_recognised() {
    for stage in [Stage::leaf(), Stage::tree()] {
        let words = [stage.run_words(), stage.stub_words(&["--setsid-child"])].concat();
        let mut run = stage.wrap_words(&words);
        let guardians = stage.guardians();
        assert_eq!(guardians.len(), 2);
        let shown = stage.ostler_json(&["ps", "--json"]);
        let mut known: Vec<u64> = shown
            .as_array()
            .unwrap()
            .iter()
            .map(|view| view["guardian"]["pid"].as_u64().unwrap())
            .collect();
        known.sort_unstable();
        let mut expected: Vec<u64> = guardians.into_iter().map(u64::from).collect();
        expected.sort_unstable();
        assert_eq!(known, expected);
        run.signal(Signal::KILL);
        stage.wait_exit(&mut run);
        stage.expect_empty();
    }
}
