//! Subscriptions: one at the server for all clients, and one that outlives the server.

use std::time::Duration;

use ostler::keeper::Sharing;
use ostler_testkit::wait_until;
use serde_json::json;

use crate::stage::{Client, Stage};

const PATIENCE: Duration = Duration::from_secs(30);
const SUBSCRIBE: &str = "resources/subscribe";
const UNSUBSCRIBE: &str = "resources/unsubscribe";

fn updated(uri: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{"uri":"{uri}"}}}}"#
    )
}

fn enter(stage: &Stage) -> (Client, ostler_testkit::Puppet) {
    let mut client = stage.client();
    client.hello(&json!({}));
    let server = stage.server(&json!({}));
    client.welcome();
    client.ready();
    // Starts an instance for the client.
    (client, server)
}

fn warm(client: &mut Client, server: &mut ostler_testkit::Puppet) {
    client.request(&json!("warm"), "tools/call", &json!({}));
    let request = server.expect("tools/call");
    server.answer(&request, &json!({}));
    client.message();
}

#[test]
fn u1_the_first_subscriber_subscribes_and_the_last_one_unsubscribes() {
    let stage = Stage::new(Sharing::All);
    let (mut one, mut server) = enter(&stage);
    let mut other = stage.client();
    other.enter();
    warm(&mut one, &mut server);
    warm(&mut other, &mut server);
    one.request(&json!(1), SUBSCRIBE, &json!({ "uri": "a:1" }));
    let request = server.expect(SUBSCRIBE);
    server.answer(&request, &json!({}));
    one.message();
    other.request(&json!(1), SUBSCRIBE, &json!({ "uri": "a:1" }));
    assert_eq!(other.message()["result"], json!({}));
    server.say(&updated("a:1"));
    one.expect("notifications/resources/updated");
    other.expect("notifications/resources/updated");
    one.request(&json!(2), UNSUBSCRIBE, &json!({ "uri": "a:1" }));
    assert_eq!(one.message()["result"], json!({}));
    server.say(&updated("a:1"));
    other.expect("notifications/resources/updated");
    one.assert_silence();
    // The subscriptions of a session end with it.
    drop(other);
    assert_eq!(server.expect(UNSUBSCRIBE)["params"]["uri"], "a:1");
}

#[test]
fn u2_an_update_of_a_sub_resource_reaches_the_subscriber() {
    let stage = Stage::new(Sharing::All);
    let (mut client, mut server) = enter(&stage);
    warm(&mut client, &mut server);
    client.request(&json!(1), SUBSCRIBE, &json!({ "uri": "dir:/a" }));
    let request = server.expect(SUBSCRIBE);
    server.answer(&request, &json!({}));
    client.message();
    server.say(&updated("dir:/a/b"));
    assert_eq!(client.expect("notifications/resources/updated")["params"]["uri"], "dir:/a/b");
}

#[test]
fn u3_a_subscription_starts_its_server_again_and_is_renewed() {
    let stage = Stage::new(Sharing::All);
    let (mut client, mut server) = enter(&stage);
    warm(&mut client, &mut server);
    client.request(&json!(1), SUBSCRIBE, &json!({ "uri": "a:1" }));
    let request = server.expect(SUBSCRIBE);
    server.answer(&request, &json!({}));
    client.message();
    drop(server);
    let mut server = stage.server(&json!({}));
    assert_eq!(server.expect(SUBSCRIBE)["params"]["uri"], "a:1");
    server.say(&updated("a:1"));
    client.expect("notifications/resources/updated");
}

#[test]
fn u1_a_refused_subscription_is_reported_and_not_kept() {
    let stage = Stage::new(Sharing::All);
    let (mut client, mut server) = enter(&stage);
    // The client has no lease yet, so the response comes from the server.
    client.request(&json!(1), SUBSCRIBE, &json!({ "uri": "a:1" }));
    let request = server.expect(SUBSCRIBE);
    let id = &request["id"];
    server.say(&format!(
        r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32002,"message":"unknown"}}}}"#
    ));
    assert_eq!(client.message()["error"]["code"], -32002);
    server.say(&updated("a:1"));
    client.assert_silence();
    // Without a subscription the server is not started again.
    drop(server);
    let keeper = stage.router.keeper();
    wait_until("it is gone", PATIENCE, || keeper.books().live == 0);
    client.request(&json!(2), "tools/call", &json!({}));
    let mut server = stage.server(&json!({}));
    server.expect("tools/call");
}

#[test]
fn u1_a_second_subscriber_gets_the_response_of_the_server() {
    let stage = Stage::new(Sharing::All);
    let (mut one, mut server) = enter(&stage);
    let mut other = stage.client();
    other.enter();
    one.request(&json!(1), SUBSCRIBE, &json!({ "uri": "a:1" }));
    let first = server.expect(SUBSCRIBE);
    other.request(&json!(1), SUBSCRIBE, &json!({ "uri": "a:1" }));
    let second = server.expect(SUBSCRIBE);
    server.answer(&first, &json!({}));
    server.answer(&second, &json!({}));
    assert_eq!(one.message()["result"], json!({}));
    assert_eq!(other.message()["result"], json!({}));
}
