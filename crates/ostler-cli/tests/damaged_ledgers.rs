//! Damaged and forged ledgers: no command fails on them, and nothing foreign is touched.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ostler_testkit::{Launched, Process, Stage, User, is_alive, rows, wait_until};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(30);
const NOTHING: &str = "nothing to reap: no dead owner has left anything\n";

/// A server whose owner and guardian are dead, and the text of their ledger.
struct Remains {
    ledger: Vec<u8>,
    pids: Vec<u32>,
}

impl Remains {
    /// Removes their own ledger, so that only the ledger that a test plants names them.
    fn leave(stage: &Stage) -> Self {
        let mut run = stage.wrap(&["--setsid-child", "--double-fork", "--descendants-ignore-term"]);
        stage.abandon(&mut run);
        wait_until("the server dies with its guardian", PATIENCE, || {
            stage.sandbox.survivors().pids().len() == 2
        });
        let directory = stage.ledgers().remove(0);
        let ledger = fs::read(directory.join("ledger")).unwrap();
        fs::remove_dir_all(directory).unwrap();
        Self { ledger, pids: stage.sandbox.survivors().pids() }
    }

    fn lines(&self) -> Vec<Value> {
        let lines = self.ledger.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
    }

    fn assert_untouched(&self) {
        assert!(self.pids.iter().all(|pid| is_alive(*pid)));
    }
}

fn uid_of(stage: &Stage) -> u32 {
    if let User::Nobody(uid) = stage.user { uid } else { 0 }
}

/// A ledger as a dead owner leaves it, of the stage's user.
fn plant(stage: &Stage, number: usize, ledger: &[u8]) -> PathBuf {
    let place = stage.sandbox.state().join("ostler");
    plant_in(&place, uid_of(stage), number, ledger)
}

fn plant_in(place: &Path, uid: u32, number: usize, ledger: &[u8]) -> PathBuf {
    let directory = place.join(format!("owners/{number:032x}"));
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("ledger"), ledger).unwrap();
    fs::write(directory.join("owner.lock"), "").unwrap();
    let mine = [place.to_owned(), place.join("owners"), directory.clone()];
    for path in &mine {
        fs::set_permissions(path, Permissions::from_mode(0o700)).unwrap();
    }
    for path in mine.iter().chain(&[directory.join("ledger"), directory.join("owner.lock")]) {
        chown(path, Some(uid), Some(uid)).unwrap();
    }
    directory
}

fn text_of(lines: &[Value]) -> Vec<u8> {
    lines.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect()
}

/// Expects that all recorded processes end and that their ledgers are removed.
fn reap_all(stage: &Stage) {
    stage.ostler(&["reap", "--yes"]);
    stage.assert_empty_now();
    assert_eq!(stage.ledgers(), Vec::<PathBuf>::new());
}

/// The lines of a ledger of ours that names these as guardian, server and leaf.
fn forged(instance: &str, owner: &Value, named: &Value, leaf: &Value) -> Vec<u8> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    text_of(&[
        json!({"record": "owner", "id": "0".repeat(32), "process": owner, "program": "forged",
               "client": null, "boot": boot.trim()}),
        json!({"record": "intent", "instance": instance, "name": "forged", "program": "forged",
               "leaf": leaf, "at": 0}),
        json!({"record": "started", "instance": instance, "level": "leaf",
               "process": {"guardian": named, "server": named}}),
    ])
}

rows! {
    fn f25_garbage_between_the_lines(stage) {
        let huge = vec![b'x'; 1 << 20];
        let huge_name = format!("{{\"record\":\"intent\",\"name\":\"{}\"}}", "x".repeat(1 << 20));
        let deep = "[".repeat(100_000);
        let garbage: [&[u8]; 7] = [
            b"\0\xff\xfe",
            b"{}",
            br#"{"record":"unheard of","instance":[]}"#,
            br#"{"record":"ended","instance":"00000000000000000000000000000000","end":"refused"}"#,
            &huge,
            huge_name.as_bytes(),
            deep.as_bytes(),
        ];
        let remains = Remains::leave(&stage);
        let mut ledger = Vec::new();
        for line in remains.ledger.split(|byte| *byte == b'\n') {
            // Each line twice, and between two lines all of the garbage.
            for part in garbage.iter().chain([&line, &line]) {
                ledger.extend_from_slice(part);
                ledger.push(b'\n');
            }
        }
        plant(&stage, 1, &ledger);
        let shown = stage.ostler_json(&["ps", "--json"]);
        assert_eq!(shown.as_array().unwrap().len(), 1);
        assert_eq!(shown[0]["state"], "orphaned");
        reap_all(&stage);
    }

    fn f25_the_same_ledger_twice(stage) {
        let remains = Remains::leave(&stage);
        plant(&stage, 1, &[&remains.ledger[..], &remains.ledger[..]].concat());
        plant(&stage, 2, &remains.ledger);
        reap_all(&stage);
    }

    fn f25_a_ledger_of_another_boot(stage) {
        let remains = Remains::leave(&stage);
        let mut lines = remains.lines();
        lines[0]["boot"] = json!("00000000-0000-0000-0000-000000000000");
        plant(&stage, 1, &text_of(&lines));
        assert_eq!(stage.ostler_json(&["ps", "--json"]), json!([]));
        assert_eq!(stage.ostler(&["reap", "--yes"]), NOTHING);
        remains.assert_untouched();
        assert_eq!(stage.ledgers(), Vec::<PathBuf>::new());
        stage.bystanders().assert_untouched();
    }

    fn f25_a_ledger_that_names_unrelated_processes(stage) {
        let instance = "0123456789abcdef0123456789abcdef";
        let leaf_name = format!("ostler-{instance}");
        let stranger = Process::read(stage.bystanders().pids()[0]).unwrap();
        // A directory with the right name that is no cgroup, and a way from there to one.
        let plain = stage.sandbox.file(&leaf_name);
        fs::create_dir_all(plain.join("kept")).unwrap();
        fs::set_permissions(&plain, Permissions::from_mode(0o777)).unwrap();
        let aside = stage.sandbox.file("aside");
        fs::create_dir(&aside).unwrap();
        symlink(stage.bystanders().cgroup().path(), aside.join(&leaf_name)).unwrap();
        let leaves = [
            json!(null),
            json!("/"),
            json!(""),
            json!(leaf_name),
            json!(stage.bystanders().cgroup().path()),
            json!(stage.sandbox.cgroup().path()),
            json!(stage.bystanders().cgroup().path().join(&leaf_name).join("..")),
            json!(plain),
            json!(aside.join(&leaf_name)),
        ];
        let mut number = 0;
        for start in [stranger.start_time, stranger.start_time - 1] {
            let named = json!({"pid": stranger.pid, "start": start});
            for leaf in &leaves {
                number += 1;
                plant(&stage, number, &forged(instance, &named, &named, leaf));
            }
        }
        let dry = stage.ostler_json(&["reap", "--json"]);
        assert_eq!(dry.as_array().unwrap().len(), number);
        let all = stage.ostler_json(&["reap", "--yes", "--json"]);
        assert!(all.as_array().unwrap().iter().all(|found| found["outcome"] == "marked_gone"));
        let kept: Vec<_> = fs::read_dir(&plain).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(kept, ["kept"]);
        stage.assert_empty_now();
    }

    fn f25_a_copy_of_a_living_owners_ledger(stage) {
        let mut host = stage.host(2, &["--setsid-child", ""], &[]);
        wait_until("all are up", PATIENCE, || stage.sandbox.survivors().pids().len() == 6);
        let before = stage.sandbox.survivors().pids();
        let ledger = fs::read(stage.ledgers()[0].join("ledger")).unwrap();
        let copy = plant(&stage, 1, &ledger);
        let findings = stage.ostler_json(&["reap", "--yes", "--json"]);
        let outcomes: Vec<&Value> =
            findings.as_array().unwrap().iter().map(|found| &found["outcome"]).collect();
        assert_eq!(outcomes, ["left_to_its_guardian", "left_to_its_guardian"]);
        assert_eq!(stage.sandbox.survivors().pids(), before);
        assert!(host.obey("stop").starts_with("gone: 2 "));
        stage.ostler(&["reap", "--yes"]);
        assert!(!copy.exists());
        host.order("exit");
        stage.wait_exit(&mut host.0);
        stage.assert_empty_now();
    }

    /// In a temporary directory any user may have created our directory first.
    fn f25_a_ledger_that_another_user_has_planted(stage) {
        let remains = Remains::leave(&stage);
        let place = stage.sandbox.system().tmp().join(format!("ostler-{}", uid_of(&stage)));
        let directory = plant_in(&place, 12345, 1, &remains.ledger);
        for path in [&place, &place.join("owners"), &directory] {
            fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
        }
        for file in ["ledger", "owner.lock"] {
            fs::set_permissions(directory.join(file), Permissions::from_mode(0o666)).unwrap();
        }
        let said = |words: &[&str]| {
            let program = &stage.run_words()[0];
            let mut command = stage.sandbox.command_on_own_system(stage.user, program);
            let output = command.args(words).output().unwrap();
            (output.status.code(), String::from_utf8(output.stdout).unwrap())
        };
        assert_eq!(said(&["ps"]), (Some(0), "no servers\n".into()));
        assert_eq!(said(&["reap", "--yes"]), (Some(0), NOTHING.into()));
        remains.assert_untouched();
        assert!(directory.exists());

        // Directories of ours that are writable for all may have been filled by any user.
        for path in [&place, &place.join("owners"), &directory] {
            chown(path, Some(uid_of(&stage)), None).unwrap();
        }
        assert_eq!(said(&["reap", "--yes"]), (Some(0), NOTHING.into()));
        remains.assert_untouched();

        // A file of another user is not read, even in our directory.
        for path in [&place, &place.join("owners")] {
            fs::set_permissions(path, Permissions::from_mode(0o700)).unwrap();
        }
        assert_eq!(said(&["reap", "--yes"]), (Some(0), NOTHING.into()));
        remains.assert_untouched();

        for file in ["ledger", "owner.lock"] {
            chown(directory.join(file), Some(uid_of(&stage)), None).unwrap();
        }
        assert_eq!(said(&["reap", "--yes"]).0, Some(0));
        stage.assert_empty_now();
    }
}

/// In a pid namespace of its own, where the next pid can be chosen.
#[test]
fn f25_the_pids_in_the_ledger_belong_to_others_by_now() {
    let stage = Stage::leaf();
    let script = r#"
        set -eu
        mkfifo "$FILES/input"
        "$OSTLER" run -- "$STUB" --ready "$FILES/up" --setsid-child <"$FILES/input" &
        owner=$!
        exec 9>"$FILES/input"
        until [ -e "$FILES/up" ]; do :; done
        ledger=$(echo "$XDG_STATE_HOME"/ostler/owners/*)/ledger
        pid_of() { sed -n "s/.*\"$1\":{\"pid\":\([0-9]*\).*/\1/p" "$ledger"; }
        until grep -q started "$ledger"; do :; done
        guardian=$(pid_of guardian) server=$(pid_of server)
        kill -STOP $owner $guardian
        kill -KILL $owner $guardian
        wait $owner || true
        for pid in $owner $guardian $server; do
            while kill -0 $pid 2>/dev/null; do :; done
            echo $((pid - 1)) >/proc/sys/kernel/ns_last_pid
            "$STUB" --ready "$FILES/stranger-$pid" --ignore-eof </dev/null >/dev/null &
            [ $! = $pid ] || { echo "wanted $pid, got $!"; exit 1; }
            until [ -e "$FILES/stranger-$pid" ]; do :; done
        done
        "$OSTLER" ps --json >"$FILES/ps"
        "$OSTLER" reap --yes --json >"$FILES/reap"
        echo strangers $owner $guardian $server
        kill -KILL $owner $guardian $server # Fails if one of them is gone.
    "#;
    let mut command = stage.command("unshare");
    command.args(["--pid", "--fork", "--mount-proc", "--kill-child", "--"]);
    command.arg(ostler_testkit::binary("ostler-stub")).args(["reap", "--", "sh", "-c", script]);
    command.env("OSTLER", ostler_testkit::binary("ostler"));
    command.env("STUB", ostler_testkit::binary("ostler-stub"));
    command.env("FILES", stage.sandbox.file("input").parent().unwrap());
    let mut namespace = Launched::start(&mut command);
    let status = namespace.wait_exit(PATIENCE);
    let said = namespace.line(PATIENCE).unwrap().map(|line| String::from_utf8(line).unwrap());
    assert!(status.success(), "{said:?} {}", namespace.stderr());
    let said = said.unwrap();
    let strangers: Vec<u64> =
        said.strip_prefix("strangers ").unwrap().split(' ').map(|p| p.parse().unwrap()).collect();

    let written = |name: &str| -> Value {
        serde_json::from_slice(&fs::read(stage.sandbox.file(name)).unwrap()).unwrap()
    };
    let (ps, reap) = (written("ps"), written("reap"));
    assert_eq!((&ps[0]["state"], &ps[0]["guardian"]), (&json!("orphaned"), &Value::Null));
    let own: Vec<u64> = ps[0]["processes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|process| process["pid"].as_u64().unwrap())
        .collect();
    assert_eq!(own.len(), 1);
    assert!(!strangers.contains(&own[0]));
    assert_eq!(reap[0]["outcome"], "gone");
    stage.expect_empty();
}

mod alone {
    use super::*;

    rows! {
        fn f25_a_ledger_that_ends_at_any_byte(stage) {
            let remains = Remains::leave(&stage);
            let ledger = &remains.ledger;
            let known = ledger.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(1).unwrap().0;
            for end in 0..known {
                plant(&stage, end, &ledger[..end]);
            }
            assert_eq!(stage.ostler(&["reap", "--yes"]), NOTHING);
            remains.assert_untouched();
            // They are too short to mean anything, and no process will append to them.
            assert_eq!(stage.ledgers(), Vec::<PathBuf>::new());

            plant(&stage, known, &ledger[..known]);
            reap_all(&stage);
            for end in known..=ledger.len() {
                plant(&stage, end, &ledger[..end]);
            }
            reap_all(&stage);
        }
    }
}
