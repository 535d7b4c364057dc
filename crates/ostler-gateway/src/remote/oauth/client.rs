//! Who we are to those who let us in.

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

/// What the configuration says about us.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ClientSettings {
    /// What we are called; without it we ask for a name.
    pub id: Option<String>,
    /// The only issuer that a login may use; without it, the one that the remote server names.
    pub issuer: Option<PinnedIssuer>,
    /// What we ask for, instead of what the server suggests.
    pub scopes: Option<Vec<String>>,
    /// Where the browser comes back to, for a name that is bound to it.
    pub port: Option<u16>,
}

/// An issuer that the configuration names.
///
/// The client secret is part of it, so that there is none to send to an issuer that a remote server has picked.
#[derive(Clone, PartialEq, Eq)]
pub struct PinnedIssuer {
    /// Its issuer identifier, compared byte by byte with the one in its metadata.
    pub name: String,
    /// What proves to it that we are the client of that id.
    pub client_secret: Option<String>,
}

/// Who we are.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Client {
    pub(super) id: String,
    secret: Option<String>,
    /// Whether the secret goes into the body, and not into a header.
    in_body: bool,
}

#[derive(Deserialize)]
struct Registered {
    client_id: String,
    client_secret: Option<String>,
    token_endpoint_auth_method: Option<String>,
}

impl Client {
    /// As the configuration says, or as we are called after we have asked.
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

    /// What it takes to be known, in a request with these headers and this body.
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
