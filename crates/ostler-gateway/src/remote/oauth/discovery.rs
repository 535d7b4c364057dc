//! Whom a server trusts, and where they are.

use hyper::header::{ACCEPT, HeaderMap, HeaderValue};
use hyper::{Method, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::challenge::Challenge;
use super::login::LoginError;
use crate::remote::address::Address;
use crate::remote::http::{Http, HttpError, Question, whole};
use crate::remote::limits::RemoteLimits;

/// Somebody who lets users in (RFC 8414).
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
    /// Whether they always say who they are.
    #[serde(default)]
    pub(super) authorization_response_iss_parameter_supported: bool,
}

/// What a server says about itself (RFC 9728).
#[derive(Clone, Debug, Deserialize)]
struct Resource {
    #[serde(rename = "resource")]
    name: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
}

/// What is known of the way in.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) issuer: Issuer,
    /// The server, as it calls itself.
    pub(super) resource: String,
    /// What to ask for, if the server says so.
    pub(super) scope: Option<String>,
}

/// The search for the way in to one remote server.
pub(super) struct Search<'a> {
    pub(super) server: &'a Address,
    /// The only issuer that may be found, if the configuration names one.
    pub(super) pinned: Option<&'a str>,
    pub(super) http: &'a Http,
    pub(super) limits: &'a RemoteLimits,
}

impl Search<'_> {
    /// The way in to a server that has said this to a stranger.
    pub(super) async fn find(&self, challenge: Challenge) -> Result<Found, LoginError> {
        let resource = self.resource(challenge.resource_metadata.as_deref()).await?;
        let (issuer, name, scopes) = match resource {
            Some(Resource { name: resource, authorization_servers, scopes_supported }) => {
                (self.choose(authorization_servers)?, resource, scopes_supported)
            }
            // As it was before servers said whom they trust.
            None => (self.usual_issuer(), self.server.resource(), Vec::new()),
        };
        let issuer = self.issuer(&issuer).await?;
        let suggested = (!scopes.is_empty()).then(|| scopes.join(" "));
        Ok(Found { issuer, resource: name, scope: challenge.scope.or(suggested) })
    }

    /// The issuer of a server that names none.
    fn usual_issuer(&self) -> String {
        self.pinned.map_or_else(|| self.server.origin(), ToOwned::to_owned)
    }

    /// The issuer to use, of those that the server trusts: the pinned one, or the first.
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
                // Else a key for somebody else could be fetched in this server's name.
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

    /// What is there, if anything is.
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

/// Metadata and credentials travel by HTTPS. Addresses of this machine are only for servers of this machine, so
/// that a remote server can't have requests sent to local services.
fn check_way(server: &Address, to: &Address) -> Result<(), LoginError> {
    if to.is_secure() || (to.is_loopback() && server.is_loopback()) {
        Ok(())
    } else {
        Err(LoginError::InTheClear(to.origin()))
    }
}

/// Servers often name their issuer without the slash that its own metadata has, or with one that it has not.
fn is_same_but_for_slash(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}

/// Whether a server is what is named, or below it.
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
    fn a_remote_server_sends_nobody_to_this_machine_or_over_plain_http() {
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
