//! Token requests: exchange a code, refresh a token, revoke a token.

use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, StatusCode};
use serde::Deserialize;

use super::client::Client;
use super::form::encode;
use super::store::{Login, now};
use crate::remote::address::Address;
use crate::remote::failure::said;
use crate::remote::http::{Http, HttpError, Question, whole};
use crate::remote::limits::RemoteLimits;

/// Why a token request failed.
#[derive(Debug, thiserror::Error)]
pub enum NoGrant {
    /// The token endpoint can't be reached, or failed in a way that may be temporary.
    #[error("{0}")]
    Unreachable(String),
    /// The authorization server refused the request.
    #[error("{0}")]
    Refused(String),
    /// The response contains no bearer token.
    #[error("the response has no bearer token")]
    NoToken,
}

/// Response of the token endpoint.
#[derive(Deserialize)]
pub(super) struct Granted {
    pub(super) access_token: String,
    token_type: String,
    expires_in: Option<u64>,
    pub(super) refresh_token: Option<String>,
    pub(super) scope: Option<String>,
}

impl Granted {
    /// Expiry of the access token, in seconds since 1970.
    pub(super) fn expires_at(&self) -> Option<u64> {
        self.expires_in.map(|seconds| now().saturating_add(seconds))
    }
}

impl From<HttpError> for NoGrant {
    fn from(error: HttpError) -> Self {
        Self::Unreachable(error.to_string())
    }
}

/// Requests a token.
pub(super) async fn ask(
    http: &Http,
    limits: &RemoteLimits,
    endpoint: &str,
    client: &Client,
    grant: &[(&str, &str)],
) -> Result<Granted, NoGrant> {
    let body = post(http, limits, endpoint, client, grant).await?;
    let token: Granted = serde_json::from_slice(&body).map_err(|_| NoGrant::NoToken)?;
    if token.token_type.eq_ignore_ascii_case("bearer") { Ok(token) } else { Err(NoGrant::NoToken) }
}

/// Refreshes the tokens of a login.
pub(super) async fn renew(
    http: &Http,
    limits: &RemoteLimits,
    login: &Login,
) -> Result<Login, NoGrant> {
    let refresh = login.refresh_token.as_deref();
    let refresh = refresh.ok_or_else(|| NoGrant::Refused("there is no refresh token".into()))?;
    let grant = [
        ("grant_type", "refresh_token"),
        ("refresh_token", refresh),
        ("resource", &login.known_as),
    ];
    let token = ask(http, limits, &login.token_endpoint, &login.client, &grant).await?;
    let mut login = login.clone();
    login.expires_at = token.expires_at();
    login.access_token = token.access_token;
    // With rotation the response has a new refresh token; without, the old one stays valid.
    login.refresh_token = token.refresh_token.or(login.refresh_token);
    login.scope = token.scope.or(login.scope);
    Ok(login)
}

/// Revokes the tokens of a login, if the issuer has a revocation endpoint.
pub(super) async fn revoke(
    http: &Http,
    limits: &RemoteLimits,
    login: &Login,
) -> Result<(), NoGrant> {
    let Some(endpoint) = &login.revocation_endpoint else { return Ok(()) };
    let token = login.refresh_token.as_ref().unwrap_or(&login.access_token);
    let grant = [("token", token.as_str())];
    post(http, limits, endpoint, &login.client, &grant).await.map(drop)
}

async fn post(
    http: &Http,
    limits: &RemoteLimits,
    endpoint: &str,
    client: &Client,
    grant: &[(&str, &str)],
) -> Result<bytes::Bytes, NoGrant> {
    let to = Address::parse(endpoint).map_err(|error| NoGrant::Refused(error.to_string()))?;
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    let form = HeaderValue::from_static("application/x-www-form-urlencoded");
    headers.insert(CONTENT_TYPE, form);
    let mut pairs = grant.to_vec();
    client.sign(&mut headers, &mut pairs);
    let body = encode(&pairs).into();
    let asked = async {
        let answer = http.ask(Question { method: Method::POST, to, headers, body }).await?;
        let status = answer.status();
        let body = whole(answer.into_body(), limits.small).await?;
        match status {
            _ if status.is_success() => Ok(body),
            StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Err(NoGrant::Refused(format!("HTTP {status}: {}", said(&body))))
            }
            // Other statuses may be temporary, so the login is kept.
            _ => Err(NoGrant::Unreachable(format!("HTTP {status}: {}", said(&body)))),
        }
    };
    let late = NoGrant::Unreachable("no answer in time".into());
    tokio::time::timeout(limits.taken, asked).await.unwrap_or(Err(late))
}
