//! Third-party clients that are killed while they hold a server.

use ostler_testkit::wait_until;
use rustix::process::Signal;
use serde_json::json;

use crate::scripts::meet;
use crate::test_gateway::PATIENCE;
use crate::{Gateway, NPX, Transport};

#[test]
fn clients_that_are_killed_leave_nothing() {
    leave_nothing(Transport::Stdio);
}

#[test]
fn clients_on_http_that_are_killed_leave_nothing() {
    leave_nothing(Transport::StreamableHttp);
}

#[test]
fn clients_on_http_in_the_old_way_that_are_killed_leave_nothing() {
    leave_nothing(Transport::Sse);
}

/// Each client has an instance of its own, which ends with that client.
fn leave_nothing(transport: Transport) {
    let gateway = Gateway::open_with(transport, &json!({}), &json!({ "detachTimeout": "1s" }));
    let test_gateway = &gateway.test_gateway;
    let clients = meet(&gateway.way(&NPX));
    let mut left = clients.len();
    for mut client in clients {
        wait_until("the others have theirs", PATIENCE, || test_gateway.instances().len() == left);
        client.signal(Signal::KILL);
        client.wait_exit(PATIENCE);
        left -= 1;
        wait_until("its server is gone", PATIENCE, || test_gateway.guardians().len() == left);
    }
    test_gateway.expect_no_server();
    assert!(test_gateway.instances().is_empty());
    assert_eq!(test_gateway.ostler_json(&["sessions", "--json"]), json!([]));
    gateway.down();
}
