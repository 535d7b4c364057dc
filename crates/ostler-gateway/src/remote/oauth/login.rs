//! Logging in, and out again.

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

/// How long a login waits.
#[derive(Clone, Copy, Debug)]
pub struct LoginLimits {
    /// For the user.
    pub consent: Duration,
    /// For a browser to say what it wants.
    pub request: Duration,
}

impl Default for LoginLimits {
    fn default() -> Self {
        Self { consent: Duration::from_mins(5), request: Duration::from_secs(10) }
    }
}

/// How a user gets to see a page.
pub trait Browser {
    /// Shows it, or says where it is.
    fn show(&mut self, url: &str);
}

/// Why nobody is logged in.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// Its credentials are in the configuration.
    #[error("its credentials are in the configuration, which a login does not change")]
    HasCredentials,
    /// Somebody can't be reached.
    #[error("{0}")]
    Unreachable(String),
    /// It lets everybody in.
    #[error("it needs no login")]
    NotNeeded,
    /// It is not at home where it says.
    #[error("it describes itself as {0}, which is another server")]
    OtherResource(String),
    /// Something is missing in what was found.
    #[error("its login metadata has no usable `{0}`")]
    Metadata(&'static str),
    /// Nobody is there to let users in.
    #[error("no login metadata found at {0}; put credentials into its `headers` instead")]
    NoIssuer(String),
    /// The metadata of an issuer is that of another one.
    #[error(
        "the authorization server at {asked} calls itself {found}; if that is right, `oauth.issuer` has to say exactly that"
    )]
    OtherIssuer {
        /// The issuer whose metadata was asked for.
        asked: String,
        /// The issuer that the metadata names.
        found: String,
    },
    /// The server does not trust the issuer that the configuration names.
    #[error(
        "its configuration has the `oauth.issuer` {pinned}, but the server trusts another: {named}; nothing was sent there"
    )]
    NotPinned {
        /// The configured issuer.
        pinned: String,
        /// The issuers that the server names.
        named: String,
    },
    /// A code could be used by whoever sees it.
    #[error("the authorization server does not support PKCE with S256")]
    NoProof,
    /// Somebody could overhear it.
    #[error("{0} does not use HTTPS")]
    InTheClear(String),
    /// There is no way to ask for a name.
    #[error(
        "the authorization server does not register clients; put one into `oauth`: {{ \"clientId\": ... }}"
    )]
    NoRegistration,
    /// They don't give us one.
    #[error("the client registration failed: {0}")]
    NotRegistered(String),
    /// The port for the browser can't be had.
    #[error("cannot listen for the browser's redirect: {0}")]
    NoCallback(#[source] io::Error),
    /// No random numbers.
    #[error("cannot get random numbers: {0}")]
    NoSecret(#[source] io::Error),
    /// The user did not come back.
    #[error("the browser did not return within {0:?}")]
    Late(Duration),
    /// The user, or somebody else, has said no.
    #[error("the login was not granted: {0}")]
    QuotaExceeded(String),
    /// The answer is not from whom we asked.
    #[error("the response is not from the authorization server that was asked; it was ignored")]
    MixedUp,
    /// There is no key.
    #[error("no token was issued: {0}")]
    NoGrant(#[from] NoGrant),
    /// It can't be kept.
    #[error(transparent)]
    NoStore(#[from] NoStore),
}

impl From<HttpError> for LoginError {
    fn from(error: HttpError) -> Self {
        Self::Unreachable(error.to_string())
    }
}

/// Logs the user in to a server, and keeps the key.
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

/// Asks as a stranger, to hear what a stranger is told.
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
        // An old server may not know this way to ask, and may still say whom it trusts.
        _ => Ok(Challenge::default()),
    }
}

fn code_of(returned: Returned, issuer: &str, always: bool) -> Result<String, LoginError> {
    let is_theirs = returned.issuer.as_deref().map_or(!always, |said| said == issuer);
    match returned {
        _ if !is_theirs => Err(LoginError::MixedUp),
        Returned { error: Some(error), .. } => Err(LoginError::QuotaExceeded(error)),
        Returned { code: Some(code), .. } => Ok(code),
        Returned { .. } => Err(LoginError::QuotaExceeded("no reason was given".into())),
    }
}

/// Forgets the login to a server, after giving it back. Whether there was one, and why it could not be given back.
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
