//! Connections with TLS and through proxies.

use ostler_gateway::config::Environment;
use ostler_gateway::remote::Surroundings;
use ostler_testkit::{Certificate, FakeHttp, FakeProxy, standard};
use serde_json::{Value, json};

use crate::stage::{Stage, call};

/// A stage with these variables.
fn stage<const N: usize>(url: &str, variables: [(&str, &str); N]) -> Stage {
    let environment: Environment = variables.into_iter().collect();
    Stage::with(url, |settings| settings.surroundings = Surroundings::new(&environment))
}

/// The error response of a failed connection.
fn refusal(stage: &Stage) -> Value {
    let mut client = stage.client();
    client.hello(&json!({}));
    client.message()
}

#[test]
fn a_certificate_has_to_be_trusted_and_valid_for_its_host() {
    let certificate = Certificate::new("localhost");
    let fake = FakeHttp::secured(&certificate, standard);
    let file = certificate.file();
    let known = [("SSL_CERT_FILE", file.to_str().unwrap())];
    let right = stage(&fake.url_by_name("localhost", "/mcp"), known);
    assert!(call(&mut right.context(), 1)["result"].is_object());

    let failed = refusal(&stage(&fake.url("/mcp"), known));
    assert!(
        failed["error"]["message"].as_str().unwrap().contains("the TLS handshake failed"),
        "{failed}"
    );
    let other = Certificate::new("localhost");
    let unknown = [("SSL_CERT_FILE", other.file().to_str().unwrap().to_owned())];
    let unknown = unknown.each_ref().map(|(name, value)| (*name, value.as_str()));
    let failed = refusal(&stage(&fake.url_by_name("localhost", "/mcp"), unknown));
    assert!(
        failed["error"]["message"].as_str().unwrap().contains("the TLS handshake failed"),
        "{failed}"
    );
    assert_eq!(fake.count(|heard| heard.is_call("initialize")), 1);
}

#[test]
fn a_file_without_certificates_is_named() {
    let fake = FakeHttp::secured(&Certificate::new("localhost"), standard);
    let none = [("SSL_CERT_FILE", "/dev/null")];
    let failed = refusal(&stage(&fake.url_by_name("localhost", "/mcp"), none));
    assert!(failed["error"]["message"].as_str().unwrap().contains("SSL_CERT_FILE"), "{failed}");
}

#[test]
fn plain_http_goes_through_the_proxy() {
    let fake = FakeHttp::new(standard);
    let proxy = FakeProxy::to(fake.port());
    for variable in ["HTTP_PROXY", "http_proxy", "ALL_PROXY"] {
        let before = proxy.heads().len();
        let stage = stage("http://far.invalid/mcp", [(variable, &proxy.url())]);
        assert!(call(&mut stage.context(), 1)["result"].is_object());
        let heads = proxy.heads();
        let head = &heads[before];
        assert!(head.starts_with("POST http://far.invalid/mcp HTTP/1.1\r\n"), "{head}");
        assert!(head.to_lowercase().contains("proxy-authorization: basic dxnlcjpwyxnz"), "{head}");
    }
}

#[test]
fn https_is_tunnelled_through_the_proxy() {
    let certificate = Certificate::new("far.invalid");
    let fake = FakeHttp::secured(&certificate, standard);
    let proxy = FakeProxy::to(fake.port());
    let file = certificate.file();
    let variables =
        [("HTTPS_PROXY", proxy.url()), ("SSL_CERT_FILE", file.to_str().unwrap().to_owned())];
    let variables = variables.each_ref().map(|(name, value)| (*name, value.as_str()));
    let stage = stage("https://far.invalid/mcp", variables);
    assert!(call(&mut stage.context(), 1)["result"].is_object());
    let head = &proxy.heads()[0];
    assert!(head.starts_with("CONNECT far.invalid:443 HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("Proxy-Authorization: Basic dXNlcjpwYXNz\r\n"), "{head}");
    assert_eq!(fake.count(|heard| heard.headers.contains_key("proxy-authorization")), 0);
}

#[test]
fn hosts_in_no_proxy_are_reached_directly() {
    let fake = FakeHttp::new(standard);
    let proxy = FakeProxy::to(fake.port());
    for variable in ["NO_PROXY", "no_proxy"] {
        let url = proxy.url();
        let stage =
            stage(&fake.url("/mcp"), [("HTTP_PROXY", &url), (variable, "x.invalid,127.0.0.1")]);
        assert!(call(&mut stage.context(), 1)["result"].is_object());
    }
    assert!(proxy.heads().is_empty());
}

#[test]
fn a_proxy_that_refuses_is_named_without_its_password() {
    let fake = FakeHttp::new(|_| ostler_testkit::Reply::status(407));
    let url = format!("http://user:s3cret@127.0.0.1:{}", fake.port());
    let failed = refusal(&stage("https://far.invalid/mcp", [("HTTPS_PROXY", &url)]));
    let text = failed["error"]["message"].as_str().unwrap();
    assert!(text.contains("proxy 127.0.0.1") && text.contains("407"), "{failed}");
    assert!(!text.contains("s3cret"), "{failed}");
}
