//! Login, token refresh and logout.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use ostler_gateway::remote::RemoteServer;
use ostler_gateway::remote::oauth::{ClientSettings, LoginError, LoginLimits, log_out};
use ostler_testkit::{FakeHttp, FakeIssuer, LineClient, Manners, get};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::inn::{Inn, log_in_with, say_yes};
use crate::stage::{answer, call, settings};

fn mode_of(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Twenty calls at once.
fn rush(client: &mut LineClient, first: u64) {
    let ids = first..first + 20;
    ids.clone().for_each(|id| client.request(&json!(id), "tools/call", &json!({ "n": id })));
    let mut left: Vec<u64> = ids.collect();
    while !left.is_empty() {
        let message = client.message();
        let Some(id) = message["id"].as_u64() else { continue };
        assert!(message["result"].is_object(), "{message}");
        left.retain(|one| *one != id);
    }
}

#[test]
fn a_call_succeeds_after_a_login() {
    let inn = Inn::new(Manners::default());
    let stage = inn.stage();
    let mut client = stage.client();
    client.hello(&json!({}));
    let failed = client.message();
    assert!(
        failed["error"]["message"].as_str().unwrap().contains("`ostler login far`"),
        "{failed}"
    );

    let login = inn.log_in(say_yes).unwrap();
    assert_eq!(login.issuer, inn.issuer.http.url(""));
    assert_eq!(login.scope.as_deref(), Some("tea"));
    let files = inn.files();
    assert_eq!(files.len(), 1, "{files:?}");
    assert_eq!(mode_of(&files[0]), 0o600);
    let page = inn.issuer.http.wait_for("the page", |heard| heard.path.starts_with("/authorize"));
    assert!(page.path.contains("code_challenge_method=S256"), "{}", page.path);
    assert!(page.path.contains("&resource=http%3A%2F%2F127.0.0.1"), "{}", page.path);

    assert!(call(&mut stage.context(), 1)["result"].is_object());
    assert_eq!(inn.issuer.renewals(), 0);
    assert!(!format!("{login:?} {:?}", inn.remote()).contains("key-"));
}

#[test]
fn an_expired_access_token_is_refreshed_once_for_all_sessions() {
    let inn = Inn::new(Manners { first_lifetime: 1, ..Manners::default() });
    inn.log_in(say_yes).unwrap();
    let stage = inn.stage();
    let mut client = stage.context();
    rush(&mut client, 1);
    assert_eq!(inn.issuer.renewals(), 1);
    assert_eq!(inn.server.count(|heard| heard.is_call("tools/call")), 20);
}

#[test]
fn a_refused_access_token_is_refreshed_once_and_no_call_runs_twice() {
    let inn = Inn::new(Manners::default());
    inn.log_in(say_yes).unwrap();
    let stage = inn.stage();
    let mut client = stage.context();
    call(&mut client, 1);
    for (round, first) in [(1, 100), (2, 200)] {
        inn.issuer.expire_all();
        rush(&mut client, first);
        // The second time with the refresh token that the first has brought.
        assert_eq!(inn.issuer.renewals(), round);
    }
    let key = |heard: &ostler_testkit::Heard| heard.header("authorization").to_owned();
    let last = inn.server.heard().iter().map(key).next_back().unwrap();
    for id in 200..220 {
        let is_done = |heard: &ostler_testkit::Heard| {
            heard.message()["params"]["n"] == id && key(heard) == last
        };
        assert_eq!(inn.server.count(is_done), 1, "{id}");
    }
}

#[test]
fn two_gateways_share_a_login_and_its_refresh() {
    let inn = Inn::new(Manners { first_lifetime: 1, ..Manners::default() });
    inn.log_in(say_yes).unwrap();
    let stages = [inn.stage(), inn.stage()];
    std::thread::scope(|scope| {
        for stage in &stages {
            scope.spawn(|| rush(&mut stage.context(), 1));
        }
    });
    assert_eq!(inn.issuer.renewals(), 1);
}

#[test]
fn a_login_that_cannot_be_refreshed_is_deleted() {
    let inn = Inn::new(Manners::default());
    inn.log_in(say_yes).unwrap();
    let stage = inn.stage();
    let mut client = stage.context();
    call(&mut client, 1);
    inn.issuer.expire_all();
    inn.issuer.forget_all();
    let failed = call(&mut client, 2);
    assert!(
        failed["error"]["message"].as_str().unwrap().contains("`ostler login far`"),
        "{failed}"
    );
    assert_eq!(failed["error"]["data"]["gateway"]["reason"], "login_required");
    assert!(inn.files().is_empty());
    // A new login counts at once.
    inn.log_in(say_yes).unwrap();
    client.request(&json!(3), "tools/call", &json!({}));
    assert!(answer(&client, 3)["result"].is_object());
}

#[test]
fn only_the_browser_with_the_right_state_can_finish_a_login() {
    let inn = Inn::new(Manners::default());
    let login = inn.log_in(|url| {
        let (_, query) = url.split_once("redirect_uri=").unwrap();
        let back = query.split('&').next().unwrap().replace("%3A", ":").replace("%2F", "/");
        for forged in ["code=forged&state=forged", "code=forged", "error=forged", ""] {
            assert_eq!(get(&format!("{back}?{forged}")).0, 404);
        }
        assert_eq!(get(&back.replace("/callback", "/other")).0, 404);
        say_yes(url);
    });
    login.unwrap();
    assert_eq!(inn.issuer.http.count(|heard| heard.body.contains("forged")), 0);
}

#[test]
fn a_denied_login_reports_the_reason() {
    let inn = Inn::new(Manners { denies: true, ..Manners::default() });
    let denied = inn.log_in(|url| assert!(get(url).1.contains("Not logged in")));
    assert!(
        matches!(&denied, Err(LoginError::Denied(why)) if why.contains("No tea")),
        "{denied:?}"
    );

    let poses_as = Some("http://somebody.invalid".to_owned());
    let inn = Inn::new(Manners { poses_as, ..Manners::default() });
    let mixed = inn.log_in(|url| drop(get(url)));
    assert!(matches!(mixed, Err(LoginError::MixedUp)), "{mixed:?}");
    assert_eq!(inn.issuer.http.count(|heard| heard.path == "/token"), 0);

    let inn = Inn::new(Manners { has_proof: false, ..Manners::default() });
    let unproven = inn.log_in(say_yes);
    assert!(matches!(unproven, Err(LoginError::NoProof)), "{unproven:?}");

    let inn = Inn::new(Manners { registers: false, ..Manners::default() });
    let nameless = inn.log_in(say_yes);
    assert!(matches!(nameless, Err(LoginError::NoRegistration)), "{nameless:?}");

    let clear = settings("http://far.invalid/mcp", Path::new("/nowhere"));
    let clear = log_in_with(&RemoteServer::new(clear), &LoginLimits::default(), say_yes);
    assert!(matches!(clear, Err(LoginError::InTheClear(_))), "{clear:?}");

    let inn = Inn::new(Manners::default());
    let limits = LoginLimits { consent: Duration::from_millis(20), ..LoginLimits::default() };
    let late = inn.log_in_within(&limits, |_| {});
    assert!(matches!(late, Err(LoginError::Late(_))), "{late:?}");
    assert!(inn.files().is_empty());
}

#[test]
fn metadata_that_names_another_server_is_refused() {
    let issuer = FakeIssuer::new(Manners::default());
    let own = issuer.http.url("");
    let server = FakeHttp::new(move |heard| {
        if heard.path.starts_with("/.well-known/oauth-protected-resource") {
            let other =
                json!({ "resource": "https://bank.invalid/", "authorization_servers": [own] });
            return ostler_testkit::Reply::json(&other);
        }
        ostler_testkit::Reply::status(401)
    });
    let inn = Inn { issuer, server, logins: tempfile::tempdir().unwrap() };
    let refused = inn.log_in(say_yes);
    assert!(matches!(&refused, Err(LoginError::OtherResource(_))), "{refused:?}");
}

#[test]
fn a_configured_client_id_skips_registration() {
    let inn = Inn::new(Manners { registers: false, ..Manners::default() });
    let mut settings = settings(&inn.server.url("/mcp"), inn.logins.path());
    settings.client = ClientSettings {
        id: Some("known".into()),
        scopes: Some(vec!["a".into(), "b".into()]),
        ..ClientSettings::default()
    };
    log_in_with(&RemoteServer::new(settings), &LoginLimits::default(), say_yes).unwrap();
    let page = inn.issuer.http.wait_for("the page", |heard| heard.path.starts_with("/authorize"));
    assert!(page.path.contains("client_id=known") && page.path.contains("scope=a%20b"));
}

#[test]
fn a_logout_revokes_the_tokens() {
    let inn = Inn::new(Manners::default());
    inn.log_in(say_yes).unwrap();
    let stage = inn.stage();
    let mut client = stage.context();
    call(&mut client, 1);
    let runtime = Runtime::new().unwrap();
    let (was_there, problem) = runtime.block_on(log_out(&inn.remote())).unwrap();
    assert!(was_there && problem.is_none(), "{problem:?}");
    assert!(inn.files().is_empty());
    inn.issuer.http.wait_for("the end", |heard| heard.path == "/revoke");
    let failed = call(&mut client, 2);
    assert_eq!(failed["error"]["data"]["gateway"]["reason"], "login_required");
    let (was_there, _) = runtime.block_on(log_out(&inn.remote())).unwrap();
    assert!(!was_there);
}
