//! Recognises entries that start ostler itself.

use std::path::Path;

/// Names of the program.
const PROGRAMS: &[&str] = &["ostler", "ostler-mcp"];

/// Programs that run a package.
const RUNNERS: &[&str] = &["npx", "bunx", "pnpx", "uvx"];

/// Address at which the gateway serves HTTP, without the host.
const GATEWAY: &str = ":8639/";

/// An entry that starts ostler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Own {
    /// `ostler connect`: all servers, or one.
    Connect(Option<String>),
    /// `ostler run [OPTIONS] -- COMMAND...`.
    Wrap {
        /// What is before `--`.
        options: Vec<String>,
        /// What is after it.
        command: Vec<String>,
    },
    /// The address of the gateway.
    Gateway,
    /// Another command of ostler.
    Other,
}

impl Own {
    /// Recognises a command line.
    pub fn of_command(words: &[String]) -> Option<Self> {
        let arguments = arguments(words)?;
        let (first, rest) = arguments.split_first()?;
        Some(match first.as_str() {
            "connect" => Self::Connect(positional(rest)),
            "run" => match rest.iter().position(|word| word == "--") {
                Some(at) => {
                    Self::Wrap { options: rest[..at].to_vec(), command: rest[at + 1..].to_vec() }
                }
                None => Self::Other,
            },
            _ => Self::Other,
        })
    }

    /// Recognises the address of a gateway on this machine.
    pub fn of_url(url: &str) -> Option<Self> {
        let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"))?;
        let is_local = ["127.0.0.1", "localhost", "[::1]"].iter().any(|host| {
            rest.strip_prefix(host).is_some_and(|rest| format!("{rest}/").starts_with(GATEWAY))
        });
        is_local.then_some(Self::Gateway)
    }
}

/// The arguments of ostler, also behind a package runner.
fn arguments(words: &[String]) -> Option<&[String]> {
    let is = |word: &String, names: &[&str]| {
        let name = Path::new(word).file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| names.contains(&name))
    };
    let (program, rest) = words.split_first()?;
    if is(program, PROGRAMS) {
        return Some(rest);
    }
    if !is(program, RUNNERS) {
        return None;
    }
    let package = |word: &String| {
        let name = word.split(['@', '=']).next().unwrap_or(word);
        PROGRAMS.contains(&name)
    };
    let at = rest.iter().position(|word| !word.starts_with('-'))?;
    package(&rest[at]).then(|| &rest[at + 1..])
}

/// The server that `connect` names.
fn positional(words: &[String]) -> Option<String> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if ["--config", "--agent", "--socket"].contains(&word.as_str()) {
            words.next();
        } else if word == "--" {
            return words.next().cloned();
        } else if !word.starts_with('-') {
            return Some(word.clone());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(line: &str) -> Option<Own> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        Own::of_command(&words)
    }

    #[test]
    fn own_entries_are_recognised() {
        assert_eq!(own("ostler connect"), Some(Own::Connect(None)));
        let one = Some(Own::Connect(Some("github".to_owned())));
        assert_eq!(own("/opt/bin/ostler connect --config /a/b github"), one);
        assert_eq!(own("/opt/bin/ostler connect github --config /a/b"), one);
        assert_eq!(own("npx -y ostler-mcp@1.2 connect github"), one);
        assert_eq!(
            own("ostler connect --config /a -- -x"),
            Some(Own::Connect(Some("-x".to_owned())))
        );
        let words = |line: &str| line.split(' ').map(str::to_owned).collect();
        let wrapped = Own::Wrap { options: words("--grace 2s"), command: words("npx x") };
        assert_eq!(own("ostler run --grace 2s -- npx x"), Some(wrapped));
        assert_eq!(own("ostler serve"), Some(Own::Other));
        for other in ["npx ostler-like", "hostler connect", "docker run ostler", "npx -y"] {
            assert_eq!(own(other), None, "{other}");
        }
    }

    #[test]
    fn the_gateway_is_recognised_on_this_machine_only() {
        for url in ["http://127.0.0.1:8639/mcp", "http://localhost:8639", "http://[::1]:8639/mcp/x"]
        {
            assert_eq!(Own::of_url(url), Some(Own::Gateway), "{url}");
        }
        for url in ["http://127.0.0.1:86390/mcp", "https://example.invalid:8639/mcp", "stdio"] {
            assert_eq!(Own::of_url(url), None, "{url}");
        }
    }
}
