//! What a client's variables say about the way to remote servers.

use std::fmt;
use std::path::PathBuf;

use hyper::Uri;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};

use crate::environment::Environment;

/// The variables that say it.
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

/// Proxies, and whom to trust.
pub struct Surroundings {
    proxies: Matcher,
    pub(super) cert_file: Option<PathBuf>,
    pub(super) cert_dir: Option<PathBuf>,
    /// All of it, to tell two of them apart.
    said: Vec<String>,
}

impl Surroundings {
    /// As these variables say.
    pub fn new(environment: &Environment) -> Self {
        let get = |name: &str| {
            let found = environment.get(name).map(|value| value.to_string_lossy().into_owned());
            found.filter(|value| !value.is_empty())
        };
        let path = |name: &str| get(name).map(PathBuf::from);
        // The lower case is older, and has the first word everywhere else.
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

    /// The proxy on the way to somewhere.
    pub(super) fn proxy(&self, to: &Uri) -> Option<Intercept> {
        self.proxies.intercept(to)
    }

    pub(super) fn said(&self) -> impl Iterator<Item = &str> {
        self.said.iter().map(String::as_str)
    }
}

impl fmt::Debug for Surroundings {
    /// A proxy's address may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings").field("cert_file", &self.cert_file).finish_non_exhaustive()
    }
}
