//! `ostler login` and `ostler logout`.
//!
//! `log_in` runs the OAuth authorization code flow with PKCE:
//!
//! 1. `knock` sends `initialize` without a token; the 401 response may name the server's resource metadata.
//! 2. `Search` finds the authorization server (issuer) and its endpoints.
//! 3. `Callback` listens on a loopback port; `Client` takes the configured client id or registers one.
//! 4. The browser is sent to the authorization endpoint and comes back with a code.
//! 5. The code is exchanged for tokens, and the login is written to the `Store` under its lock.
//!
//! `log_out` revokes the token at the issuer and deletes the login.

use std::io;
use std::time::Duration;

use hyper::Method;
use hyper::StatusCode;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderValue};

use super::callback::{Callback, Returned};
use super::challenge::Challenge;
use super::client::Client;
use super::discovery::{Found, Search};
use super::form::encode;
use super::grant::{self, NoGrant};
use super::secret;
use super::store::{Login, NoStore};
use crate::protocol::version;
use crate::remote::RemoteServer;
use crate::remote::http::{Http, HttpError, Question};

/// Timeouts of a login.
#[derive(Clone, Copy, Debug)]
pub struct LoginLimits {
    /// Time for the user to log in and consent.
    pub consent: Duration,
    /// Time for a connection to the callback port to send its request.
    pub request: Duration,
}

impl Default for LoginLimits {
    fn default() -> Self {
        Self { consent: Duration::from_mins(5), request: Duration::from_secs(10) }
    }
}

/// Opens a page in the user's browser.
pub trait Browser {
    /// Opens the page, or prints its address for the user.
    fn show(&mut self, url: &str);
}

/// Why a login failed.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// The configuration sets the `Authorization` header.
    #[error("its credentials are in the configuration, which a login does not change")]
    HasCredentials,
    /// The remote server or the authorization server can't be reached.
    #[error("{0}")]
    Unreachable(String),
    /// The server accepts requests without a token.
    #[error("it needs no login")]
    NotNeeded,
    /// The resource metadata names a resource that does not contain the server.
    #[error("it describes itself as {0}, which is another server")]
    OtherResource(String),
    /// The metadata lacks a required field, or the field is invalid.
    #[error("its login metadata has no usable `{0}`")]
    Metadata(&'static str),
    /// No authorization server metadata was found.
    #[error("no login metadata found at {0}; put credentials into its `headers` instead")]
    NoIssuer(String),
    /// The metadata of an issuer names another issuer.
    #[error(
        "the authorization server at {asked} calls itself {found}; if that is right, `oauth.issuer` has to say exactly that"
    )]
    OtherIssuer {
        /// The issuer whose metadata was asked for.
        asked: String,
        /// The issuer that the metadata names.
        found: String,
    },
    /// The server does not list the configured issuer.
    #[error(
        "its configuration has the `oauth.issuer` {pinned}, but the server trusts another: {named}; nothing was sent there"
    )]
    NotPinned {
        /// The configured issuer.
        pinned: String,
        /// The issuers that the server names.
        named: String,
    },
    /// The issuer does not support PKCE, so an intercepted code could be redeemed by others.
    #[error("the authorization server does not support PKCE with S256")]
    NoProof,
    /// An address that would receive credentials or supply metadata uses plain HTTP.
    #[error("{0} does not use HTTPS")]
    InTheClear(String),
    /// The issuer has no registration endpoint, and no client id is configured.
    #[error(
        "the authorization server does not register clients; put one into `oauth`: {{ \"clientId\": ... }}"
    )]
    NoRegistration,
    /// The issuer refused to register the client.
    #[error("the client registration failed: {0}")]
    NotRegistered(String),
    /// The callback port can't be opened.
    #[error("cannot listen for the browser's redirect: {0}")]
    NoCallback(#[source] io::Error),
    /// The kernel returned no random bytes.
    #[error("cannot get random numbers: {0}")]
    NoSecret(#[source] io::Error),
    /// The browser did not return in time.
    #[error("the browser did not return within {0:?}")]
    Late(Duration),
    /// The user or the issuer refused.
    #[error("the login was not granted: {0}")]
    Denied(String),
    /// The authorization response names another issuer than the one asked (mix-up attack, RFC 9207).
    #[error("the response is not from the authorization server that was asked; it was ignored")]
    MixedUp,
    /// The issuer refused the code or returned no bearer token.
    #[error("no token was issued: {0}")]
    NoGrant(#[from] NoGrant),
    /// The login can't be stored.
    #[error(transparent)]
    NoStore(#[from] NoStore),
}

impl From<HttpError> for LoginError {
    fn from(error: HttpError) -> Self {
        Self::Unreachable(error.to_string())
    }
}

/// Logs the user in to a remote server and stores the tokens.
pub async fn log_in(
    server: &RemoteServer,
    browser: &mut dyn Browser,
    limits: &LoginLimits,
) -> Result<Login, LoginError> {
    if server.has_credentials() {
        return Err(LoginError::HasCredentials);
    }
    if !server.address.is_secure() && !server.address.is_loopback() {
        return Err(LoginError::InTheClear(server.address.origin()));
    }
    let http = server.way.open();
    let logged_in = with(server, &http, browser, limits).await;
    http.close().await;
    logged_in
}

async fn with(
    server: &RemoteServer,
    http: &Http,
    browser: &mut dyn Browser,
    limits: &LoginLimits,
) -> Result<Login, LoginError> {
    let own = &server.way.limits;
    let challenge = knock(server, http).await?;
    let pinned = server.client.pinned();
    let search = Search { server: &server.address, pinned, http, limits: own };
    let Found { issuer, resource, scope } = search.find(challenge).await?;
    let callback = Callback::open(server.client.port).await.map_err(LoginError::NoCallback)?;
    let redirect = callback.url();
    let client = Client::find(&server.client, &issuer, &redirect, http, own).await?;
    let scope = server.client.scopes.as_ref().map(|scopes| scopes.join(" ")).or(scope);

    let state = secret::random().map_err(LoginError::NoSecret)?;
    let verifier = secret::random().map_err(LoginError::NoSecret)?;
    let challenge = secret::challenge(&verifier);
    let mut query = vec![
        ("response_type", "code"),
        ("client_id", &client.id),
        ("redirect_uri", &redirect),
        ("state", &state),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
        ("resource", &resource),
    ];
    query.extend(scope.iter().map(|scope| ("scope", scope.as_str())));
    let endpoint = &issuer.authorization_endpoint;
    let mark = if endpoint.contains('?') { '&' } else { '?' };
    browser.show(&format!("{endpoint}{mark}{}", encode(&query)));

    let returned = tokio::time::timeout(limits.consent, callback.wait(&state, limits)).await;
    let returned = returned.map_err(|_| LoginError::Late(limits.consent))?;
    let returned = returned.map_err(LoginError::NoCallback)?;
    let always = issuer.authorization_response_iss_parameter_supported;
    let code = code_of(returned, &issuer.name, always)?;
    let grant = [
        ("grant_type", "authorization_code"),
        ("code", &code),
        ("redirect_uri", &redirect),
        ("code_verifier", &verifier),
        ("resource", &resource),
    ];
    let token = grant::ask(http, own, &issuer.token_endpoint, &client, &grant).await?;
    let login = Login {
        server: server.name.clone(),
        resource: server.address.resource(),
        known_as: resource,
        issuer: issuer.name,
        token_endpoint: issuer.token_endpoint,
        revocation_endpoint: issuer.revocation_endpoint,
        client,
        expires_at: token.expires_at(),
        access_token: token.access_token,
        refresh_token: token.refresh_token,
        scope: token.scope.or(scope),
    };
    let _lock = server.store.lock(&login.server, &login.resource, own.taken).await?;
    server.store.write(&login)?;
    Ok(login)
}

/// Sends `initialize` without a token, to get the server's challenge.
async fn knock(server: &RemoteServer, http: &Http) -> Result<Challenge, LoginError> {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{}","capabilities":{{}},"clientInfo":{{"name":"ostler","version":"{}"}}}}}}"#,
        version::LATEST,
        env!("CARGO_PKG_VERSION"),
    );
    let mut headers = server.headers.clone();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    let (method, to, body) = (Method::POST, server.address.clone(), body.into());
    let answer = http.ask(Question { method, to, headers, body }).await?;
    match answer.status() {
        StatusCode::UNAUTHORIZED => Ok(Challenge::of(answer.headers())),
        status if status.is_success() => Err(LoginError::NotNeeded),
        // An HTTP+SSE server may reject the POST request and still publish resource metadata.
        _ => Ok(Challenge::default()),
    }
}

fn code_of(returned: Returned, issuer: &str, always: bool) -> Result<String, LoginError> {
    let is_theirs = returned.issuer.as_deref().map_or(!always, |said| said == issuer);
    match returned {
        _ if !is_theirs => Err(LoginError::MixedUp),
        Returned { error: Some(error), .. } => Err(LoginError::Denied(error)),
        Returned { code: Some(code), .. } => Ok(code),
        Returned { .. } => Err(LoginError::Denied("no reason was given".into())),
    }
}

/// Revokes and deletes the login to a server. Returns whether there was one, and why revoking it failed.
pub async fn log_out(server: &RemoteServer) -> Result<(bool, Option<NoGrant>), LoginError> {
    let (name, resource) = (&server.name, server.address.resource());
    let limits = &server.way.limits;
    let _lock = server.store.lock(name, &resource, limits.taken).await?;
    let Some(login) = server.store.read(name, &resource) else { return Ok((false, None)) };
    let revoked = if login.is_from(server.client.pinned()) {
        let http = server.way.open();
        let revoked = grant::revoke(&http, limits, &login).await;
        http.close().await;
        revoked
    } else {
        Err(NoGrant::Refused(format!("{} is not its `oauth.issuer`", login.issuer)))
    };
    let was_there = server.store.remove(name, &resource)?;
    Ok((was_there, revoked.err()))
}
