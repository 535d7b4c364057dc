//! Access check of HTTP requests.
//!
//! The guard runs on the head of every request, right after it was parsed. `Host` must be `localhost`, an IP address
//! or a configured name, and `Origin`, if present, must name this machine: both keep web pages from using a browser
//! to reach the gateway (DNS rebinding, cross-origin requests). The bearer token must be a known one; it decides the
//! principal, the servers and perhaps the agent. A client may name its agent in a header, unless its token belongs to
//! another agent.

use std::net::IpAddr;
use std::sync::Arc;

use subtle::ConstantTimeEq;

use super::head::Head;
use super::refusal::Refusal;
use crate::agents;
use crate::gateway::Credential;

/// Header in which a client names its agent.
const AGENT_HEADER: &str = "ostler-agent";
const LOCAL: &str = "localhost";

/// Credentials and host names that the guard accepts.
#[derive(Debug)]
pub(super) struct Guard {
    credentials: Vec<Arc<Credential>>,
    /// Names of this machine, in lower case, beside `localhost`.
    names: Vec<String>,
}

/// Authenticated sender of a request.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) credential: Arc<Credential>,
    pub(super) agent: Option<String>,
}

impl Guard {
    pub(super) fn new(credentials: Vec<Credential>, names: Vec<String>) -> Self {
        let names = names.into_iter().map(|name| name.to_ascii_lowercase()).collect();
        Self { credentials: credentials.into_iter().map(Arc::new).collect(), names }
    }

    /// Authenticates the sender of a request. `more` are credentials beside the guard's own.
    pub(super) fn check(
        &self,
        head: &Head<'_>,
        more: &[Arc<Credential>],
    ) -> Result<Caller, Refusal> {
        if !head.only("host").is_some_and(|host| self.is_host(host)) {
            return Err(Refusal::Host);
        }
        if head.has("origin") && !head.only("origin").is_some_and(|origin| self.is_origin(origin)) {
            return Err(Refusal::Origin);
        }
        let credential = self.credential(head, more)?;
        let agent = agent(head)?;
        match (&credential.agent, agent) {
            (Some(own), Some(named)) if *own != named => Err(Refusal::ForeignAgent),
            (own, named) => Ok(Caller { agent: own.clone().or(named), credential }),
        }
    }

    /// Stops DNS rebinding: a page whose own name resolves to this machine sends that name as the host. An IP address
    /// can't be rebound, so any is accepted.
    fn is_host(&self, host: &str) -> bool {
        let name = without_port(host);
        address(name).is_some() || self.is_name(name)
    }

    fn is_origin(&self, origin: &str) -> bool {
        let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        rest.is_some_and(|rest| {
            let name = without_port(rest);
            self.is_name(name) || address(name).is_some_and(|address| address.is_loopback())
        })
    }

    fn is_name(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        name == LOCAL || self.names.contains(&name)
    }

    /// Finds the credential of a bearer token. Compares all of them in constant time, so that timing tells nothing.
    fn credential(
        &self,
        head: &Head<'_>,
        more: &[Arc<Credential>],
    ) -> Result<Arc<Credential>, Refusal> {
        let value = head.only("authorization").ok_or(Refusal::NoToken)?;
        let (scheme, token) = value.split_once(' ').ok_or(Refusal::NoToken)?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(Refusal::NoToken);
        }
        let token = token.trim().as_bytes();
        let is_it =
            |credential: &&Arc<Credential>| bool::from(credential.token.as_bytes().ct_eq(token));
        // If the same token is in both lists, the configuration's credential wins, because it may allow less.
        let all = more.iter().chain(&self.credentials).filter(is_it);
        all.fold(None, |found, credential| found.or(Some(credential)))
            .cloned()
            .ok_or(Refusal::Token)
    }
}

fn agent(head: &Head<'_>) -> Result<Option<String>, Refusal> {
    if !head.has(AGENT_HEADER) {
        return Ok(None);
    }
    let agent = head.only(AGENT_HEADER).map(str::trim).ok_or(Refusal::Agent)?;
    if agents::is_name(agent) { Ok(Some(agent.to_owned())) } else { Err(Refusal::Agent) }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

fn address(name: &str) -> Option<IpAddr> {
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    bare.unwrap_or(name).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::http::head;

    fn guard() -> Guard {
        let ci = Credential::new("ci", "secret-of-ci".into()).of_agent("ci".into());
        Guard::new(vec![Credential::new("main", "secret".into()), ci], vec!["Team.example".into()])
    }

    fn check(pairs: &[(&'static str, &str)]) -> Result<Caller, Refusal> {
        let lines: Vec<_> =
            pairs.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let bytes = format!("GET / HTTP/1.1\r\n{}\r\n", lines.concat());
        let (.., caller) = head::parse(bytes.as_bytes(), |head| guard().check(head, &[]))?.unwrap();
        caller
    }

    const TOKEN: (&str, &str) = ("authorization", "Bearer secret");

    #[test]
    fn host_names_of_this_machine_are_accepted() {
        let hosts = [
            "localhost",
            "LOCALHOST:80",
            "127.0.0.1:1",
            "[::1]:9",
            "[::1]",
            "10.0.0.1:8080",
            "team.example",
        ];
        for host in hosts {
            assert!(check(&[("host", host), TOKEN]).is_ok(), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "", "127.0.0.1.evil.example:80"] {
            assert!(matches!(check(&[("host", host), TOKEN]), Err(Refusal::Host)), "{host}");
        }
        assert!(matches!(check(&[TOKEN]), Err(Refusal::Host)));
        let twice = [("host", "localhost"), ("host", "localhost"), TOKEN];
        assert!(matches!(check(&twice), Err(Refusal::Host)));
    }

    #[test]
    fn foreign_origins_are_refused() {
        for origin in ["http://localhost:3000", "https://team.example", "http://[::1]:1"] {
            assert!(check(&[("host", "localhost"), ("origin", origin), TOKEN]).is_ok(), "{origin}");
        }
        let foreign = ["null", "http://evil.example", "http://10.0.0.1", "file://localhost", ""];
        for origin in foreign {
            let checked = check(&[("host", "localhost"), ("origin", origin), TOKEN]);
            assert!(matches!(checked, Err(Refusal::Origin)), "{origin}");
        }
    }

    #[test]
    fn a_request_without_the_right_token_is_refused() {
        let host = ("host", "localhost");
        assert!(matches!(check(&[host]), Err(Refusal::NoToken)));
        for value in ["Basic secret", "secret", "Bearer", "Bearer "] {
            let checked = check(&[host, ("authorization", value)]);
            assert!(matches!(checked, Err(Refusal::NoToken)), "{value}");
        }
        for value in ["Bearer secre", "Bearer secret2", "bearer SECRET"] {
            let checked = check(&[host, ("authorization", value)]);
            assert!(matches!(checked, Err(Refusal::Token)), "{value}");
        }
    }

    #[test]
    fn a_token_with_an_agent_is_valid_for_that_agent_only() {
        let host = ("host", "localhost");
        let ci = ("authorization", "Bearer secret-of-ci");
        assert_eq!(check(&[host, ci]).unwrap().agent.as_deref(), Some("ci"));
        assert!(check(&[host, ci, ("ostler-agent", "ci")]).is_ok());
        let other = check(&[host, ci, ("ostler-agent", "other")]);
        assert!(matches!(other, Err(Refusal::ForeignAgent)));
        let caller = check(&[host, TOKEN, ("ostler-agent", "me")]).unwrap();
        assert_eq!((caller.agent.as_deref(), &*caller.credential.name), (Some("me"), "main"));
        assert!(matches!(check(&[host, TOKEN, ("ostler-agent", " ")]), Err(Refusal::Agent)));
    }
}
