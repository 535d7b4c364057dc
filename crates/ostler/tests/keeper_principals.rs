//! Several principals share one keeper: none can lock out another.

use std::time::{Duration, Instant};

use ostler_testkit::{KeeperHost, rows, wait_until};
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(30);
/// Limit of a call that must not wait.
const PROMPT: Duration = Duration::from_secs(10);

fn await_nothing(host: &mut KeeperHost) {
    wait_until("it is known that all have gone", PATIENCE, || host.books()["live"] == 0);
}

rows! {
    fn a_broken_server_is_started_once_for_each_principal_until_its_wait_is_over(stage) {
        let limits = json!({"backoffMs": [600_000, 600_000, 600_000]});
        let switches = stage.watched(&["--exit-at-once", "--exit-code", "5"]);
        let server = json!({"switches": switches, "share": "all", "limits": limits});
        let config = json!({"servers": {"a": server}, "caps": {"queueMs": 100}});
        let mut host = stage.keeper_host(&config);
        for round in 0..3 {
            for principal in ["red", "blue"] {
                let session = format!("{principal}{round}");
                host.ask(&format!("session {session} --principal {principal}"));
                let error = host.failing_call(&format!("{session} a"));
                assert!(error.contains("exit status: 5"), "{error}");
                await_nothing(&mut host);
                stage.assert_servers(&host, 0);
            }
        }
        assert_eq!((host.started(), stage.births().len()), (2, 2));
        stage.shut_down(host);
    }

    fn a_principal_whose_starts_never_end_leaves_room_for_the_starts_of_another(stage) {
        let silent = json!({"switches": stage.watched(&["--answer", "never"]), "share": "session"});
        let servers = json!({"silent": silent, "good": {"share": "session"}});
        let config = json!({"servers": servers, "caps": {"starting": 4, "queueMs": 60_000}});
        let mut host = stage.keeper_host(&config);
        for number in 0..12 {
            host.ask(&format!("session red{number} --principal red"));
            host.later(&format!("c{number}"), &format!("call red{number} silent"));
        }
        wait_until("it starts all that it may", PATIENCE, || stage.births().len() == 3);
        host.ask("session blue --principal blue");
        let begin = Instant::now();
        host.call("blue good");
        assert!(begin.elapsed() < PROMPT, "{:?}", begin.elapsed());
        assert_eq!(stage.births().len(), 3);
        stage.shut_down(host);
    }
}
