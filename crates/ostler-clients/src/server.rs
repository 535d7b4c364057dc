//! A server, independent of the client that it was read from, in the words of ostler.json.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::value::Value;

/// Word in `inheritEnv` that stands for the variables that every server inherits.
pub(crate) const DEFAULTS: &str = "$default";

/// A server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// What is started or reached.
    pub target: Target,
    /// Whether its client uses it.
    pub is_enabled: bool,
    /// The only tools that its client uses, if it says so.
    pub allow: Option<Vec<String>>,
    /// Tools that its client does not use.
    pub deny: Vec<String>,
}

/// What is started or reached. Texts hold ostler's variables: `${NAME}`.
#[derive(Clone, PartialEq, Eq)]
pub enum Target {
    /// A program.
    Process {
        /// Program and arguments.
        command: Vec<String>,
        /// Variables.
        env: BTreeMap<String, String>,
        /// A file with variables.
        env_file: Option<String>,
        /// Working directory.
        cwd: Option<String>,
        /// Names of variables that it inherits beside the usual ones.
        inherit: BTreeSet<String>,
    },
    /// A remote server.
    Remote {
        /// Its address.
        url: String,
        /// Headers of every request.
        headers: BTreeMap<String, String>,
    },
}

/// Hash of everything that decides what a server is: equal servers are one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fingerprint([u8; 32]);

impl Server {
    /// A program with its arguments.
    pub fn process(command: Vec<String>, env: BTreeMap<String, String>) -> Self {
        let (env_file, cwd, inherit) = (None, None, BTreeSet::new());
        Self::new(Target::Process { command, env, env_file, cwd, inherit })
    }

    /// A remote server.
    pub fn remote(url: String, headers: BTreeMap<String, String>) -> Self {
        Self::new(Target::Remote { url, headers })
    }

    pub(crate) fn new(target: Target) -> Self {
        Self { target, is_enabled: true, allow: None, deny: Vec::new() }
    }

    /// Its fingerprint. Whether a client uses it, and which tools, does not matter.
    pub fn fingerprint(&self) -> Fingerprint {
        let bare = Self::new(self.target.clone()).entry();
        Fingerprint(Sha256::digest(crate::format::json_line(&bare)).into())
    }

    /// The words that are shown for it, which may hold secrets.
    pub fn words(&self) -> Vec<String> {
        match &self.target {
            Target::Process { command, .. } => command.clone(),
            Target::Remote { url, .. } => vec![url.clone()],
        }
    }

    /// Its entry in ostler.json.
    pub fn entry(&self) -> Value {
        let mut members = match &self.target {
            Target::Process { command, env, env_file, cwd, inherit } => {
                let (program, args) = command.split_first().map_or(("", &[][..]), |(p, a)| (p, a));
                let names = || std::iter::once(DEFAULTS).chain(inherit.iter().map(String::as_str));
                let text = |text: &Option<String>| text.as_deref().map(Value::from);
                vec![
                    ("command", Some(Value::from(program))),
                    ("args", (!args.is_empty()).then(|| Value::strings(args.iter().cloned()))),
                    ("env", (!env.is_empty()).then(|| Value::from(env))),
                    ("envFile", text(env_file)),
                    ("cwd", text(cwd)),
                    ("inheritEnv", (!inherit.is_empty()).then(|| Value::strings(names()))),
                ]
            }
            Target::Remote { url, headers } => vec![
                ("url", Some(Value::from(url.as_str()))),
                ("headers", (!headers.is_empty()).then(|| Value::from(headers))),
            ],
        };
        members.push(("enabled", (!self.is_enabled).then_some(Value::Bool(false))));
        members.push(("tools", self.tools()));
        Value::object(members.into_iter().filter_map(|(key, value)| Some((key, value?))))
    }

    fn tools(&self) -> Option<Value> {
        let list = |names: &Vec<String>| Value::strings(names.iter().cloned());
        let allow = self.allow.as_ref().map(|names| ("allow", list(names)));
        let deny = (!self.deny.is_empty()).then(|| ("deny", list(&self.deny)));
        let both: Vec<_> = allow.into_iter().chain(deny).collect();
        (!both.is_empty()).then(|| Value::object(both))
    }

    /// The same server for clients that decide by themselves whether they use it, and which tools.
    #[must_use]
    pub fn unfiltered(&self) -> Self {
        Self::new(self.target.clone())
    }
}

impl fmt::Debug for Target {
    /// Shows only what kind it is: values may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Process { .. } => "Process(…)",
            Self::Remote { .. } => "Remote(…)",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_and_switches_do_not_make_it_another_server() {
        let one = Server::process(vec!["a".into(), "b".into()], BTreeMap::new());
        let mut two = one.clone();
        two.is_enabled = false;
        two.deny.push("x".into());
        assert_eq!(one.fingerprint(), two.fingerprint());
        let other = Server::process(vec!["a b".into()], BTreeMap::new());
        assert_ne!(one.fingerprint(), other.fingerprint());
        let env = BTreeMap::from([("TOKEN".to_owned(), "s3cret".to_owned())]);
        let other = Server::process(vec!["a".into(), "b".into()], env);
        assert_ne!(one.fingerprint(), other.fingerprint());
        assert!(!format!("{other:?}").contains("s3cret"));
    }
}
