//! Remote sessions leave no connection, descriptor or task behind.

use std::sync::Arc;

use ostler_testkit::{FakeHttp, Heard, Part, Reply, fds_of, standard, wait_until};
use serde_json::json;

use crate::stage::{PATIENCE, Stage, call};

/// A server that keeps streams open.
fn listening(heard: &Heard) -> Reply {
    if heard.method == "GET" || heard.is_call("tools/call") && heard.body.contains("\"hang\"") {
        return Reply::stream([Part::Live]);
    }
    standard(heard)
}

/// Number of descriptors of this process, including those of the fake server.
fn descriptors() -> usize {
    fds_of(std::process::id()).len()
}

#[test]
fn clients_that_come_and_go_leave_nothing() {
    let fake = FakeHttp::new(listening);
    let stage = Stage::new(&fake);
    call(&mut stage.context(), 1);
    stage.wait_empty();
    wait_until("all connections are closed", PATIENCE, || fake.open() == 0);
    let before = descriptors();
    for id in 2..12 {
        let mut client = stage.context();
        call(&mut client, id);
        client.request(&json!(0), "tools/call", &json!({ "name": "hang" }));
        fake.wait_for("the call that hangs", |heard| {
            heard.body.contains("\"hang\"") && !heard.header("mcp-session-id").is_empty()
        });
        drop(client);
    }
    stage.wait_empty();
    wait_until("all connections are closed", PATIENCE, || fake.open() == 0);
    wait_until("all descriptors are closed", PATIENCE, || descriptors() <= before);
    assert_eq!(fake.count(|heard| heard.method == "DELETE"), 11);
    assert_eq!(stage.router.keeper().books().unverified, 0);
}

#[test]
fn a_gateway_that_ends_closes_all_remote_sessions() {
    let fake = FakeHttp::new(listening);
    let stage = Stage::new(&fake);
    let clients: Vec<_> = (0..5)
        .map(|id| {
            let mut client = stage.context();
            call(&mut client, id);
            client
        })
        .collect();
    assert!(fake.open() >= 5);
    let gone = stage.router.keeper().close();
    assert!(stage.runtime.block_on(gone.settled()).is_empty());
    wait_until("all connections are closed", PATIENCE, || fake.open() == 0);
    assert_eq!(fake.count(|heard| heard.method == "DELETE"), 5);
    drop(clients);
}

#[test]
fn a_dropped_gateway_closes_its_connections() {
    let fake = FakeHttp::new(listening);
    let stage = Stage::new(&fake);
    let mut client = stage.context();
    call(&mut client, 1);
    wait_until("a stream is open", PATIENCE, || fake.listeners() == 1);
    let Stage { router, runtime, .. } = stage;
    assert!(Arc::strong_count(&router) > 1);
    drop(router);
    drop(runtime);
    wait_until("all connections are closed", PATIENCE, || fake.open() == 0);
}

#[test]
fn a_server_that_vanishes_ends_its_instance() {
    let mut fake = FakeHttp::new(listening);
    let stage = Stage::new(&fake);
    let before = descriptors();
    let mut client = stage.context();
    call(&mut client, 1);
    wait_until("a stream is open", PATIENCE, || fake.listeners() == 1);
    client.request(&json!(2), "tools/call", &json!({ "name": "hang" }));
    wait_until("two streams are open", PATIENCE, || fake.listeners() == 2);
    fake.vanish();
    let failed = client.message();
    assert_eq!(failed["error"]["code"], -32603, "{failed}");
    stage.wait_empty();
    drop(client);
    wait_until("all descriptors are closed", PATIENCE, || descriptors() < before);
}

#[test]
fn a_server_that_does_not_answer_delete_causes_no_delay() {
    let fake = FakeHttp::new(|heard| {
        if heard.method == "DELETE" {
            return Reply::stream([Part::Pause(PATIENCE * 100)]).as_status(500);
        }
        standard(heard)
    });
    let stage = Stage::with(&fake.url("/mcp"), |settings| {
        settings.limits.leave = std::time::Duration::from_millis(50);
    });
    drop(stage.context());
    stage.wait_empty();
    wait_until("all connections are closed", PATIENCE, || fake.open() == 0);
}
