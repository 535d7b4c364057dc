//! The path of ostler that is written into files of clients: it must last.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::clients::Machine;

/// Why no path can be written.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotLasting {
    /// It runs from a cache of a package runner.
    #[error(
        "this ostler runs from a cache of {runner}, which may be emptied at any time; install it with `{install}`, then link again"
    )]
    Cache {
        /// The package runner.
        runner: &'static str,
        /// How to install it.
        install: &'static str,
    },
    /// The file is gone.
    #[error("the program file of this ostler is gone; start the installed one")]
    Gone,
}

/// Parts of paths of caches, each with its package runner and the command that installs.
const CACHES: &[(&str, &str, &str)] = &[
    ("/_npx/", "npx", "npm install --global ostler-mcp"),
    ("/dlx/", "pnpm dlx", "pnpm add --global ostler-mcp"),
    ("/dlx-", "pnpm dlx", "pnpm add --global ostler-mcp"),
    ("/bunx-", "bunx", "bun add --global ostler-mcp"),
    ("/uv/archive-v", "uvx", "uv tool install ostler-mcp"),
    ("/uv/environments-v", "uvx", "uv tool install ostler-mcp"),
];

/// The lasting path of a running program: the one on the `PATH` if it is the same, because package managers keep it
/// when they replace the file behind it.
pub fn lasting(machine: &Machine, running: &Path) -> Result<PathBuf, NotLasting> {
    let text = running.to_string_lossy();
    if let Some((_, runner, install)) = CACHES.iter().find(|(part, ..)| text.contains(part)) {
        return Err(NotLasting::Cache { runner, install });
    }
    if !running.is_file() {
        return Err(NotLasting::Gone);
    }
    let path = machine.variables.get(OsStr::new("PATH"));
    let directories = path.into_iter().flat_map(std::env::split_paths);
    let name = running.file_name().unwrap_or_default();
    let mut candidates = directories.filter(|it| it.is_absolute()).map(|it| it.join(name));
    let is_same = |path: &PathBuf| std::fs::canonicalize(path).is_ok_and(|real| real == running);
    Ok(candidates.find(is_same).unwrap_or_else(|| running.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_refused_with_the_command_to_install() {
        let machine = Machine {
            home: "/home/u".into(),
            project: "/".into(),
            os: crate::Os::Linux,
            variables: std::collections::BTreeMap::new(),
        };
        for (path, install) in [
            (
                "/home/u/.npm/_npx/0123/node_modules/ostler-mcp-linux-x64/bin/ostler",
                "npm install --global",
            ),
            ("/home/u/.cache/uv/archive-v0/abc/bin/ostler", "uv tool install"),
            ("/home/u/.cache/pnpm/dlx/abc/node_modules/.bin/ostler", "pnpm add --global"),
        ] {
            let error = lasting(&machine, Path::new(path)).unwrap_err().to_string();
            assert!(error.contains(install), "{error}");
        }
        assert_eq!(lasting(&machine, Path::new("/nowhere/ostler")), Err(NotLasting::Gone));
        let own = std::env::current_exe().unwrap();
        assert_eq!(lasting(&machine, &own), Ok(own.clone()));
    }

    #[test]
    fn the_name_on_the_path_is_preferred() {
        let directory = tempfile::tempdir().unwrap();
        let real = directory.path().join("ostler-1.2");
        std::fs::write(&real, "").unwrap();
        let real = std::fs::canonicalize(&real).unwrap();
        let bin = directory.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        std::os::unix::fs::symlink(&real, bin.join("ostler-1.2")).unwrap();
        let variables = [("PATH".into(), bin.clone().into())].into();
        let machine =
            Machine { home: "/".into(), project: "/".into(), os: crate::Os::Linux, variables };
        assert_eq!(lasting(&machine, &real), Ok(bin.join("ostler-1.2")));
    }
}
