//! Ambient variables: inherited variables that differ between terminals and do not identify a server.
//!
//! Sessions whose servers differ only in ambient variables share instances; an instance gets the values of the client
//! that caused its start. `PATH` counts only by the program file that the command resolves to.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ostler::ServerSpec;
use ostler::keeper::Ambient;

use crate::environment::{Environment, Names};

/// Ambient variables, unless the configuration sets them for the server.
const AMBIENT: &[&str] = &["LANG", "LANGUAGE", "LC_*", "PATH", "SHELL", "TERM", "TMPDIR", "TZ"];

/// Prefixes of directories that a client creates for one run: Codex adds one to its `PATH` each time.
const PER_RUN: &[&str] = &["codex-arg0"];

/// Removes per-run directories from the client's `PATH`, and returns which variables of a server are ambient. `named`
/// are the variables that the configuration sets.
pub(super) fn settle(spec: &mut ServerSpec, named: &Environment, client: &Environment) -> Ambient {
    let patterns: Names = AMBIENT.iter().copied().collect();
    let is_ambient = |name: &OsStr| patterns.contains(name) && named.get(name).is_none();
    let all = spec.env.iter().map(|(name, _)| name);
    let inherited = all.filter(|name| is_ambient(name)).cloned().collect();
    let mut ambient = Ambient { names: inherited, ..Ambient::default() };
    let is_looked_up = !spec.program.as_encoded_bytes().contains(&b'/');
    if ambient.names.contains(OsStr::new("PATH")) {
        let own = lasting_part(path_of(spec));
        set_path(spec, &own);
        if is_looked_up {
            ambient.searched = look_up(spec, &own, client.gateway_path());
            ambient.program =
                spec.find_program().map(|found| found.canonicalize().unwrap_or(found));
        }
    }
    ambient
}

/// Adds the gateway's `PATH` if the client's has no such command. Returns where the search failed.
fn look_up(spec: &mut ServerSpec, own: &OsStr, gateway: Option<&OsStr>) -> Option<String> {
    let other = gateway.filter(|other| *other != own);
    if spec.find_program().is_some() {
        return None;
    }
    let Some(other) = other else {
        return Some(format!("not on the PATH {}", own.display()));
    };
    let joined = [own, other].join(OsStr::new(":"));
    set_path(spec, &joined);
    if spec.find_program().is_some() {
        return None;
    }
    let (mine, theirs) = (other.display(), own.display());
    Some(format!("neither on the client's PATH ({theirs}) nor on the gateway's ({mine})"))
}

fn path_of(spec: &ServerSpec) -> &OsStr {
    let path = spec.env.iter().find(|(name, _)| name == "PATH");
    path.map_or(OsStr::new(""), |(_, path)| path.as_os_str())
}

fn set_path(spec: &mut ServerSpec, path: &OsStr) {
    for (name, value) in &mut spec.env {
        if name == "PATH" {
            path.clone_into(value);
        }
    }
}

/// Removes per-run directories from a `PATH`.
fn lasting_part(path: &OsStr) -> OsString {
    let is_per_run = |directory: &[u8]| {
        let directory = Path::new(OsStr::from_bytes(directory));
        directory.components().any(|part| {
            let part = part.as_os_str().as_bytes();
            PER_RUN.iter().any(|name| part.starts_with(name.as_bytes()))
        })
    };
    let parts = path.as_bytes().split(|byte| *byte == b':').filter(|part| !is_per_run(part));
    OsString::from(OsStr::from_bytes(&parts.collect::<Vec<_>>().join(&b':')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_one_run_are_left_out() {
        for (path, lasting) in [
            ("/home/me/.codex/tmp/path/codex-arg0Ab3x9Z:/usr/bin:/bin", "/usr/bin:/bin"),
            ("/usr/bin:/tmp/codex-arg01/x:/bin", "/usr/bin:/bin"),
            ("/usr/bin::/bin", "/usr/bin::/bin"),
            ("", ""),
        ] {
            assert_eq!(lasting_part(OsStr::new(path)), lasting, "{path}");
        }
    }
}
