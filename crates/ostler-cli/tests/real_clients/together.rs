//! Clients of different SDKs at the same time.

use ostler_testkit::Launched;
use serde_json::{Value, json};

use crate::scripts::Script;
use crate::{NPX, PLAY, Way, connect, house};

#[test]
fn clients_of_different_sdks_share_what_is_for_all() {
    let house = house(&json!({ "share": "all" }));
    let words = connect(&house, &[NPX.name]);
    let way = Way { stage: &house, server: &NPX, words, prefix: String::new() };
    let scripts = [
        Script::TypeScript("typescript-v1.mjs"),
        Script::TypeScript("typescript-v2.mjs"),
        Script::Python("mcp-1"),
        Script::Python("mcp-2"),
    ];
    let mut clients = scripts.map(|script| Launched::start(&mut script.command(&way, "meet")));
    let met = clients.each_mut().map(|client| match client.line(PLAY) {
        Ok(Some(line)) => serde_json::from_slice::<Value>(&line).unwrap()["echo"]["content"].take(),
        _ => panic!("it got no further: {}", client.stderr()),
    });
    assert!(met.iter().all(|one| one == &met[0] && one.is_array()), "{met:?}");
    let instances = house.instances();
    assert_eq!(instances.len(), 1, "{instances:?}");
    assert_eq!(instances[0]["gateway"]["leases"].as_array().unwrap().len(), scripts.len());
    for mut client in clients {
        client.close_stdin();
        let status = client.wait_exit(PLAY);
        assert!(status.success(), "{status}: {}", client.stderr());
    }
    house.down();
}
