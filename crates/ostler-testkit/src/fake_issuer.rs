//! A fake authorization server that enforces OAuth 2.1 strictly.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::fake_http::{FakeHttp, Heard, Reply};

/// How it behaves.
#[derive(Clone, Debug)]
pub struct Manners {
    /// Whether users refuse consent.
    pub denies: bool,
    /// Lifetime of the first access token, in seconds; later ones live for an hour.
    pub first_lifetime: u64,
    /// Issuer in its responses, if it lies.
    pub poses_as: Option<String>,
    /// Whether it supports PKCE.
    pub has_proof: bool,
    /// Whether clients can register.
    pub registers: bool,
    /// Overrides of its metadata.
    pub says: BTreeMap<&'static str, String>,
}

impl Default for Manners {
    fn default() -> Self {
        Self {
            denies: false,
            first_lifetime: 3600,
            poses_as: None,
            has_proof: true,
            registers: true,
            says: BTreeMap::new(),
        }
    }
}

/// The authorization server. Drop ends it.
#[derive(Debug)]
pub struct FakeIssuer {
    /// HTTP server that records the requests.
    pub http: FakeHttp,
    books: Arc<Mutex<Books>>,
}

#[derive(Debug, Default)]
struct Books {
    number: u64,
    /// Codes with the parameters of their authorization requests.
    codes: BTreeMap<String, BTreeMap<String, String>>,
    keys: BTreeSet<String>,
    refresh: BTreeSet<String>,
    renewals: usize,
}

impl FakeIssuer {
    /// Starts one with this behaviour.
    pub fn new(manners: Manners) -> Self {
        let books = Arc::new(Mutex::new(Books::default()));
        let held = Arc::clone(&books);
        let http = FakeHttp::new(move |heard| answer(heard, &manners, &mut lock(&held)));
        Self { http, books }
    }

    /// Wraps a handler so that its requests need a valid access token.
    pub fn guard(
        &self,
        handler: impl Fn(&Heard) -> Reply + Send + Sync + 'static,
    ) -> impl Fn(&Heard) -> Reply + Send + Sync + 'static {
        let (books, issuer) = (Arc::clone(&self.books), self.http.url(""));
        move |heard| {
            let here = format!("http://{}", heard.header("host"));
            if heard.path == "/.well-known/oauth-protected-resource/mcp" {
                let resource = format!("{here}/mcp");
                return Reply::json(
                    &json!({ "resource": resource, "authorization_servers": [issuer] }),
                );
            }
            let key = heard.header("authorization").strip_prefix("Bearer ").unwrap_or_default();
            if lock(&books).keys.contains(key) {
                return handler(heard);
            }
            let place = format!("{here}/.well-known/oauth-protected-resource/mcp");
            let challenge = format!(r#"Bearer resource_metadata="{place}", scope="tea""#);
            Reply::status(401).with("www-authenticate", &challenge)
        }
    }

    /// Invalidates all access tokens, but not refresh tokens.
    pub fn expire_all(&self) {
        lock(&self.books).keys.clear();
    }

    /// Invalidates all refresh tokens.
    pub fn forget_all(&self) {
        lock(&self.books).refresh.clear();
    }

    /// Number of refreshes.
    pub fn renewals(&self) -> usize {
        lock(&self.books).renewals
    }
}

fn lock(books: &Mutex<Books>) -> MutexGuard<'_, Books> {
    books.lock().expect("books")
}

fn answer(heard: &Heard, manners: &Manners, books: &mut Books) -> Reply {
    let own = format!("http://{}", heard.header("host"));
    let (path, query) = heard.path.split_once('?').unwrap_or((&heard.path, ""));
    match path {
        "/.well-known/oauth-authorization-server" => Reply::json(&metadata(&own, manners)),
        "/register" => Reply::json(&json!({ "client_id": "guest" })).as_status(201),
        "/authorize" => authorize(&own, pairs(query), manners, books),
        "/token" => token(&asked_of_token(heard), manners, books),
        "/revoke" => {
            books.refresh.remove(&pairs(&heard.body)["token"]);
            books.keys.clear();
            Reply::status(200)
        }
        _ => Reply::status(404),
    }
}

fn metadata(own: &str, manners: &Manners) -> Value {
    let mut metadata = json!({
        "issuer": own,
        "authorization_endpoint": format!("{own}/authorize"),
        "token_endpoint": format!("{own}/token"),
        "revocation_endpoint": format!("{own}/revoke"),
    });
    if manners.has_proof {
        metadata["code_challenge_methods_supported"] = json!(["S256"]);
    }
    if manners.registers {
        metadata["registration_endpoint"] = json!(format!("{own}/register"));
    }
    for (name, value) in &manners.says {
        metadata[*name] = json!(value);
    }
    metadata
}

fn authorize(
    own: &str,
    asked: BTreeMap<String, String>,
    manners: &Manners,
    books: &mut Books,
) -> Reply {
    let (redirect, state) = (asked["redirect_uri"].clone(), asked["state"].clone());
    let iss = manners.poses_as.as_deref().unwrap_or(own);
    let back = if manners.denies {
        format!("{redirect}?error=access_denied&error_description=No%20tea&state={state}&iss={iss}")
    } else {
        let code = books.next("code");
        books.codes.insert(code.clone(), asked);
        format!("{redirect}?code={code}&state={state}&iss={iss}")
    };
    Reply::status(302).with("location", &back)
}

/// Parameters of a token request, with the client id of its Basic credentials if it has any.
fn asked_of_token(heard: &Heard) -> BTreeMap<String, String> {
    let mut asked = pairs(&heard.body);
    let basic = heard.header("authorization").strip_prefix("Basic ");
    let decoded = basic.and_then(|text| STANDARD.decode(text).ok());
    let text = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
    if let Some((id, _)) = text.as_deref().and_then(|pair| pair.split_once(':')) {
        asked.insert("client_id".into(), id.to_owned());
    }
    asked
}

fn token(asked: &BTreeMap<String, String>, manners: &Manners, books: &mut Books) -> Reply {
    let refused = Reply::json(&json!({ "error": "invalid_grant" })).as_status(400);
    let lifetime = match asked["grant_type"].as_str() {
        "authorization_code" => {
            // A code is valid for one attempt.
            let Some(granted) = books.codes.remove(&asked["code"]) else { return refused };
            let proof = URL_SAFE_NO_PAD.encode(Sha256::digest(&asked["code_verifier"]));
            let fits = ["redirect_uri", "client_id", "resource"];
            let is_same = |name: &&str| asked.get(*name) == granted.get(*name);
            if granted["code_challenge"] != proof || !fits.iter().all(is_same) {
                return refused;
            }
            manners.first_lifetime
        }
        "refresh_token" => {
            // A refresh token is valid once.
            if !books.refresh.remove(&asked["refresh_token"]) {
                return refused;
            }
            books.renewals += 1;
            3600
        }
        _ => return refused,
    };
    let (key, refresh) = (books.next("key"), books.next("refresh"));
    books.keys = [key.clone()].into();
    books.refresh.insert(refresh.clone());
    Reply::json(&json!({
        "access_token": key, "token_type": "Bearer", "expires_in": lifetime, "refresh_token": refresh,
    }))
}

impl Books {
    fn next(&mut self, what: &str) -> String {
        self.number += 1;
        format!("{what}-{}", self.number)
    }
}

/// Names and values of a query, percent-decoded as far as URLs need it.
fn pairs(text: &str) -> BTreeMap<String, String> {
    let plain = |text: &str| text.replace("%3A", ":").replace("%2F", "/").replace("%20", " ");
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), plain(value))).collect()
}
