//! Shutdown and death of the gateway.

use ostler_testkit::{STUBBORN, Stage, rows, wait_until};
use rustix::process::Signal;
use serde_json::json;

use crate::test_gateway::{Client, PATIENCE, TestGateway};

/// A server of each rude kind, and a client of each.
fn rude(stage: Stage) -> (TestGateway, Vec<Client>) {
    let (test_gateway, names) = TestGateway::rude(stage);
    let mut clients: Vec<Client> = names.iter().map(|name| test_gateway.client(&[name])).collect();
    clients.iter_mut().for_each(Client::echo);
    (test_gateway, clients)
}

fn expect_told(mut client: Client) {
    assert_eq!(client.0.wait_exit(PATIENCE).code(), Some(1));
    assert_eq!(client.0.stderr(), "ostler: the gateway has ended\n");
}

rows! {
    fn s16_a_gateway_that_is_stopped_leaves_nothing(stage) {
        let (test_gateway, clients) = rude(stage);
        test_gateway.signal(test_gateway.gateways()[0], Signal::TERM);
        clients.into_iter().for_each(expect_told);
        test_gateway.expect_no_process();
    }

    fn s16_a_gateway_that_is_killed_leaves_nothing(stage) {
        let (test_gateway, clients) = rude(stage);
        test_gateway.signal(test_gateway.gateways()[0], Signal::KILL);
        clients.into_iter().for_each(expect_told);
        test_gateway.expect_no_process();
        let mut next = test_gateway.client(&["rude0"]);
        next.echo();
        next.end();
        test_gateway.down();
    }

    fn calls_in_flight_are_answered_before_the_end(stage) {
        let test_gateway = TestGateway::new(stage);
        test_gateway.configure(&[("a", test_gateway.example(&json!({ "drainTimeout": "20s" })))]);
        let mut gateway = test_gateway.serve(&[]);
        let mut client = test_gateway.client(&["a"]);
        client.echo();
        client.begin(5, "wait", &json!({ "ms": 1000 }));
        test_gateway.expect_calls(1);
        gateway.signal(Signal::TERM);
        assert!(client.0.message(PATIENCE)["result"].is_object());
        assert!(test_gateway.wait_exit(&mut gateway).success());
        drop(client);
        test_gateway.expect_no_process();
    }

    fn a_second_signal_skips_the_wait_for_calls(stage) {
        let test_gateway = TestGateway::new(stage);
        test_gateway.configure(&[("a", test_gateway.example(&json!({ "drainTimeout": "10m" })))]);
        let mut gateway = test_gateway.serve(&[]);
        let mut client = test_gateway.client(&["a"]);
        client.begin(5, "wait", &json!({ "ms": 600_000 }));
        test_gateway.expect_calls(1);
        gateway.signal(Signal::TERM);
        wait_until("the gateway refuses new clients", PATIENCE, || {
            test_gateway.try_ostler(&["sessions"]).status.code() == Some(3)
        });
        gateway.signal(Signal::INT);
        assert!(test_gateway.wait_exit(&mut gateway).success());
        drop(client);
        test_gateway.expect_no_process();
    }

    fn down_ends_stubborn_servers(stage) {
        let test_gateway = TestGateway::new(stage);
        test_gateway.configure(&[("a", test_gateway.stub("a", STUBBORN, &json!({})))]);
        let mut client = test_gateway.client(&["a"]);
        client.echo();
        let said = test_gateway.ostler(&["down"]);
        assert_eq!(said, "the gateway has ended; instances stopped: 1\n");
        expect_told(client);
        test_gateway.expect_no_process();
        assert_eq!(test_gateway.try_ostler(&["down"]).status.code(), Some(3));
    }
}
