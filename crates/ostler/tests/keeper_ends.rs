//! The keeper decides when instances end: clones of a lease may be kept anywhere and keep nothing alive.

use std::time::Duration;

use ostler_testkit::{KeeperHost, RUDE, Stage, rows, wait_until, zombies_of};
use rustix::process::Signal;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(30);

/// One server for each way to resist being stopped.
fn rude() -> Value {
    let servers = RUDE.iter().enumerate().map(|(number, switches)| {
        let switches: Vec<&str> = switches.split_ascii_whitespace().collect();
        (format!("w{number}"), json!({"switches": switches, "share": "all"}))
    });
    json!({"servers": servers.collect::<serde_json::Map<_, _>>()})
}

/// A host with all of them, with clones of leases in detached tasks and a call in flight on each.
fn host_with_rude_servers(stage: &Stage) -> KeeperHost {
    let mut host = stage.keeper_host(&rude());
    host.ask("session s --agent ann");
    for number in 0..RUDE.len() {
        host.ask(&format!("keep s w{number} 3"));
        host.later(
            &format!("c{number}"),
            &format!(r#"call s w{number} --arguments {{"never":true}}"#),
        );
    }
    let all = RUDE.len();
    wait_until("all calls are in flight", PATIENCE, || {
        let snapshot = host.ask("snapshot");
        let busy = |view: &&Value| view["state"] == "ready" && view["uses"] == 1;
        snapshot["instances"].as_array().into_iter().flatten().filter(busy).count() == all
    });
    assert_eq!(stage.guardians().len(), all);
    host
}

/// Expects that the host has no instance left after its keeper ended, and that all clones fail.
fn expect_nothing_but_the_host(stage: &Stage, host: &mut KeeperHost) {
    let pid = host.0.pid();
    wait_until("only the host is left, without zombies", PATIENCE, || {
        stage.sandbox.survivors().pids() == [pid] && zombies_of(pid).is_empty()
    });
    wait_until("the ledger is settled", PATIENCE, || stage.ledgers().is_empty());
    assert_all_closed(host, RUDE.len());
    for number in 0..RUDE.len() {
        host.failed(&format!("c{number}"));
    }
}

/// Expects that calls through each clone fail.
fn assert_all_closed(host: &mut KeeperHost, count: usize) {
    let answers = host.ask("clones");
    let answers: Vec<&str> =
        answers.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    assert_eq!(answers.len(), count);
    let is_told =
        |answer: &str| answer.contains("takes no more calls") || answer.contains("session is over");
    assert!(answers.iter().all(|answer| is_told(answer)), "{answers:?}");
}

fn exit(stage: &Stage, mut host: KeeperHost) {
    host.order("exit");
    stage.wait_exit(&mut host.0);
    stage.assert_empty_now();
}

rows! {
    fn s19_l25_clones_in_detached_tasks_keep_nothing_alive(stage) {
        let mut config = json!({"servers": {"a": {"switches": stage.watched(&["--setsid-child"])}}});
        let mut host = stage.keeper_host(&config);
        for (cycle, end) in ["close s", "stop a", "end-agent ann", "replace"].iter().cycle().take(20).enumerate() {
            host.ask("session s --agent ann");
            host.ask("keep s a 5");
            config["servers"]["a"]["env"] = json!({"VERSION": cycle.to_string()});
            let order = if *end == "replace" { format!("replace {config}") } else { (*end).to_owned() };
            assert_eq!(host.ask(&order)["left"], json!([]));
            // Instances of an agent outlive its sessions and stop with the agent.
            host.ask("end-agent ann");
            stage.assert_servers(&host, 0);
            assert_all_closed(&mut host, cycle + 1);
        }
        assert_eq!(host.started(), 20);
        stage.shut_down(host);
    }

    fn s19_l25_shut_down_does_not_wait_for_references(stage) {
        let mut host = host_with_rude_servers(&stage);
        let books = host.ask("shutdown");
        assert_eq!((&books["gone"], &books["balance"]), (&json!(RUDE.len()), &json!(true)), "{books}");
        stage.assert_servers(&host, 0);
        expect_nothing_but_the_host(&stage, &mut host);
        exit(&stage, host);
    }

    fn s18_s19_the_keeper_is_dropped(stage) {
        let mut host = host_with_rude_servers(&stage);
        host.ask("drop");
        expect_nothing_but_the_host(&stage, &mut host);
        exit(&stage, host);
    }

    fn s19_the_task_of_the_keeper_panics(stage) {
        let mut host = host_with_rude_servers(&stage);
        assert_eq!(host.ask("panic")["panicked"], true);
        expect_nothing_but_the_host(&stage, &mut host);
        exit(&stage, host);
    }

    fn the_host_exits_without_shutdown(stage) {
        let mut host = host_with_rude_servers(&stage);
        host.order("exit");
        stage.wait_exit(&mut host.0);
        stage.expect_empty();
    }

    fn the_host_aborts(stage) {
        let mut host = host_with_rude_servers(&stage);
        host.order("abort");
        stage.wait_exit(&mut host.0);
        stage.expect_empty();
    }

    fn the_host_is_killed(stage) {
        let mut host = host_with_rude_servers(&stage);
        host.0.signal(Signal::KILL);
        stage.wait_exit(&mut host.0);
        stage.expect_empty();
    }

    fn the_host_drops_its_runtime(stage) {
        let mut host = host_with_rude_servers(&stage);
        host.0.close_stdin();
        stage.wait_exit(&mut host.0);
        stage.expect_empty();
    }

    fn l30_the_keeper_is_dropped_while_servers_start(stage) {
        let server = json!({"switches": stage.watched(&["--answer", "never", "--setsid-child"]), "share": "all"});
        let names: Vec<String> = (0..12).map(|number| format!("w{number}")).collect();
        let servers: serde_json::Map<String, Value> =
            names.iter().map(|name| (name.clone(), server.clone())).collect();
        for end in ["drop", "panic"] {
            let mut host = stage.keeper_host(&json!({"servers": servers}));
            host.ask("session s");
            for name in &names {
                host.later(name, &format!("acquire s {name}"));
            }
            // Eight servers may start at a time, and none of them becomes ready.
            wait_until("as many as may start", PATIENCE, || host.books()["live"] == 8);
            host.ask(end);
            let pid = host.0.pid();
            wait_until("only the host is left", PATIENCE, || {
                stage.sandbox.survivors().pids() == [pid] && zombies_of(pid).is_empty()
            });
            for name in &names {
                assert!(host.result(name).is_err());
            }
            wait_until("the ledger is settled", PATIENCE, || stage.ledgers().is_empty());
            exit(&stage, host);
        }
    }
}
