//! Containers in the output of `ps` and `why`, and their removal by `reap`.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

/// Tests on the shared engine of the test run, or on a private one if the engine has to fail.
mod engine {
    use std::process::Output;
    use std::time::{Duration, Instant};

    use ostler_testkit::{Dock, IMAGE, Launched, Stage, dock_rows, is_alive, wait_until};
    use serde_json::{Value, json};

    const PATIENCE: Duration = Duration::from_secs(30);
    /// Longest time for a command at a terminal, on a loaded machine.
    const PROMPT: Duration = Duration::from_secs(10);

    /// A server called `stable` with one container called `horse`.
    fn stable(dock: &Dock) -> (Launched, String) {
        let script = "docker run -d --name horse $IMAGE sleep 100000 >/dev/null; exec cat";
        let run = dock.script(&["--name", "stable"], script);
        let horse = dock.await_running(1).pop().unwrap();
        (run, horse)
    }

    fn said(output: &Output) -> String {
        String::from_utf8(output.stdout.clone()).unwrap()
    }

    fn complaint(output: &Output) -> (i32, String) {
        (output.status.code().unwrap(), String::from_utf8(output.stderr.clone()).unwrap())
    }

    fn json_of(dock: &Dock, words: &[&str]) -> Value {
        serde_json::from_slice(&dock.ostler(words).stdout).unwrap()
    }

    fn line_of(horse: &str) -> String {
        format!("{} horse ({IMAGE}, running)", &horse[..12])
    }

    fn assert_orphaned(dock: &Dock, horse: &str) {
        let ps = json_of(dock, &["ps", "--json"]);
        assert_eq!(
            (&ps[0]["state"], &ps[0]["containers"][0]["id"]),
            (&json!("orphaned"), &json!(horse))
        );
        let why = said(&dock.ostler(&["why", "horse"]));
        assert!(
            why.contains("was caused by the server 'stable'") && why.contains(", dead\n"),
            "{why}"
        );
    }

    dock_rows! {
        shared:

        fn ps_counts_and_names_containers(dock) {
            let (mut run, horse) = stable(dock);
            let ps = said(&dock.ostler(&["ps", "--wide"]));
            let columns = |line: usize| ps.lines().nth(line).unwrap().split_whitespace().collect::<Vec<_>>();
            let column = columns(0).iter().position(|name| *name == "CONTAINERS").unwrap();
            assert_eq!(columns(1)[column], "1", "{ps}");
            let tree = said(&dock.ostler(&["ps", "--tree"]));
            assert!(tree.contains(&format!("\n  container {}\n", line_of(&horse))), "{tree}");
            let ps = json_of(dock, &["ps", "--json"]);
            let found = &ps[0]["containers"][0];
            assert_eq!((&found["id"], &found["names"]), (&json!(horse), &json!(["horse"])));
            assert_eq!((&found["image"], &found["state"]), (&json!(IMAGE), &json!("running")));
            assert_eq!(ps[0]["unreachable"], Value::Null);
            run.close_stdin();
            dock.stage().wait_exit(&mut run);
            dock.expect_empty();
        }

        fn why_shows_the_client_that_a_container_runs_for(dock) {
            let (mut run, horse) = stable(dock);
            let instance = json_of(dock, &["ps", "--json"])[0]["instance"].clone();
            for target in ["horse", &horse, &horse[..12]] {
                let why = said(&dock.ostler(&["why", target]));
                let first = format!("container {} was caused by the server 'stable'\n", line_of(&horse));
                assert!(why.starts_with(&first), "{why}");
                assert!(why.contains(instance.as_str().unwrap()) && why.contains(", alive\n"), "{why}");
                let answer = json_of(dock, &["why", target, "--json"]);
                assert_eq!((&answer["container"]["id"], &answer["instance"]["name"]), (&json!(horse), &json!("stable")));
            }
            // A container of the same image without labels, and one of an unknown instance.
            let (code, text) = complaint(&dock.ostler(&["why", dock.stranger()]));
            assert_eq!((code, text), (3, format!("ostler: no server of ostler has a container '{}'\n", dock.stranger())));
            let unknown = dock.docker().containers("ostler.instance=00000000000000000000000000000001").pop().unwrap();
            let why = said(&dock.ostler(&["why", &unknown]));
            assert!(why.ends_with("by instance 00000000000000000000000000000001, which no ledger of this user knows\n"), "{why}");
            run.close_stdin();
            dock.stage().wait_exit(&mut run);
            dock.expect_empty();
            assert_eq!(complaint(&dock.ostler(&["why", "horse"])).0, 3);
        }

        fn reap_names_containers_of_dead_owners_and_removes_them(dock) {
            let (mut run, horse) = stable(dock);
            dock.abandon(&mut run);
            assert_orphaned(dock, &horse);
            let dry = dock.ostler(&["reap"]);
            let line = format!("\n  container  {}, carries the instance's label\n", line_of(&horse));
            assert!(dry.status.success() && said(&dry).contains(&line), "{dry:?}");
            let dry = json_of(dock, &["reap", "--json"]);
            assert_eq!((&dry[0]["outcome"], &dry[0]["containers"][0]["id"]), (&json!("found"), &json!(horse)));
            assert_eq!(dock.docker().state(&horse), "running");
            let reap = dock.ostler(&["reap", "--yes"]);
            assert!(reap.status.success() && !said(&reap).contains("still there"), "{reap:?}");
            assert_eq!(dock.containers(), Vec::<String>::new());
            dock.expect_empty();
        }
    }

    dock_rows! {
        private:

        /// The engine accepts connections and does not respond; the commands do not wait for it.
        fn r17_an_engine_that_hangs_does_not_hang_the_commands(dock) {
            let (mut run, horse) = stable(dock);
            dock.freeze_engine();
            for words in [&["ps"][..], &["ps", "--wide"], &["ps", "--tree"], &["ps", "--json"], &["why", "horse"], &["reap"]] {
                let begin = Instant::now();
                dock.ostler(words);
                assert!(begin.elapsed() < PROMPT, "{words:?} took {:?}", begin.elapsed());
            }
            let ps = json_of(dock, &["ps", "--json"]);
            assert_eq!((&ps[0]["state"], &ps[0]["containers"]), (&json!("running"), &json!([])));
            let reason = ps[0]["unreachable"]["reason"].as_str().unwrap();
            assert!(said(&dock.ostler(&["ps", "--tree"])).contains(reason), "{reason}");
            assert!(said(&dock.ostler(&["ps", "--wide"])).contains(" ? "));
            let (code, text) = complaint(&dock.ostler(&["why", "horse"]));
            assert_eq!(code, 1, "it may be there: {text}");
            dock.thaw_engine();
            assert_eq!(json_of(dock, &["ps", "--json"])[0]["containers"][0]["id"], json!(horse));
            run.close_stdin();
            dock.stage().wait_exit(&mut run);
            dock.expect_empty();
        }

        fn r17_containers_of_an_engine_that_is_down_are_named_until_they_are_removed(dock) {
            let (mut run, _) = stable(dock);
            dock.abandon(&mut run);
            dock.kill_engine();
            let socket = dock.docker().host();
            for words in [&["reap"][..], &["reap", "--yes"]] {
                let reap = dock.ostler(words);
                assert_eq!(reap.status.code(), Some(4), "{reap:?}");
                assert!(said(&reap).contains(&format!("the container engine at {socket} can't be used")), "{reap:?}");
            }
            let ps = json_of(dock, &["ps", "--json"]);
            assert_eq!(ps[0]["state"], "unverified");
            assert_eq!(ps[0]["unreachable"]["endpoint"], json!(socket));
            dock.revive_engine();
            assert!(dock.ostler(&["reap", "--yes"]).status.success());
            dock.expect_empty();
        }

        /// The guardian is alive and removes the container as soon as it can; meanwhile the commands name it.
        fn r17_containers_that_a_guardian_still_has_to_remove_are_named_too(dock) {
            let (mut run, _) = stable(dock);
            dock.kill_engine();
            run.signal(rustix::process::Signal::KILL);
            dock.stage().wait_exit(&mut run);
            let state = || json_of(dock, &["ps", "--json"])[0]["state"].clone();
            wait_until("it is unverified", PATIENCE, || state() == "unverified");
            let guardian = dock.stage().guardians()[0];
            for words in [&["reap", "--json"][..], &["reap", "--yes", "--json"]] {
                let reap = dock.ostler(words);
                let found: Value = serde_json::from_slice(&reap.stdout).unwrap();
                assert_eq!(found[0]["outcome"], "left_to_its_guardian");
                assert_eq!((reap.status.code(), &found[0]["guardian"]), (Some(4), &json!(guardian)));
            }
            assert!(is_alive(guardian));
            dock.revive_engine();
            dock.expect_empty();
        }
    }

    /// Whether the engine is down or stopped, ostler exits, leaves the rest to the guardian, and says so.
    #[test]
    fn r17_no_command_waits_for_an_engine_that_does_not_respond() {
        let dock = &mut Dock::private(Stage::tree());
        let troubles: [[fn(&mut Dock); 2]; 2] = [
            [|dock| dock.freeze_engine(), |dock| dock.thaw_engine()],
            [Dock::kill_engine, Dock::revive_engine],
        ];
        for [begins, ends] in troubles {
            let (mut run, _) = stable(dock);
            begins(dock);
            let begin = Instant::now();
            run.close_stdin();
            dock.stage().wait_exit(&mut run);
            assert!(begin.elapsed() < PROMPT, "it took {:?}", begin.elapsed());
            let said = run.stderr();
            assert!(said.contains("its containers are unverified"), "{said}");
            assert!(said.contains("`ostler reap`"), "{said}");
            assert_eq!(dock.stage().guardians().len(), 1);
            ends(dock);
            dock.expect_empty();
        }
    }
}
