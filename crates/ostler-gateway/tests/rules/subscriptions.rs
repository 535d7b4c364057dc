//! Subscriptions: one at the server for all clients, and one that outlives the server.

use ostler::keeper::Sharing;
use serde_json::json;

use crate::stage::{Client, Stage};

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
    // So that it has an instance.
    (client, server)
}

fn warm(client: &mut Client, server: &mut ostler_testkit::Puppet) {
    client.request(&json!("warm"), "tools/call", &json!({}));
    let request = server.expect("tools/call");
    server.answer(&request, &json!({}));
    client.message();
}

#[test]
fn u1_the_first_one_subscribes_and_the_last_one_unsubscribes() {
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
    // The end of a session is the end of what it wanted to hear.
    drop(other);
    assert_eq!(server.expect(UNSUBSCRIBE)["params"]["uri"], "a:1");
}

#[test]
fn u2_a_part_of_what_was_subscribed_to_is_told() {
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
