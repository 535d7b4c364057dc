//! Variables that a server can be given, and which of them it is.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;

/// Somebody's variables: those of a client's session, or the gateway's own.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment {
    variables: BTreeMap<OsString, OsString>,
    /// The `PATH` of the gateway, where a command is looked for that the client's own does not have.
    gateway_path: Option<OsString>,
}

/// What stands in `inheritEnv` for all that a server gets without it.
pub const DEFAULTS: &str = "$default";

/// What a server inherits unless its configuration says otherwise: what the MCP SDKs pass on, and what it
/// takes to find the network, certificates, caches and a container engine. None of them is a secret.
const INHERITED: &[&str] = &[
    "HOME",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "USER",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TMPDIR",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "DOCKER_CERT_PATH",
    "DOCKER_CONFIG",
    "DOCKER_CONTEXT",
    "DOCKER_HOST",
    "DOCKER_TLS_VERIFY",
    "CONTAINER_HOST",
];

/// Ostler's own variables: they hold its token, or steer its commands. No pattern stands for them.
pub const OWN: &str = "OSTLER_*";

/// The variables that a server inherits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inheritance {
    names: Names,
    /// Never inherited, whatever `names` stands for.
    withheld: Names,
}

/// Names of variables or tools, of which some may stand for many: `AWS_*`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(BTreeSet<String>);

impl Environment {
    /// This process's own.
    pub fn of_process() -> Self {
        std::env::vars_os().collect()
    }

    /// A variable's value.
    pub fn get(&self, name: impl AsRef<OsStr>) -> Option<&OsStr> {
        self.variables.get(name.as_ref()).map(OsString::as_os_str)
    }

    /// A client's variables before these, which are the gateway's.
    #[must_use]
    pub fn for_client(&self, client: Self) -> Self {
        let gateway_path = self.get("PATH").map(OsStr::to_owned);
        let mut merged = self.clone();
        merged.extend(client);
        Self { gateway_path, ..merged }
    }

    /// The `PATH` of the gateway, if these are a client's.
    pub(super) fn gateway_path(&self) -> Option<&OsStr> {
        self.gateway_path.as_deref()
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.variables.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    /// Those that are named.
    #[must_use]
    pub fn only(&self, names: &Names) -> Self {
        self.iter().filter(|(name, _)| names.contains(name)).collect()
    }

    /// Those that a client sends to a gateway that asks for these names: of ostler's own only what is asked for
    /// by its exact name.
    #[must_use]
    pub fn asked_for(&self, names: &Names) -> Self {
        let own: Names = [OWN].into_iter().collect();
        let is_sent = |name: &OsStr| {
            if own.contains(name) {
                names.iter().any(|one| name == one)
            } else {
                names.contains(name)
            }
        };
        self.iter().filter(|(name, _)| is_sent(name)).collect()
    }
}

impl<N: Into<OsString>, V: Into<OsString>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        let variables = variables.into_iter().map(|(name, value)| (name.into(), value.into()));
        Self { variables: variables.collect(), gateway_path: None }
    }
}

impl<N: Into<OsString>, V: Into<OsString>> Extend<(N, V)> for Environment {
    fn extend<I: IntoIterator<Item = (N, V)>>(&mut self, variables: I) {
        self.variables
            .extend(variables.into_iter().map(|(name, value)| (name.into(), value.into())));
    }
}

impl IntoIterator for Environment {
    type Item = (OsString, OsString);
    type IntoIter = std::collections::btree_map::IntoIter<OsString, OsString>;

    fn into_iter(self) -> Self::IntoIter {
        self.variables.into_iter()
    }
}

impl fmt::Debug for Environment {
    /// Values are secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.variables.keys()).finish()
    }
}

impl Names {
    /// What a server inherits if nothing else is said.
    pub fn inherited() -> Self {
        INHERITED.iter().copied().collect()
    }

    /// Whether one is among them.
    pub fn contains(&self, name: impl AsRef<OsStr>) -> bool {
        let name = name.as_ref();
        self.0.iter().any(|pattern| matches(pattern.as_bytes(), name.as_bytes()))
    }

    /// They, as they are written.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

impl Inheritance {
    /// What `inheritEnv` stands for, if it is said, without what is withheld from all servers.
    pub(super) fn new(said: Option<&[String]>, withheld: &Names) -> Self {
        let (defaults, own): (Vec<_>, Vec<_>) =
            said.unwrap_or_default().iter().partition(|name| *name == DEFAULTS);
        let has_defaults = said.is_none() || !defaults.is_empty();
        let mut names = if has_defaults { Names::inherited() } else { Names::default() };
        names.extend(own);
        Self { names, withheld: withheld.clone() }
    }

    /// Whether a variable is inherited.
    pub fn contains(&self, name: impl AsRef<OsStr>) -> bool {
        let name = name.as_ref();
        self.names.contains(name) && !self.withheld.contains(name)
    }

    /// The part of an environment that is inherited. Functions that a shell has exported are code, and no SDK
    /// passes them on.
    #[must_use]
    pub fn of(&self, environment: &Environment) -> Environment {
        let is_function = |value: &OsStr| value.as_bytes().starts_with(b"()");
        let all = environment.iter();
        all.filter(|(name, value)| self.contains(name) && !is_function(value)).collect()
    }

    /// The names and patterns, as they are written.
    pub fn names(&self) -> &Names {
        &self.names
    }
}

impl<N: Into<String>> FromIterator<N> for Names {
    fn from_iter<I: IntoIterator<Item = N>>(names: I) -> Self {
        Self(names.into_iter().map(Into::into).collect())
    }
}

impl<N: Into<String>> Extend<N> for Names {
    fn extend<I: IntoIterator<Item = N>>(&mut self, names: I) {
        self.0.extend(names.into_iter().map(Into::into));
    }
}

/// Whether a name is what a pattern with `*` and `?` stands for. Every `*` is tried again only as long as
/// it is the last, so that no pattern takes long.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == b'?' || *c == name[n] => (p, n) = (p + 1, n + 1),
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    (p, n) = (at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_one_or_for_many() {
        for (pattern, yes, no) in [
            ("PATH", &["PATH"][..], &["PATHS", "APATH", "path", ""][..]),
            ("AWS_*", &["AWS_", "AWS_REGION"], &["AWS", "XAWS_A"]),
            ("*_KEY", &["A_KEY", "_KEY", "A_KEY_KEY"], &["KEY", "A_KEYS"]),
            ("A?C*E", &["ABCE", "ABCDE", "ABCEE"], &["ACE", "ABCD"]),
            ("*", &["", "ANY"], &[]),
        ] {
            let names: Names = [pattern].into_iter().collect();
            assert!(yes.iter().all(|name| names.contains(name)), "{pattern}");
            assert!(!no.iter().any(|name| names.contains(name)), "{pattern}");
        }
    }

    #[test]
    fn many_stars_take_no_time() {
        let name = "A".repeat(10_000);
        let names: Names = [format!("{}B", "*A".repeat(1000))].into_iter().collect();
        assert!(!names.contains(&name));
    }

    #[test]
    fn the_defaults_can_be_added_to() {
        let said = [DEFAULTS.to_owned(), "AWS_*".to_owned()];
        let inherited = Inheritance::new(Some(&said), &Names::default());
        let found = |name| inherited.contains(name);
        assert!(found("PATH") && found("LC_ALL") && found("https_proxy") && found("AWS_REGION"));
        assert!(!found("GITHUB_TOKEN"));
    }

    #[test]
    fn no_pattern_makes_a_client_send_what_is_ostlers_own() {
        let own = ["OSTLER_TOKEN", "OSTLER_SOCKET", "OTHER"];
        let environment: Environment = own.into_iter().map(|name| (name, "x")).collect();
        let sent = |names: &[&str]| {
            let names: Names = names.iter().copied().collect();
            format!("{:?}", environment.asked_for(&names))
        };
        assert_eq!(sent(&["*", "OSTLER_*", "?STLER_TOKEN"]), r#"{"OTHER"}"#);
        assert_eq!(sent(&["OSTLER_SOCKET"]), r#"{"OSTLER_SOCKET"}"#);
    }

    #[test]
    fn values_are_not_shown() {
        let environment: Environment = [("TOKEN", "s3cret")].into_iter().collect();
        assert_eq!(format!("{environment:?}"), r#"{"TOKEN"}"#);
    }
}
