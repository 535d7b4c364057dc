//! L23: an engine behind TLS, with the test's own certificate authority.

use std::net::TcpListener;

use ostler_testkit::Authority;

use super::*;
use crate::containers::Tls;

/// A certificate authority that has signed the certificates of an engine and of a client.
fn authority() -> Authority {
    let authority = Authority::new();
    for name in ["engine", "client"] {
        authority.sign(name);
    }
    authority
}

fn client(of: &Authority) -> Tls {
    let file = |name| Some(of.file(name));
    Tls { ca: file("ca.pem"), cert: file("client.pem"), key: file("client.key"), verify: true }
}

/// An engine that accepts only clients with a certificate of this authority.
fn engine(of: &Authority, port: u16) -> Engine {
    let address = format!("tcp://127.0.0.1:{port}");
    let [ca, cert, key] = ["ca.pem", "engine.pem", "engine.key"]
        .map(|name| of.file(name).to_str().unwrap().to_owned());
    let files = ["--tlscacert", &ca, "--tlscert", &cert, "--tlskey", &key];
    Engine::start_with(&[&["--host", &address, "--tlsverify"], &files[..]].concat())
}

#[test]
fn l23_an_engine_behind_tls_is_reached_as_docker_reaches_it() {
    let (authority, other) = (authority(), authority());
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let scene = Scene::on(engine(&authority, port));
    scene.start(&[], &["sleep", "1000"]);
    let removal = |tls: Option<Tls>| {
        let mut removal = scene.removal();
        removal.endpoint = Endpoint::Tcp { host: "127.0.0.1".into(), port, tls };
        removal
    };
    let stranger = client(&other);
    let anonymous = Tls { cert: None, key: None, ..client(&authority) };
    let without_authority = Tls { ca: None, ..client(&authority) };
    let unreadable = Tls { ca: Some("/dev/null/ca.pem".into()), ..client(&authority) };
    let strangers = [stranger, anonymous, without_authority, unreadable].map(Some);
    for tls in strangers.into_iter().chain([None]) {
        let mut removal = removal(tls.clone());
        removal.times.limit = Duration::from_millis(500);
        let reason = unreachable_reason(removal.run());
        assert!(!reason.is_empty(), "{tls:?}");
    }
    assert_eq!(scene.left().len(), 1);
    assert_eq!(removal(Some(client(&authority))).run(), GONE);
    // Without verification no certificate authority is needed.
    let careless = Tls { ca: client(&other).ca, verify: false, ..client(&authority) };
    assert_eq!(removal(Some(careless)).run(), GONE);
    assert_eq!(scene.left(), Vec::<String>::new());
}
