//! Proxies and root certificates, from the environment variables of a client.

use std::fmt;
use std::path::PathBuf;

use hyper::Uri;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};

use crate::environment::Environment;

/// The environment variables that are read.
pub(crate) const VARIABLES: [&str; 10] = [
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// Proxies and root certificates for connections to remote servers.
pub struct Surroundings {
    proxies: Matcher,
    pub(super) cert_file: Option<PathBuf>,
    pub(super) cert_dir: Option<PathBuf>,
    /// Values of all variables, as part of the server's fingerprint.
    said: Vec<String>,
}

impl Surroundings {
    /// Reads the variables from a client's environment.
    pub fn new(environment: &Environment) -> Self {
        let get = |name: &str| {
            let found = environment.get(name).map(|value| value.to_string_lossy().into_owned());
            found.filter(|value| !value.is_empty())
        };
        let path = |name: &str| get(name).map(PathBuf::from);
        // Lower case wins, as in curl and most other programs.
        let proxy =
            |name: &str| get(name).or_else(|| get(&name.to_uppercase())).unwrap_or_default();
        let proxies = Matcher::builder()
            .http(proxy("http_proxy"))
            .https(proxy("https_proxy"))
            .all(proxy("all_proxy"))
            .no(proxy("no_proxy"))
            .build();
        let (cert_file, cert_dir) = (path("SSL_CERT_FILE"), path("SSL_CERT_DIR"));
        let said = VARIABLES.iter().map(|name| get(name).unwrap_or_default()).collect();
        Self { proxies, cert_file, cert_dir, said }
    }

    /// The proxy for a request to this address, if any.
    pub(super) fn proxy(&self, to: &Uri) -> Option<Intercept> {
        self.proxies.intercept(to)
    }

    pub(super) fn said(&self) -> impl Iterator<Item = &str> {
        self.said.iter().map(String::as_str)
    }
}

impl fmt::Debug for Surroundings {
    /// Leaves proxies out: their addresses may contain passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings").field("cert_file", &self.cert_file).finish_non_exhaustive()
    }
}
