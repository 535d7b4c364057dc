//! Versions of the programs that servers are started with.

use std::io::Read;
use std::process::{Command, Stdio};
use std::thread::{self, Builder};
use std::time::{Duration, Instant};

use serde::Serialize;

/// Timeout for a program to print its version. npx is the slowest and takes about a second.
const LIMIT: Duration = Duration::from_secs(5);
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// A program on the `PATH` and its version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) version: Option<String>,
    /// Why the version is unknown.
    pub(crate) error: Option<String>,
}

/// Queries the versions of all programs in parallel.
pub(crate) fn tools(names: &[&'static str]) -> Vec<Tool> {
    thread::scope(|scope| {
        let ask = |name: &'static str| {
            let asked =
                Builder::new().name(name.to_owned()).spawn_scoped(scope, move || version(name));
            (name, asked)
        };
        let asked: Vec<_> = names.iter().map(|name| ask(name)).collect();
        let answer =
            |(name, asked): (&'static str, std::io::Result<thread::ScopedJoinHandle<_>>)| {
                let answer = match asked {
                    Ok(thread) => {
                        thread.join().unwrap_or_else(|_| Err("it can't be asked".to_owned()))
                    }
                    Err(error) => Err(error.to_string()),
                };
                let (version, error) = (answer.as_ref().ok().cloned(), answer.err());
                Tool { name, version, error }
            };
        asked.into_iter().map(answer).collect()
    })
}

fn version(name: &str) -> Result<String, String> {
    let mut command = Command::new(name);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "not found".to_owned(),
        _ => error.to_string(),
    })?;
    let deadline = Instant::now() + LIMIT;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline => thread::sleep(BETWEEN_LOOKS),
            Ok(None) | Err(_) => {
                // Kills a stopped process as well, and reaps it.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("no answer within {LIMIT:?}"));
            }
        }
    };
    let mut text = String::new();
    let mut output = child.stdout.take().ok_or("it prints nothing")?.take(4096);
    output.read_to_string(&mut text).map_err(|error| error.to_string())?;
    let line = text.lines().next().unwrap_or_default();
    if status.success() { Ok(number_in(line)) } else { Err(format!("it ends with {status}")) }
}

/// Extracts `28.0.1` from `Docker version 28.0.1, build 068a01e`.
fn number_in(line: &str) -> String {
    let is_number =
        |word: &&str| word.trim_start_matches('v').starts_with(|c: char| c.is_ascii_digit());
    let word = line.split_whitespace().find(is_number).unwrap_or(line);
    word.trim_end_matches(',').trim_start_matches('v').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_from_a_line_of_text() {
        for (line, version) in [
            ("Docker version 28.0.1, build 068a01e", "28.0.1"),
            ("v22.11.0", "22.11.0"),
            ("podman version 5.4.2", "5.4.2"),
            ("uv 0.5.4 (c62c83c37 2024-11-20)", "0.5.4"),
            ("10.9.0", "10.9.0"),
            ("unknown", "unknown"),
        ] {
            assert_eq!(number_in(line), version);
        }
    }

    #[test]
    fn a_missing_program_is_reported_as_missing() {
        let expected =
            Tool { name: "ostler-no-such-tool", version: None, error: Some("not found".into()) };
        assert_eq!(tools(&["ostler-no-such-tool"]), [expected]);
    }
}
