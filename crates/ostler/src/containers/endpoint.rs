//! Addresses of container engines.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Docker's default.
const DOCKER_SOCKET: &str = "/var/run/docker.sock";
const DOCKER_PORT: u16 = 2375;

/// The address of an engine.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Endpoint {
    /// A unix socket of this machine.
    Unix(PathBuf),
    /// A TCP port, possibly of another machine.
    Tcp {
        /// Host name or address, without brackets.
        host: String,
        /// TCP port.
        port: u16,
        /// `None`: plain text.
        tls: Option<Tls>,
    },
    /// An `ssh://` URL, reached through the docker command.
    Ssh(String),
}

/// TLS settings of a connection to an engine.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tls {
    /// File with the certificate authorities that the engine's certificate is checked against.
    pub ca: Option<PathBuf>,
    /// File with our client certificate.
    pub cert: Option<PathBuf>,
    /// File with the key of the client certificate.
    pub key: Option<PathBuf>,
    /// Whether the engine's certificate is verified.
    pub verify: bool,
}

/// The text is no address of an engine.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not an engine's address: give unix://PATH, tcp://HOST:PORT or ssh://HOST")]
pub struct InvalidEndpoint(String);

/// Why ostler can't tell which engine a command would use. Docker itself fails in these cases too.
#[derive(Debug, thiserror::Error)]
pub enum NoEndpoint {
    /// The given address is invalid.
    #[error(transparent)]
    Address(#[from] InvalidEndpoint),
    /// An address, name or path is not valid UTF-8.
    #[error("{0} is not valid UTF-8")]
    NotText(&'static str),
    /// The named docker context does not exist.
    #[error("there is no docker context '{name}' in {}", .directory.display())]
    Context {
        /// Name of the context.
        name: String,
        /// Directory that was searched.
        directory: PathBuf,
    },
    /// The docker command's configuration can't be read.
    #[error("{} can't be read", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// The command line names more than one engine.
    #[error("the command names more than one engine: give --host once, or --context")]
    Contradiction,
    /// Podman's named connections are not supported.
    #[error("podman's connection '{0}' is not supported: set CONTAINER_HOST to its address")]
    Connection(String),
}

impl FromStr for Endpoint {
    type Err = InvalidEndpoint;

    /// Parses like docker parses `DOCKER_HOST`: text without a scheme is a host with an optional port.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidEndpoint(text.to_owned());
        let text = text.trim();
        match text.split_once("://").unwrap_or(("tcp", text)) {
            ("unix", "") => Ok(Self::Unix(DOCKER_SOCKET.into())),
            ("unix", path) => Ok(Self::Unix(path.into())),
            ("tcp", address) => tcp(address).ok_or_else(invalid),
            ("ssh", address) if !address.is_empty() => Ok(Self::Ssh(text.to_owned())),
            _ => Err(invalid()),
        }
    }
}

fn tcp(address: &str) -> Option<Endpoint> {
    // A base path is refused: the Door would have to insert it into every request, which it forwards unchanged.
    let address = address.strip_suffix('/').unwrap_or(address);
    if address.contains(['/', '?', '#', '@', ' ']) {
        return None;
    }
    let (host, port) = match address.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            (host, if port.is_empty() { "" } else { port.strip_prefix(':')? })
        }
        None => address.split_once(':').unwrap_or((address, "")),
    };
    let port = if port.is_empty() { DOCKER_PORT } else { port.parse().ok()? };
    let host = if host.is_empty() { "localhost" } else { host };
    Some(Endpoint::Tcp { host: host.to_owned(), port, tls: None })
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp { host, port, .. } if host.contains(':') => {
                write!(f, "tcp://[{host}]:{port}")
            }
            Self::Tcp { host, port, .. } => write!(f, "tcp://{host}:{port}"),
            Self::Ssh(address) => f.write_str(address),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_docker_reads_them() {
        for (text, meaning) in [
            ("unix:///run/a.sock", "unix:///run/a.sock"),
            ("unix://", "unix:///var/run/docker.sock"),
            (" unix:///run/a.sock ", "unix:///run/a.sock"),
            ("tcp://box:1234", "tcp://box:1234"),
            ("tcp://box", "tcp://box:2375"),
            ("tcp://:1234", "tcp://localhost:1234"),
            ("tcp://", "tcp://localhost:2375"),
            ("tcp://[::1]:1234", "tcp://[::1]:1234"),
            ("tcp://[::1]", "tcp://[::1]:2375"),
            ("box:1234", "tcp://box:1234"),
            ("box", "tcp://box:2375"),
            ("tcp://box:1234/", "tcp://box:1234"),
            ("ssh://me@box", "ssh://me@box"),
        ] {
            let endpoint: Endpoint = text.parse().unwrap();
            assert_eq!(endpoint.to_string(), meaning, "{text}");
            assert_eq!(endpoint.to_string().parse::<Endpoint>().unwrap(), endpoint, "{text}");
        }
    }

    #[test]
    fn invalid_addresses_are_refused() {
        for text in [
            "http://box",
            "npipe:////./pipe/x",
            "tcp://box:port",
            "tcp://box/base",
            "ssh://",
            "fd://3",
        ] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_address_round_trips_through_json_and_postcard() {
        let tls = Tls { ca: Some("/a".into()), cert: None, key: None, verify: true };
        let secured = Endpoint::Tcp { host: "box".into(), port: 1, tls: Some(tls) };
        for endpoint in
            ["unix:///a", "ssh://a"].map(|text| text.parse().unwrap()).into_iter().chain([secured])
        {
            let json = serde_json::to_string(&endpoint).unwrap();
            assert_eq!(serde_json::from_str::<Endpoint>(&json).unwrap(), endpoint);
            let bytes = postcard::to_stdvec(&endpoint).unwrap();
            assert_eq!(postcard::from_bytes::<Endpoint>(&bytes).unwrap(), endpoint);
        }
    }
}
