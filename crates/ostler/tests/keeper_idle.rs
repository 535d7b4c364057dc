//! Idle limits: what counts as use, and what stops without it.

use std::time::Duration;

use ostler_testkit::{KeeperHost, Stage, is_alive, rows, wait_until};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(30);
const IDLE_MS: u64 = 500;
/// Longer than the idle limit, in microseconds.
const LONGER: u64 = 2 * IDLE_MS * 1000;

/// A server, and a second one as a clock: it stops as soon as the idle limit has passed.
fn config(stage: &Stage) -> Value {
    let limits = json!({"idleMs": IDLE_MS, "callMs": 600_000});
    json!({"servers": {
        "a": {"switches": stage.watched(&[]), "share": "all", "limits": limits},
        "clock": {"share": "all", "limits": limits},
    }})
}

/// Waits until the clock has stopped three times.
fn let_the_idle_limit_pass(host: &mut KeeperHost) {
    for _ in 0..3 {
        host.call("s clock");
        wait_until("the clock is idle", PATIENCE, || host.instances("clock").is_empty());
    }
}

fn expect_gone(stage: &Stage, host: &mut KeeperHost) {
    wait_until("the idle instances are gone", PATIENCE, || host.books()["live"] == 0);
    stage.assert_servers(host, 0);
    let events = host.ask("events").to_string();
    assert!(events.contains("Stopping(Idle)"), "{events}");
}

rows! {
    fn s13_an_idle_instance_stops_and_nothing_is_started(stage) {
        let mut host = stage.keeper_host(&config(&stage));
        for cycle in 1..=3 {
            host.ask(&format!("session s{cycle}"));
            host.call(&format!("s{cycle} a --times 10"));
            host.ask(&format!("keep s{cycle} a 3"));
            expect_gone(&stage, &mut host);
            host.ask(&format!("pause {LONGER}"));
            stage.assert_servers(&host, 0);
            assert_eq!((host.started(), stage.births().len()), (cycle, usize::try_from(cycle).unwrap_or(0)));
        }
        stage.shut_down(host);
    }

    fn l36_a_call_in_flight_is_use(stage) {
        let mut host = stage.keeper_host(&config(&stage));
        host.ask("session s");
        host.later("flight", r#"call s a --arguments {"never":true}"#);
        wait_until("it is in flight", PATIENCE, || host.instances("a").iter().any(|view| view["uses"] == 1));
        let_the_idle_limit_pass(&mut host);
        assert!(is_alive(stage.births()[0]));
        host.ask("cancel flight");
        expect_gone(&stage, &mut host);
        stage.shut_down(host);
    }

    fn l36_a_subscription_is_use(stage) {
        let mut host = stage.keeper_host(&config(&stage));
        host.ask("session s");
        host.ask("hold s a");
        let_the_idle_limit_pass(&mut host);
        stage.assert_servers(&host, 1);
        host.ask("release");
        expect_gone(&stage, &mut host);
        stage.shut_down(host);
    }

    fn l36_messages_after_the_response_are_use(stage) {
        let mut host = stage.keeper_host(&config(&stage));
        host.ask("session s");
        // Three idle limits in all.
        host.call(&format!(r#"s a --arguments {{"notifications":30,"everyMs":{}}}"#, IDLE_MS / 10));
        wait_until("all was heard", PATIENCE, || host.books()["heard"] == 30);
        assert!(is_alive(stage.births()[0]));
        assert_eq!((host.started(), host.books()["live"].clone()), (1, json!(1)));
        expect_gone(&stage, &mut host);
        stage.shut_down(host);
    }

    fn l36_a_probe_is_no_use(stage) {
        let mut host = stage.keeper_host(&config(&stage));
        host.ask("session s");
        host.call("s a");
        wait_until("it is idle although it is probed all the time", PATIENCE, || {
            host.try_ask("probe a --running s") == Ok(Value::Null)
        });
        expect_gone(&stage, &mut host);
        assert_eq!(host.started(), 1);
        stage.shut_down(host);
    }

    fn l36_an_idle_limit_can_be_removed_and_set_again(stage) {
        let mut config = config(&stage);
        config["servers"]["a"]["limits"] = json!({"neverIdle": true});
        let mut host = stage.keeper_host(&config);
        host.ask("session s");
        host.call("s a");
        let_the_idle_limit_pass(&mut host);
        stage.assert_servers(&host, 1);
        config["servers"]["a"]["limits"] = json!({"idleMs": IDLE_MS});
        let changes = host.ask(&format!("replace {config}"));
        assert_eq!(changes["changes"]["kept"], json!(["a", "clock"]));
        expect_gone(&stage, &mut host);
        assert_eq!(stage.births().len(), 1);
        stage.shut_down(host);
    }

    fn s14_a_changed_list_of_tools_starts_nothing(stage) {
        let mut config = config(&stage);
        config["servers"]["a"]["switches"] = json!(stage.watched(&["--list-changed"]));
        let mut host = stage.keeper_host(&config);
        host.ask("session s");
        host.call("s a");
        wait_until("the news were heard", PATIENCE, || host.books()["heard"] == 1);
        for _ in 0..5 {
            host.ask("probe a --running s");
        }
        expect_gone(&stage, &mut host);
        assert_eq!((host.started(), stage.inits()), (1, 1));
        stage.shut_down(host);
    }
}
