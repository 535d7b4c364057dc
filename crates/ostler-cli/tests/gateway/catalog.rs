//! The catalog: known lists start no server.

use ostler_testkit::rows;
use serde_json::json;

use crate::test_gateway::{PATIENCE, TestGateway};

/// Runs the server once, so that the catalog has its lists.
fn known(test_gateway: &TestGateway) {
    let mut client = test_gateway.client(&["a", "--agent", "first"]);
    client.0.call("tools/list", &json!({}));
    client.end();
    test_gateway.expect_known_tools();
    test_gateway.ostler(&["restart", "a"]);
    test_gateway.expect_no_server();
}

rows! {
    fn l39_listing_starts_nothing(stage) {
        let test_gateway = TestGateway::with(stage, &["a"], &json!({}));
        known(&test_gateway);
        for _ in 0..20 {
            let mut client = test_gateway.client(&["a"]);
            let tools = client.0.call("tools/list", &json!({}));
            assert_eq!(tools["result"]["tools"][0]["name"], "echo");
            client.end();
            test_gateway.ostler(&["ps"]);
        }
        assert_eq!(test_gateway.starts("a").len(), 1);
        test_gateway.down();
    }

    fn the_catalog_outlives_the_gateway(stage) {
        let test_gateway = TestGateway::with(stage, &["a"], &json!({}));
        known(&test_gateway);
        test_gateway.down();
        let mut client = test_gateway.client(&["a"]);
        assert!(client.0.call("tools/list", &json!({}))["result"]["tools"].is_array());
        assert_eq!(test_gateway.starts("a").len(), 1);
        client.end();
        test_gateway.down();
    }

    fn a_client_that_only_lists_holds_no_lease(stage) {
        let test_gateway = TestGateway::with(stage, &["a"], &json!({}));
        known(&test_gateway);
        let mut client = test_gateway.client(&["a"]);
        client.0.call("tools/list", &json!({}));
        let sessions = test_gateway.ostler_json(&["sessions", "--json"]);
        assert_eq!(sessions[0]["leases"], json!([]));
        assert!(test_gateway.instances().is_empty());
        client.end();
        test_gateway.down();
    }

    fn l40_a_list_changed_without_a_change_is_not_forwarded(stage) {
        let test_gateway = TestGateway::new(stage);
        let entry = test_gateway.stub("a", &["--list-changed"], &json!({ "share": "all" }));
        test_gateway.configure(&[("a", entry)]);
        let mut client = test_gateway.client(&["a"]);
        client.0.call("tools/list", &json!({}));
        // Each instance sends list_changed at its start, although the list is the same.
        for _ in 0..3 {
            client.echo();
            test_gateway.ostler(&["restart", "a"]);
        }
        client.echo();
        assert_eq!(test_gateway.starts("a").len(), 4);
        client.0.send(&json!({ "jsonrpc": "2.0", "id": 99, "method": "ping" }));
        assert_eq!(client.0.message(PATIENCE)["id"], 99, "the client got list_changed");
        client.end();
        test_gateway.down();
    }
}
