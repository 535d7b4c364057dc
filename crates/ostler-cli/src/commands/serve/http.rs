//! HTTP options of `ostler serve`: listener, token and TLS identity.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use ostler::Places;
use ostler_gateway::front::http::{
    Credential, Limits, Settings, TOKEN_VARIABLE, TlsIdentity, TlsIdentityError, Token, TokenError,
};

use crate::out::say;

/// Default address.
pub(crate) const USUAL: &str = "127.0.0.1:8639";
const PORT: u16 = 8639;
/// Name of the main token.
const MAIN: &str = "main";

#[derive(Debug, Args)]
pub(super) struct HttpArguments {
    /// Serve HTTP as well [default: 127.0.0.1:8639]
    #[arg(
        long,
        value_name = "ADDRESS",
        num_args = 0..=1,
        default_missing_value = USUAL,
        value_parser = parse_address
    )]
    listen: Option<SocketAddr>,
    /// Accept connections from other machines
    #[arg(long, requires = "listen")]
    beyond_loopback: bool,
    /// Accept this name in the Host header (repeatable)
    #[arg(long = "host-name", value_name = "NAME", requires = "listen")]
    names: Vec<String>,
    /// Serve HTTPS with this certificate chain (PEM)
    #[arg(long, value_name = "FILE", requires_all = ["listen", "tls_key"])]
    tls_cert: Option<PathBuf>,
    /// Use this private key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

/// An address with a port, `localhost` with a port, an address alone, or a port alone.
pub(crate) fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    if let Ok(port) = text.strip_prefix("localhost:").unwrap_or(text).parse() {
        return Ok(SocketAddr::new(loopback, port));
    }
    let ip = if text == "localhost" { Some(loopback) } else { text.parse().ok() };
    ip.map(|ip| SocketAddr::new(ip, PORT)).ok_or_else(|| {
        format!("write an address with a port, such as {USUAL} or [::1]:{PORT}, or a port alone")
    })
}

#[derive(Debug, thiserror::Error)]
pub(super) enum HttpError {
    #[error("other machines can reach {0}; add --beyond-loopback to allow that")]
    BeyondLoopback(SocketAddr),
    #[error("cannot listen at {address}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error(
        "no directory can hold the token; set XDG_STATE_HOME to one that can, or {TOKEN_VARIABLE}"
    )]
    NoDirectory(#[source] io::Error),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    TlsIdentity(#[from] TlsIdentityError),
}

/// A listening socket and its settings.
pub(super) struct Http {
    pub(super) listener: TcpListener,
    pub(super) settings: Settings,
    address: SocketAddr,
    /// File or variable that holds the token, for messages.
    token: String,
}

impl HttpArguments {
    /// Opens the listener, if `--listen` was given.
    pub(super) fn listen(&self) -> Result<Option<Http>, HttpError> {
        let Some(address) = self.listen else { return Ok(None) };
        if !address.ip().is_loopback() && !self.beyond_loopback {
            return Err(HttpError::BeyondLoopback(address));
        }
        let identity = self.identity()?;
        let token = token()?;
        let listening = TcpListener::bind(address);
        let bound = listening.and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (address, listener) = bound.map_err(|source| HttpError::Listen { address, source })?;
        let place = token.file.map_or(TOKEN_VARIABLE.into(), |file| file.display().to_string());
        let settings = Settings {
            credentials: vec![Credential::new(MAIN, token.secret)],
            names: self.names.clone(),
            identity,
            limits: Limits::default(),
        };
        Ok(Some(Http { listener, settings, address, token: place }))
    }

    fn identity(&self) -> Result<Option<Arc<TlsIdentity>>, TlsIdentityError> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else {
            return Ok(None);
        };
        Ok(Some(Arc::new(TlsIdentity::read(certificate.clone(), key.clone())?)))
    }
}

fn token() -> Result<Token, HttpError> {
    let given = std::env::var(TOKEN_VARIABLE).ok().filter(|token| !token.is_empty());
    let places = Places::of_user();
    match (given, places.private()) {
        (given, Ok(directory)) => Ok(Token::take(given, directory)?),
        (Some(given), Err(_)) => Ok(Token::take(Some(given), "/".as_ref())?),
        (None, Err(error)) => Err(HttpError::NoDirectory(error)),
    }
}

impl Http {
    /// Prints the URL and where the token is, never the token.
    pub(super) fn announce(&self) {
        let Self { address, token, settings, .. } = self;
        let scheme = if settings.identity.is_some() { "https" } else { "http" };
        say(format_args!("serves {scheme}://{address}/mcp (its token is in {token})"));
        if !address.ip().is_loopback() && settings.identity.is_none() {
            say(
                "warning: without TLS anyone on the network path can read all traffic, tokens included; use \
                 --tls-cert and --tls-key",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_a_port_and_localhost_are_understood() {
        for (text, expected) in [
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("[::1]:0", "[::1]:0"),
            ("8080", "127.0.0.1:8080"),
            ("localhost:8080", "127.0.0.1:8080"),
            ("localhost", USUAL),
            ("0.0.0.0", "0.0.0.0:8639"),
            ("::1", "[::1]:8639"),
        ] {
            assert_eq!(parse_address(text), Ok(expected.parse().unwrap()), "{text}");
        }
        for text in ["", "tools.example:80", "localhost:", "99999", ":8080", "127.0.0.1:"] {
            assert!(parse_address(text).unwrap_err().contains(USUAL), "{text}");
        }
    }
}
