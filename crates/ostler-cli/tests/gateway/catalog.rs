//! What is known needs no server.

use ostler_testkit::rows;
use serde_json::json;

use crate::house::{House, PATIENCE};

/// The server has been there once, and what it has is known.
fn known(house: &House) {
    let mut client = house.client(&["a", "--agent", "first"]);
    client.0.call("tools/list", &json!({}));
    client.end();
    house.expect_known_tools();
    house.ostler(&["restart", "a"]);
    house.expect_no_server();
}

rows! {
    fn l39_looking_starts_nothing(stage) {
        let house = House::with(stage, &["a"], &json!({}));
        known(&house);
        for _ in 0..20 {
            let mut client = house.client(&["a"]);
            let tools = client.0.call("tools/list", &json!({}));
            assert_eq!(tools["result"]["tools"][0]["name"], "echo");
            client.end();
            house.ostler(&["ps"]);
        }
        assert_eq!(house.starts("a").len(), 1);
        house.down();
    }

    fn what_is_known_outlives_the_gateway(stage) {
        let house = House::with(stage, &["a"], &json!({}));
        known(&house);
        house.down();
        let mut client = house.client(&["a"]);
        assert!(client.0.call("tools/list", &json!({}))["result"]["tools"].is_array());
        assert_eq!(house.starts("a").len(), 1);
        client.end();
        house.down();
    }

    fn who_only_looks_holds_no_lease(stage) {
        let house = House::with(stage, &["a"], &json!({}));
        known(&house);
        let mut client = house.client(&["a"]);
        client.0.call("tools/list", &json!({}));
        let sessions = house.ostler_json(&["sessions", "--json"]);
        assert_eq!(sessions[0]["leases"], json!([]));
        assert!(house.instances().is_empty());
        client.end();
        house.down();
    }

    fn l40_a_change_that_is_none_is_told_to_nobody(stage) {
        let house = House::new(stage);
        let entry = house.stub("a", &["--list-changed"], &json!({ "share": "all" }));
        house.configure(&[("a", entry)]);
        let mut client = house.client(&["a"]);
        client.0.call("tools/list", &json!({}));
        // Each says that its list has changed when it begins, which it has not.
        for _ in 0..3 {
            client.echo();
            house.ostler(&["restart", "a"]);
        }
        client.echo();
        assert_eq!(house.starts("a").len(), 4);
        client.0.send(&json!({ "jsonrpc": "2.0", "id": 99, "method": "ping" }));
        assert_eq!(client.0.message(PATIENCE)["id"], 99, "it was told of a change");
        client.end();
        house.down();
    }
}
