//! Clients of different SDKs at the same time.

use serde_json::json;

use crate::scripts::{SCRIPTED, meet};
use crate::{Gateway, NPX, PLAY, Transport};

#[test]
fn clients_of_different_sdks_share_an_instance() {
    share_an_instance(Transport::Stdio);
}

#[test]
fn clients_of_different_sdks_on_http_share_an_instance() {
    share_an_instance(Transport::StreamableHttp);
}

fn share_an_instance(transport: Transport) {
    let gateway = Gateway::open(transport, &json!({ "share": "all" }));
    let clients = meet(&gateway.way(&NPX));
    let instances = gateway.test_gateway.instances();
    assert_eq!(instances.len(), 1, "{instances:?}");
    assert_eq!(instances[0]["gateway"]["leases"].as_array().unwrap().len(), SCRIPTED.len());
    for mut client in clients {
        client.close_stdin();
        let status = client.wait_exit(PLAY);
        assert!(status.success(), "{status}: {}", client.stderr());
    }
    gateway.down();
}
