//! Environment variables, and which of them a server inherits.
//!
//! An `Environment` holds the variables of the gateway or of one client's session; `for_client` lays a client's
//! variables over the gateway's. A server does not get all of them: `Inheritance` is an allow-list of names and
//! patterns, by default `INHERITED`, which contains no secrets, or what `inheritEnv` lists. Some names are withheld
//! from every server: ostler's own variables, and variables with the tokens of clients. `Names` is the set of patterns
//! behind both lists.
//!
//! `Debug` shows only names, because values may be secret.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;

/// Environment variables of a client's session or of the gateway.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment {
    variables: BTreeMap<OsString, OsString>,
    /// The gateway's `PATH`, searched after the client's own.
    gateway_path: Option<OsString>,
}

/// Word in `inheritEnv` that stands for the default variables.
pub const DEFAULTS: &str = "$default";

/// Variables that a server inherits by default: those that the MCP SDKs pass on, and those needed to find the network,
/// certificates, caches and a container engine. None of them is secret.
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

/// Pattern of ostler's own variables, which hold its token or control its commands. Servers never inherit them.
pub const OWN: &str = "OSTLER_*";

/// The variables that a server inherits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inheritance {
    names: Names,
    /// Names that are never inherited, even if `names` matches them.
    withheld: Names,
}

/// A set of names of variables or tools, which may be patterns such as `AWS_*`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(BTreeSet<String>);

impl Environment {
    /// The environment of this process.
    pub fn of_process() -> Self {
        std::env::vars_os().collect()
    }

    /// Value of a variable.
    pub fn get(&self, name: impl AsRef<OsStr>) -> Option<&OsStr> {
        self.variables.get(name.as_ref()).map(OsString::as_os_str)
    }

    /// Lays a client's variables over these, which are the gateway's.
    #[must_use]
    pub fn for_client(&self, client: Self) -> Self {
        let gateway_path = self.get("PATH").map(OsStr::to_owned);
        let mut merged = self.clone();
        merged.extend(client);
        Self { gateway_path, ..merged }
    }

    /// The gateway's `PATH`, if this is a client's environment.
    pub(super) fn gateway_path(&self) -> Option<&OsStr> {
        self.gateway_path.as_deref()
    }

    /// All variables in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.variables.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    /// The variables that match `names`.
    #[must_use]
    pub fn only(&self, names: &Names) -> Self {
        self.iter().filter(|(name, _)| names.contains(name)).collect()
    }

    /// The variables that a client sends to a gateway that asks for `names`. Patterns never match ostler's own
    /// variables, which are sent only if asked for by their exact names.
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
    /// Shows only names: values may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.variables.keys()).finish()
    }
}

impl Names {
    /// Variables that a server inherits by default.
    pub fn inherited() -> Self {
        INHERITED.iter().copied().collect()
    }

    /// Whether a name or pattern of the set matches.
    pub fn contains(&self, name: impl AsRef<OsStr>) -> bool {
        let name = name.as_ref();
        self.0.iter().any(|pattern| matches(pattern.as_bytes(), name.as_bytes()))
    }

    /// Names and patterns as written.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

impl Inheritance {
    /// Builds the allow-list from `inheritEnv` (`None` for the default), without the withheld names.
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

    /// The inherited part of an environment. Exported shell functions are left out: they are code, and no MCP SDK
    /// passes them on.
    #[must_use]
    pub fn of(&self, environment: &Environment) -> Environment {
        let is_function = |value: &OsStr| value.as_bytes().starts_with(b"()");
        let all = environment.iter();
        all.filter(|(name, value)| self.contains(name) && !is_function(value)).collect()
    }

    /// Names and patterns as written.
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

/// Whether a name matches a pattern with `*` and `?`. Backtracking is limited to the last `*`, so that matching takes
/// at most quadratic time.
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
    fn a_name_matches_one_variable_and_a_glob_many() {
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
    fn a_pattern_with_many_stars_is_matched_in_time() {
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
    fn no_pattern_matches_the_variables_of_ostler() {
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
