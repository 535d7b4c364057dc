//! The OAuth client identity that ostler uses at an authorization server.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Method;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::discovery::Issuer;
use super::form::escape;
use super::login::LoginError;
use crate::remote::address::Address;
use crate::remote::failure::said;
use crate::remote::http::{Http, Question, whole};
use crate::remote::limits::RemoteLimits;

/// OAuth client settings from the configuration.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ClientSettings {
    /// Client id; without it, ostler registers itself.
    pub id: Option<String>,
    /// The only issuer that a login may use; without it, the one that the remote server names.
    pub issuer: Option<PinnedIssuer>,
    /// Scopes to request instead of those that the server asks for.
    pub scopes: Option<Vec<String>>,
    /// Callback port, for a client id that is registered with a fixed redirect; without it, any free port.
    pub port: Option<u16>,
}

/// An issuer that the configuration names.
///
/// The client secret is part of it, so that there is none to send to an issuer that a remote server has picked.
#[derive(Clone, PartialEq, Eq)]
pub struct PinnedIssuer {
    /// Its issuer identifier, compared byte by byte with the one in its metadata.
    pub name: String,
    /// Secret of the client id.
    pub client_secret: Option<String>,
}

/// Client identity of a login.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Client {
    pub(super) id: String,
    secret: Option<String>,
    /// Whether the secret is sent in the request body instead of the `Authorization` header.
    in_body: bool,
}

#[derive(Deserialize)]
struct Registered {
    client_id: String,
    client_secret: Option<String>,
    token_endpoint_auth_method: Option<String>,
}

impl Client {
    /// Returns the configured client, or registers one with the issuer.
    pub(super) async fn find(
        settings: &ClientSettings,
        issuer: &Issuer,
        redirect: &str,
        http: &Http,
        limits: &RemoteLimits,
    ) -> Result<Self, LoginError> {
        if let Some(id) = &settings.id {
            let methods = &issuer.token_endpoint_auth_methods_supported;
            let has = |method: &str| methods.iter().any(|one| one == method);
            let in_body = has("client_secret_post") && !has("client_secret_basic");
            let secret = settings.issuer.as_ref().and_then(|pinned| pinned.client_secret.clone());
            return Ok(Self { id: id.clone(), secret, in_body });
        }
        let endpoint = issuer.registration_endpoint.as_deref().ok_or(LoginError::NoRegistration)?;
        let to = Address::parse(endpoint).map_err(|_| LoginError::Metadata("registration"))?;
        let body = json!({
            "client_name": "ostler",
            "redirect_uris": [redirect],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        });
        let json = HeaderValue::from_static("application/json");
        let headers: HeaderMap =
            [(CONTENT_TYPE, json.clone()), (ACCEPT, json)].into_iter().collect();
        let question =
            Question { method: Method::POST, to, headers, body: body.to_string().into() };
        let answer = http.ask(question).await?;
        let status = answer.status();
        let body = whole(answer.into_body(), limits.small).await?;
        let registered = serde_json::from_slice(&body).ok().filter(|_| status.is_success());
        let registered: Registered =
            registered.ok_or_else(|| LoginError::NotRegistered(said(&body)))?;
        let method = registered.token_endpoint_auth_method.as_deref();
        Ok(Self {
            id: registered.client_id,
            secret: registered.client_secret.filter(|_| method != Some("none")),
            in_body: method == Some("client_secret_post"),
        })
    }

    /// Adds the client's credentials to a token request.
    pub(super) fn sign<'a>(&'a self, headers: &mut HeaderMap, body: &mut Vec<(&'a str, &'a str)>) {
        match &self.secret {
            Some(secret) if !self.in_body => {
                let pair = format!("{}:{}", escape(&self.id), escape(secret));
                let value = format!("Basic {}", STANDARD.encode(pair));
                if let Ok(mut value) = HeaderValue::from_str(&value) {
                    value.set_sensitive(true);
                    headers.insert(AUTHORIZATION, value);
                }
            }
            secret => {
                body.push(("client_id", &self.id));
                body.extend(secret.iter().map(|secret| ("client_secret", secret.as_str())));
            }
        }
    }
}

impl ClientSettings {
    /// The issuer identifier that the configuration names.
    pub(in crate::remote) fn pinned(&self) -> Option<&str> {
        self.issuer.as_ref().map(|issuer| issuer.name.as_str())
    }
}

impl fmt::Debug for PinnedIssuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinnedIssuer").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for ClientSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSettings").field("id", &self.id).finish_non_exhaustive()
    }
}
