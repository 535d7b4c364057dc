//! Client secrets and refresh tokens go only to the issuer they belong to.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use ostler_gateway::remote::RemoteServer;
use ostler_gateway::remote::oauth::{
    ClientSettings, Login, LoginError, LoginLimits, PinnedIssuer, Store, log_out,
};
use ostler_testkit::{FakeHttp, FakeIssuer, Heard, Manners, Reply, get, standard};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::inn::{Inn, log_in_with, say_yes};
use crate::stage::{Stage, call, settings};

/// A client with a secret, for this issuer only.
fn known_to(issuer: &str) -> ClientSettings {
    let client_secret = Some("s3cret".into());
    ClientSettings {
        id: Some("known".into()),
        issuer: Some(PinnedIssuer { name: issuer.to_owned(), client_secret }),
        ..ClientSettings::default()
    }
}

fn remote(inn: &Inn, client: ClientSettings) -> RemoteServer {
    let mut settings = settings(&inn.server.url("/mcp"), inn.logins.path());
    settings.client = client;
    RemoteServer::new(settings)
}

fn log_in(inn: &Inn, client: ClientSettings) -> Result<Login, LoginError> {
    log_in_with(&remote(inn, client), &LoginLimits::default(), |url| drop(get(url)))
}

fn stage(inn: &Inn, client: ClientSettings) -> Stage {
    Stage::with(&inn.server.url("/mcp"), |settings| {
        settings.store = Store::new(inn.logins.path());
        settings.client = client;
    })
}

fn has_secret(heard: &Heard) -> bool {
    // "known:s3cret" as Basic credentials.
    heard.body.contains("s3cret") || heard.header("authorization").contains("a25vd246czNjcmV0")
}

fn is_renewal(heard: &Heard) -> bool {
    heard.body.contains("grant_type=refresh_token")
}

#[test]
fn a_client_secret_goes_only_to_the_issuer_that_the_configuration_names() {
    let honest = FakeIssuer::new(Manners::default());
    // The server names an issuer of its own.
    let inn = Inn::new(Manners::default());
    let refused = log_in(&inn, known_to(&honest.http.url("")));
    assert!(matches!(&refused, Err(LoginError::NotPinned { .. })), "{refused:?}");
    let said = refused.unwrap_err().to_string();
    assert!(
        said.contains(&honest.http.url("")) && said.contains(&inn.issuer.http.url("")),
        "{said}"
    );
    assert_eq!(inn.issuer.http.heard().len(), 0);

    let login = log_in(&inn, known_to(&inn.issuer.http.url(""))).unwrap();
    assert_eq!(login.issuer, inn.issuer.http.url(""));
    assert_eq!(inn.issuer.http.count(has_secret), 1);
}

#[test]
fn the_metadata_of_a_pinned_issuer_has_to_name_exactly_that_issuer() {
    for name in ["http://127.0.0.1:1", "https://bank.invalid"] {
        let says = BTreeMap::from([("issuer", name.to_owned())]);
        let inn = Inn::new(Manners { says, ..Manners::default() });
        let refused = log_in(&inn, known_to(&inn.issuer.http.url("")));
        assert!(matches!(&refused, Err(LoginError::OtherIssuer { .. })), "{refused:?}");
        assert_eq!(inn.issuer.http.count(has_secret), 0);
    }
    // A slash is a difference, too; the message says what to write.
    let inn = Inn::new(Manners::default());
    let refused = log_in(&inn, known_to(&inn.issuer.http.url("/")));
    assert!(matches!(&refused, Err(LoginError::OtherIssuer { .. })), "{refused:?}");
    assert_eq!(inn.issuer.http.count(has_secret), 0);
}

#[test]
fn a_redirect_does_not_take_a_client_secret_elsewhere() {
    let stranger = FakeIssuer::new(Manners::default());
    let away = stranger.http.url("/token");
    let moved = FakeHttp::new(move |_| Reply::status(307).with("location", &away));
    let says = BTreeMap::from([("token_endpoint", moved.url("/token"))]);
    let inn = Inn::new(Manners { says, ..Manners::default() });
    let refused = log_in(&inn, known_to(&inn.issuer.http.url("")));
    assert!(matches!(&refused, Err(LoginError::NoGrant(_))), "{refused:?}");
    assert_eq!(stranger.http.opened(), 0);
}

#[test]
fn a_login_of_another_issuer_than_the_configured_one_is_not_used() {
    let inn = Inn::new(Manners { first_lifetime: 1, ..Manners::default() });
    let own = inn.issuer.http.url("");
    log_in(&inn, known_to(&own)).unwrap();
    let elsewhere = "http://127.0.0.1:1";
    let stage = stage(&inn, known_to(elsewhere));
    let mut client = stage.client();
    client.hello(&json!({}));
    let failed = client.message();
    let text = failed["error"]["message"].as_str().unwrap();
    assert!(text.contains("`ostler login far`"), "{failed}");
    let (was_there, problem) =
        Runtime::new().unwrap().block_on(log_out(&remote(&inn, known_to(elsewhere)))).unwrap();
    assert!(was_there && problem.is_some(), "{problem:?}");
    assert!(inn.files().is_empty());
    assert_eq!(inn.issuer.http.count(is_renewal), 0);
    assert_eq!(inn.issuer.http.count(|heard| heard.path == "/revoke"), 0);
}

#[test]
fn a_refresh_token_goes_back_to_its_issuer_when_the_server_names_another() {
    let first = FakeIssuer::new(Manners { first_lifetime: 1, ..Manners::default() });
    let second = FakeIssuer::new(Manners::default());
    let named = Arc::new(Mutex::new(first.http.url("")));
    let (guard, now) = (first.guard(standard), Arc::clone(&named));
    let server = FakeHttp::new(move |heard| {
        if heard.path.starts_with("/.well-known/oauth-protected-resource") {
            let resource = format!("http://{}/mcp", heard.header("host"));
            let servers = [now.lock().unwrap().clone()];
            return Reply::json(&json!({ "resource": resource, "authorization_servers": servers }));
        }
        guard(heard)
    });
    let inn = Inn { issuer: first, server, logins: tempfile::tempdir().unwrap() };
    inn.log_in(say_yes).unwrap();
    *named.lock().unwrap() = second.http.url("");
    assert!(call(&mut inn.stage().context(), 1)["result"].is_object());
    assert_eq!(inn.issuer.renewals(), 1);
    assert_eq!(second.http.opened(), 0);
}

#[test]
fn an_issuer_on_plain_http_is_refused() {
    let server = FakeHttp::new(|heard| {
        if heard.path.starts_with("/.well-known/oauth-protected-resource") {
            let resource = format!("http://{}/mcp", heard.header("host"));
            let servers = ["http://far.invalid"];
            return Reply::json(&json!({ "resource": resource, "authorization_servers": servers }));
        }
        Reply::status(401)
    });
    let issuer = FakeIssuer::new(Manners::default());
    let inn = Inn { issuer, server, logins: tempfile::tempdir().unwrap() };
    let refused = inn.log_in(say_yes);
    assert!(matches!(&refused, Err(LoginError::InTheClear(_))), "{refused:?}");
}

#[test]
fn a_changed_issuer_changes_the_fingerprint() {
    use ostler::keeper::Remote as _;
    let inn = Inn::new(Manners::default());
    let of = |issuer| remote(&inn, known_to(issuer)).fingerprint();
    assert_ne!(of("https://one.invalid"), of("https://two.invalid"));
    assert_eq!(of("https://one.invalid"), of("https://one.invalid"));
}
