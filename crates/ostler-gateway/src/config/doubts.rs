//! Warnings about a valid configuration that can't work on this machine or with these variables.
//!
//! They depend on the environment, so they never make a configuration invalid: `ostler check` prints all of them, and
//! `ostler serve` prints those about tokens.

use std::collections::HashSet;
use std::error::Error;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use ostler::ServerSpec;
use ostler::mask::masked_line;

use super::entry::File;
use crate::environment::{Environment, Names};

/// Reasons why a server would not start here: its program or working directory is missing.
pub(super) fn of_spec(spec: &ServerSpec) -> Vec<String> {
    let cwd = spec.cwd.as_deref().filter(|cwd| !cwd.is_dir());
    let cwd = cwd.map(|cwd| format!("its working directory {} does not exist", cwd.display()));
    cwd.into_iter().chain(of_program(spec)).collect()
}

fn of_program(spec: &ServerSpec) -> Option<String> {
    let program = masked_line(&spec.program.to_string_lossy());
    match spec.find_program() {
        Some(found) if is_executable(&found) => None,
        Some(found) => Some(format!("{} is not executable", found.display())),
        None if program.contains('/') => Some(format!("there is no program at {program}")),
        None => {
            let path = spec.env.iter().find(|(name, _)| name == "PATH");
            let path = path.map_or(OsStr::new("none is set"), |(_, path)| path.as_os_str());
            Some(format!("the program '{program}' is not on the PATH: {}", path.display()))
        }
    }
}

fn is_executable(program: &Path) -> bool {
    let found = std::fs::metadata(program);
    found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Warnings about the tokens of a file, for a gateway with this environment.
pub fn token_warnings(file: &File, environment: &Environment) -> Vec<String> {
    let mut seen = HashSet::new();
    let mut warnings = Vec::new();
    for entry in &file.tokens {
        let name = &entry.name;
        match entry.secret(environment) {
            Err(unusable) => {
                let reason = match unusable.source() {
                    Some(source) => format!("{unusable}: {source}"),
                    None => unusable.to_string(),
                };
                warnings.push(format!("tokens.{name}: {reason}"));
            }
            Ok(secret) if !seen.insert(secret.clone()) => {
                warnings.push(format!("tokens.{name}: another token is the same"));
            }
            Ok(_) => {}
        }
        let servers = entry.servers.iter().flat_map(Names::iter);
        let unknown = servers.filter(|server| !is_known(file, server));
        warnings.extend(
            unknown.map(|server| format!("tokens.{name}.servers: no server is called '{server}'")),
        );
    }
    warnings
}

/// Whether a server has this name or matches this pattern.
fn is_known(file: &File, pattern: &str) -> bool {
    if !pattern.contains('*') {
        return file.servers.contains_key(pattern);
    }
    let pattern: Names = [pattern].into_iter().collect();
    file.servers.keys().any(|name| pattern.contains(name))
}
