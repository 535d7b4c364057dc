//! Calls that wait for a server with `maxConcurrency`.

use std::num::NonZeroUsize;
use std::time::Duration;

use ostler::keeper::{Caps, Sharing};
use ostler_gateway::Tools;
use serde_json::json;

use crate::stage::Stage;

#[test]
fn a_call_waits_for_its_turn_only_as_long_as_the_queue_allows() {
    let one_at_a_time = |server: &mut ostler::keeper::Server| {
        server.sharing = Sharing::Session;
        server.max_concurrency = Some(NonZeroUsize::MIN);
    };
    let caps = Caps { queue_timeout: Duration::from_millis(300), ..Caps::default() };
    let stage = Stage::limited(&["puppet"], one_at_a_time, &Tools::default(), caps);
    let mut client = stage.client();
    client.hello(&json!({}));
    let mut server = stage.server(&json!({}));
    client.welcome();
    client.ready();
    client.request(&json!(1), "tools/call", &json!({}));
    let first = server.expect("tools/call");
    client.request(&json!(2), "tools/call", &json!({}));
    let refused = client.message();
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(2), &json!(-32603)));
    let text = refused["error"]["message"].as_str().unwrap_or_default();
    assert!(text.contains("maxConcurrency") && text.contains("300ms"), "{text}");
    server.answer(&first, &json!({}));
    assert_eq!(client.message()["id"], 1);
    client.request(&json!(3), "tools/call", &json!({}));
    let third = server.expect("tools/call");
    server.answer(&third, &json!({}));
    assert_eq!(client.message()["id"], 3);
}
