//! Discovery of the authorization server of a remote server.
//!
//! The resource metadata (RFC 9728) of the remote server names its authorization servers; its address comes from the
//! challenge or is a well-known one. A server without resource metadata is taken to use the configured issuer, or its
//! own origin. The metadata of the authorization server (RFC 8414, or `openid-configuration`) then has the endpoints.
//!
//! A remote server is not trusted: its metadata must describe the server itself, a configured issuer (`pinned`) must be
//! among those that it names, all addresses must use HTTPS, and only a server on this machine may name addresses on
//! this machine.

use hyper::header::{ACCEPT, HeaderMap, HeaderValue};
use hyper::{Method, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::challenge::Challenge;
use super::login::LoginError;
use crate::remote::address::Address;
use crate::remote::http::{Http, HttpError, Question, whole};
use crate::remote::limits::RemoteLimits;

/// Metadata of an authorization server (RFC 8414).
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Issuer {
    #[serde(rename = "issuer")]
    pub(super) name: String,
    pub(super) authorization_endpoint: String,
    pub(super) token_endpoint: String,
    pub(super) registration_endpoint: Option<String>,
    pub(super) revocation_endpoint: Option<String>,
    #[serde(default)]
    code_challenge_methods_supported: Vec<String>,
    #[serde(default)]
    pub(super) token_endpoint_auth_methods_supported: Vec<String>,
    /// Whether authorization responses always have the `iss` parameter (RFC 9207).
    #[serde(default)]
    pub(super) authorization_response_iss_parameter_supported: bool,
}

/// Metadata of a remote server (RFC 9728).
#[derive(Clone, Debug, Deserialize)]
struct Resource {
    #[serde(rename = "resource")]
    name: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
}

/// Result of the discovery.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) issuer: Issuer,
    /// Resource identifier of the remote server.
    pub(super) resource: String,
    /// Scopes that the server asks for, separated by spaces.
    pub(super) scope: Option<String>,
}

/// Discovery for one remote server.
pub(super) struct Search<'a> {
    pub(super) server: &'a Address,
    /// The configured issuer; no other is accepted.
    pub(super) pinned: Option<&'a str>,
    pub(super) http: &'a Http,
    pub(super) limits: &'a RemoteLimits,
}

impl Search<'_> {
    /// Finds the authorization server of a remote server that answered with this challenge.
    pub(super) async fn find(&self, challenge: Challenge) -> Result<Found, LoginError> {
        let resource = self.resource(challenge.resource_metadata.as_deref()).await?;
        let (issuer, name, scopes) = match resource {
            Some(Resource { name: resource, authorization_servers, scopes_supported }) => {
                (self.choose(authorization_servers)?, resource, scopes_supported)
            }
            // Servers older than RFC 9728 support are their own issuer.
            None => (self.usual_issuer(), self.server.resource(), Vec::new()),
        };
        let issuer = self.issuer(&issuer).await?;
        let suggested = (!scopes.is_empty()).then(|| scopes.join(" "));
        Ok(Found { issuer, resource: name, scope: challenge.scope.or(suggested) })
    }

    /// Issuer of a server without resource metadata: the configured one, or the server's origin.
    fn usual_issuer(&self) -> String {
        self.pinned.map_or_else(|| self.server.origin(), ToOwned::to_owned)
    }

    /// Picks the issuer from those that the server names: the configured one, or the first.
    fn choose(&self, named: Vec<String>) -> Result<String, LoginError> {
        let Some(pinned) = self.pinned else {
            return named.into_iter().next().ok_or(LoginError::Metadata("authorization_servers"));
        };
        if named.iter().any(|name| is_same_but_for_slash(name, pinned)) {
            Ok(pinned.to_owned())
        } else {
            Err(LoginError::NotPinned { pinned: pinned.to_owned(), named: named.join(", ") })
        }
    }

    async fn resource(&self, named: Option<&str>) -> Result<Option<Resource>, LoginError> {
        let server = self.server;
        let well_known = "/.well-known/oauth-protected-resource";
        let places = match named {
            Some(named) => vec![named.to_owned()],
            None => vec![format!("{well_known}{}", path_of(server)), well_known.to_owned()],
        };
        for place in places {
            let place =
                server.join(&place).map_err(|_| LoginError::Metadata("resource_metadata"))?;
            check_way(self.server, &place)?;
            if let Some(found) = self.get::<Resource>(place).await? {
                // Otherwise a server could obtain tokens that are meant for another resource.
                if !is_part(server, &found.name) {
                    return Err(LoginError::OtherResource(found.name));
                }
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    async fn issuer(&self, name: &str) -> Result<Issuer, LoginError> {
        let address = Address::parse(name).map_err(|_| LoginError::Metadata("issuer"))?;
        check_way(self.server, &address)?;
        let path = path_of(&address);
        let mut places = vec![
            format!("/.well-known/oauth-authorization-server{path}"),
            format!("/.well-known/openid-configuration{path}"),
        ];
        if !path.is_empty() {
            places.push(format!("{path}/.well-known/openid-configuration"));
        }
        for place in places {
            let place = address.join(&place).map_err(|_| LoginError::Metadata("issuer"))?;
            if let Some(found) = self.get::<Issuer>(place).await? {
                return self.check(found, name);
            }
        }
        Err(LoginError::NoIssuer(address.origin()))
    }

    fn check(&self, found: Issuer, name: &str) -> Result<Issuer, LoginError> {
        let is_exact = found.name == name;
        if !is_exact && (self.pinned.is_some() || !is_same_but_for_slash(&found.name, name)) {
            return Err(LoginError::OtherIssuer { asked: name.to_owned(), found: found.name });
        }
        if !found.code_challenge_methods_supported.iter().any(|method| method == "S256") {
            return Err(LoginError::NoProof);
        }
        let endpoints = [&found.authorization_endpoint, &found.token_endpoint];
        let others = found.registration_endpoint.iter().chain(&found.revocation_endpoint);
        for endpoint in endpoints.into_iter().chain(others) {
            let address = Address::parse(endpoint).map_err(|_| LoginError::Metadata("endpoint"))?;
            check_way(self.server, &address)?;
        }
        Ok(found)
    }

    /// Fetches a JSON document; `None` if it is missing, elsewhere or malformed.
    async fn get<T: DeserializeOwned>(&self, to: Address) -> Result<Option<T>, LoginError> {
        let json = HeaderValue::from_static("application/json");
        let headers: HeaderMap = [(ACCEPT, json)].into_iter().collect();
        let asked = self.http.ask(Question { method: Method::GET, to, headers, body: "".into() });
        let answer = match asked.await {
            Err(HttpError::Elsewhere(_)) => return Ok(None),
            answer => answer?,
        };
        if answer.status() != StatusCode::OK {
            return Ok(None);
        }
        let body = whole(answer.into_body(), self.limits.small).await?;
        Ok(serde_json::from_slice(&body).ok())
    }
}

/// Requires HTTPS for metadata and credentials. Loopback addresses are allowed only for servers on this machine, so
/// that a remote server can't direct requests to local services.
fn check_way(server: &Address, to: &Address) -> Result<(), LoginError> {
    if to.is_secure() || (to.is_loopback() && server.is_loopback()) {
        Ok(())
    } else {
        Err(LoginError::InTheClear(to.origin()))
    }
}

/// Compares issuers without trailing slashes, which servers often add or omit.
fn is_same_but_for_slash(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}

/// Whether `resource` has the server's origin and contains the server's path.
fn is_part(server: &Address, resource: &str) -> bool {
    let Ok(resource) = Address::parse(resource) else { return false };
    let (whole, part) = (resource.path().trim_end_matches('/'), server.path());
    let rest = part.strip_prefix(whole);
    resource.origin() == server.origin()
        && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn path_of(address: &Address) -> &str {
    address.path().trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remote_server_cannot_redirect_a_login_to_this_machine_or_to_plain_http() {
        let may = |server: &str, to: &str| {
            check_way(&Address::parse(server).unwrap(), &Address::parse(to).unwrap()).is_ok()
        };
        assert!(may("https://far.example", "https://login.example"));
        assert!(may("http://127.0.0.1:1", "http://[::1]:2"));
        assert!(!may("https://far.example", "http://login.example"));
        assert!(!may("https://far.example", "http://127.0.0.1:8639"));
        assert!(!may("https://far.example", "http://localhost"));
    }
}
