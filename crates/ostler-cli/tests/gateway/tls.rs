//! Clients on HTTPS.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;

use ostler_testkit::web::{Reply, Web, hello};
use ostler_testkit::{Authority, Launched, Stage};
use serde_json::json;

use crate::test_gateway::{PATIENCE, TestGateway, address_in, token_of};

/// An authority that has signed a certificate for a gateway.
pub(crate) fn authority() -> Authority {
    let authority = Authority::new();
    authority.sign("gateway");
    authority
}

/// Arguments that make a gateway use these files.
pub(crate) fn words(authority: &Authority, certificate: &str, key: &str) -> [String; 6] {
    let [certificate, key] =
        [certificate, key].map(|name| authority.file(name).display().to_string());
    let words = ["--listen", "127.0.0.1:0", "--tls-cert", &certificate, "--tls-key", &key];
    words.map(ToOwned::to_owned)
}

fn serve(test_gateway: &TestGateway, authority: &Authority) -> (Launched, SocketAddr) {
    let words = words(authority, "gateway.pem", "gateway.key");
    let gateway = test_gateway.serve(&words.each_ref().map(String::as_str));
    let address = address_in(&gateway.stderr());
    (gateway, address)
}

/// The status line of the response to a handshake, if this authority signed the gateway's certificate.
pub(crate) fn greet(
    test_gateway: &TestGateway,
    authority: &Authority,
    address: SocketAddr,
) -> Option<String> {
    let web = Web::new(address, "/mcp/a", &token_of(test_gateway)).with("Connection", "close");
    let mut command = Command::new("openssl");
    command.args(["s_client", "-quiet", "-verify_return_error", "-verify_ip", "127.0.0.1"]);
    command.arg("-CAfile").arg(authority.file("ca.pem")).arg("-connect").arg(address.to_string());
    let mut client = Launched::start(&mut command);
    // A client that does not trust the gateway reads no response.
    let _ = client.write(web.text("POST", &hello("2025-11-25", &json!({}))).as_bytes(), PATIENCE);
    let line = client.line(PATIENCE).unwrap();
    line.map(|line| String::from_utf8(line).unwrap().trim_end().to_owned())
}

#[test]
fn only_a_client_that_trusts_the_certificate_is_served() {
    let (authority, other) = (authority(), Authority::new());
    let test_gateway = TestGateway::with(Stage::leaf(), &["a"], &json!({}));
    let (mut gateway, address) = serve(&test_gateway, &authority);
    let said = gateway.stderr();
    assert!(said.contains("serves https://"), "{said}");
    assert_eq!(greet(&test_gateway, &authority, address).as_deref(), Some("HTTP/1.1 200 OK"));
    assert_eq!(greet(&test_gateway, &other, address), None);
    let plain = Web::new(address, "/mcp/a", &token_of(&test_gateway));
    assert!(Reply::read(plain.begin("POST", "")).is_err(), "plain HTTP gets no response");
    test_gateway.down_with(&mut gateway);
}

#[test]
fn unusable_certificate_files_are_reported_before_the_start() {
    let (authority, other) = (authority(), authority());
    fs::copy(other.file("gateway.key"), authority.file("other.key")).unwrap();
    fs::write(authority.file("empty.pem"), "").unwrap();
    let test_gateway = TestGateway::with(Stage::leaf(), &["a"], &json!({}));
    let outcome = |words: &[String]| {
        let mut command = test_gateway.command(test_gateway.program());
        command.arg("serve").args(words).arg("--config").arg(test_gateway.config());
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for (certificate, key, expected) in [
        ("missing.pem", "gateway.key", "missing.pem can't be used: "),
        ("empty.pem", "gateway.key", "there is no certificate in "),
        ("gateway.pem", "gateway.pem", "gateway.pem can't be used: "),
        ("gateway.pem", "other.key", "other.key can't be used together: "),
    ] {
        let (code, said) = outcome(&words(&authority, certificate, key));
        assert!(code == Some(1) && said.contains(expected), "{said}");
        assert!(!said.contains("serves"), "{said}");
    }
    let both = words(&authority, "gateway.pem", "gateway.key");
    for one in [&both[..4], &[&both[..2], &both[4..]].concat(), &both[2..]] {
        assert_eq!(outcome(one).0, Some(2), "{one:?}");
    }
    test_gateway.expect_no_process();
}

#[test]
fn a_reload_takes_over_a_usable_certificate() {
    let (authority, other) = (authority(), authority());
    let test_gateway = TestGateway::with(Stage::leaf(), &["a"], &json!({}));
    let (mut gateway, address) = serve(&test_gateway, &authority);
    for name in ["gateway.pem", "gateway.key"] {
        fs::copy(other.file(name), authority.file(name)).unwrap();
    }
    let said = test_gateway.ostler_json(&["reload", "--json"])["notices"].to_string();
    assert!(!said.contains("certificate"), "{said}");
    assert_eq!(greet(&test_gateway, &authority, address), None);
    assert_eq!(greet(&test_gateway, &other, address).as_deref(), Some("HTTP/1.1 200 OK"));
    fs::write(authority.file("gateway.key"), "broken").unwrap();
    let said = test_gateway.ostler_json(&["reload", "--json"])["notices"].to_string();
    assert!(said.contains("kept the old certificate: "), "{said}");
    assert_eq!(greet(&test_gateway, &other, address).as_deref(), Some("HTTP/1.1 200 OK"));
    test_gateway.down_with(&mut gateway);
}
