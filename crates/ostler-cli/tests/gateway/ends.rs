//! The end of the gateway.

use ostler_testkit::{STUBBORN, Stage, rows, wait_until};
use rustix::process::Signal;
use serde_json::json;

use crate::house::{Client, House, PATIENCE};

/// A server of each rude kind, and a client of each.
fn rude(stage: Stage) -> (House, Vec<Client>) {
    let (house, names) = House::rude(stage);
    let mut clients: Vec<Client> = names.iter().map(|name| house.client(&[name])).collect();
    clients.iter_mut().for_each(Client::echo);
    (house, clients)
}

fn expect_told(mut client: Client) {
    assert_eq!(client.0.wait_exit(PATIENCE).code(), Some(1));
    assert_eq!(client.0.stderr(), "ostler: the gateway has ended\n");
}

rows! {
    fn s16_a_gateway_that_is_asked_leaves_nothing(stage) {
        let (house, clients) = rude(stage);
        house.signal(house.gateways()[0], Signal::TERM);
        clients.into_iter().for_each(expect_told);
        house.expect_no_process();
    }

    fn s16_a_gateway_that_is_killed_leaves_nothing(stage) {
        let (house, clients) = rude(stage);
        house.signal(house.gateways()[0], Signal::KILL);
        clients.into_iter().for_each(expect_told);
        house.expect_no_process();
        let mut next = house.client(&["rude0"]);
        next.echo();
        next.end();
        house.down();
    }

    fn calls_in_flight_are_answered_before_the_end(stage) {
        let house = House::new(stage);
        house.configure(&[("a", house.example(&json!({ "drainTimeout": "20s" })))]);
        let mut gateway = house.serve(&[]);
        let mut client = house.client(&["a"]);
        client.echo();
        client.begin(5, "wait", &json!({ "ms": 1000 }));
        house.expect_calls(1);
        gateway.signal(Signal::TERM);
        assert!(client.0.message(PATIENCE)["result"].is_object());
        assert!(house.wait_exit(&mut gateway).success());
        drop(client);
        house.expect_no_process();
    }

    fn a_second_request_does_not_wait(stage) {
        let house = House::new(stage);
        house.configure(&[("a", house.example(&json!({ "drainTimeout": "10m" })))]);
        let mut gateway = house.serve(&[]);
        let mut client = house.client(&["a"]);
        client.begin(5, "wait", &json!({ "ms": 600_000 }));
        house.expect_calls(1);
        gateway.signal(Signal::TERM);
        wait_until("nobody else is let in", PATIENCE, || {
            house.try_ostler(&["sessions"]).status.code() == Some(3)
        });
        gateway.signal(Signal::INT);
        assert!(house.wait_exit(&mut gateway).success());
        drop(client);
        house.expect_no_process();
    }

    fn down_ends_stubborn_servers(stage) {
        let house = House::new(stage);
        house.configure(&[("a", house.stub("a", STUBBORN, &json!({})))]);
        let mut client = house.client(&["a"]);
        client.echo();
        let said = house.ostler(&["down"]);
        assert_eq!(said, "the gateway has ended; instances that ended with it: 1\n");
        expect_told(client);
        house.expect_no_process();
        assert_eq!(house.try_ostler(&["down"]).status.code(), Some(3));
    }
}
