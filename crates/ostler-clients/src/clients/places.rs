//! Where the files of clients are on this machine.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::{Base, Client, ClientFile, Scope};

/// What decides where files are.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The user's home directory.
    pub home: PathBuf,
    /// The project: the working directory.
    pub project: PathBuf,
    /// The operating system.
    pub os: Os,
    /// The environment.
    pub variables: BTreeMap<OsString, OsString>,
}

/// Operating systems with different places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Os {
    /// Linux, and everything that follows the XDG specification.
    Linux,
    /// macOS.
    MacOs,
}

/// The environment names no home directory.
#[derive(Debug, thiserror::Error)]
#[error("HOME is not set to an absolute path, so no file of any client can be found")]
pub struct NoHome;

impl Machine {
    /// The machine, user and directory of this process.
    pub fn of_process(project: PathBuf) -> Result<Self, NoHome> {
        let variables: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        let home = variables.get(OsStr::new("HOME")).map(PathBuf::from);
        let home = home.filter(|home| home.is_absolute()).ok_or(NoHome)?;
        let os = if cfg!(target_os = "macos") { Os::MacOs } else { Os::Linux };
        Ok(Self { home, project, os, variables })
    }

    /// The directory that a variable names with an absolute path.
    fn directory(&self, variable: &str) -> Option<PathBuf> {
        self.variables
            .get(OsStr::new(variable))
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    }

    /// The directory for configurations.
    pub fn config(&self) -> PathBuf {
        self.directory("XDG_CONFIG_HOME").unwrap_or_else(|| self.home.join(".config"))
    }

    /// The directory for ostler's own notes and backups.
    pub fn state(&self) -> PathBuf {
        let state = self.directory("XDG_STATE_HOME");
        state.unwrap_or_else(|| self.home.join(".local/state")).join("ostler")
    }

    /// Where ostler.json is, if no place is named.
    pub fn configuration(&self) -> PathBuf {
        self.config().join("ostler/ostler.json")
    }

    fn base(&self, base: Base) -> PathBuf {
        match (base, self.os) {
            (Base::Home, _) => self.home.clone(),
            (Base::Application, Os::MacOs) => self.home.join("Library/Application Support"),
            (Base::Config | Base::Application, _) => self.config(),
            (Base::Variable(name, usual), _) => {
                self.directory(name).unwrap_or_else(|| self.home.join(usual))
            }
            (Base::Project, _) => self.project.clone(),
        }
    }

    /// Where a file of a client is, or would be.
    pub fn path(&self, file: &ClientFile) -> PathBuf {
        self.base(file.base).join(file.path)
    }

    /// Whether the client seems to be installed: it has a file or a directory of its own here, or a program on the `PATH`.
    pub fn has(&self, client: &Client) -> bool {
        let of_user = client.files.iter().filter(|file| file.scope == Scope::User);
        let has_file = of_user.clone().any(|file| {
            let (base, path) = (self.base(file.base), self.path(file));
            path.exists() || path.parent().is_some_and(|parent| parent != base && parent.is_dir())
        });
        has_file || client.programs.iter().any(|program| self.on_path(program))
    }

    fn on_path(&self, program: &str) -> bool {
        let path = self.variables.get(OsStr::new("PATH"));
        path.is_some_and(|path| {
            std::env::split_paths(path).any(|one| is_program(&one.join(program)))
        })
    }
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(os: Os, variables: &[(&str, &str)]) -> Machine {
        let variables = variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        Machine { home: "/home/u".into(), project: "/work".into(), os, variables }
    }

    fn first(machine: &Machine, client: &str) -> String {
        machine.path(&Client::named(client).unwrap().files[0]).display().to_string()
    }

    #[test]
    fn files_are_where_the_system_and_the_variables_say() {
        let linux = machine(Os::Linux, &[]);
        let mac = machine(Os::MacOs, &[]);
        let moved = machine(
            Os::Linux,
            &[("XDG_CONFIG_HOME", "/c"), ("CODEX_HOME", "/x"), ("CLAUDE_CONFIG_DIR", "/d")],
        );
        for (client, on_linux, on_mac, elsewhere) in [
            (
                "claude-desktop",
                "/home/u/.config/Claude/claude_desktop_config.json",
                "/home/u/Library/Application Support/Claude/claude_desktop_config.json",
                "/c/Claude/claude_desktop_config.json",
            ),
            ("claude-code", "/home/u/.claude.json", "/home/u/.claude.json", "/d/.claude.json"),
            ("codex", "/home/u/.codex/config.toml", "/home/u/.codex/config.toml", "/x/config.toml"),
            (
                "zed",
                "/home/u/.config/zed/settings.json",
                "/home/u/.config/zed/settings.json",
                "/c/zed/settings.json",
            ),
            (
                "cursor",
                "/home/u/.cursor/mcp.json",
                "/home/u/.cursor/mcp.json",
                "/home/u/.cursor/mcp.json",
            ),
        ] {
            assert_eq!(first(&linux, client), on_linux);
            assert_eq!(first(&mac, client), on_mac);
            assert_eq!(first(&moved, client), elsewhere);
        }
    }

    #[test]
    fn a_relative_directory_in_a_variable_does_not_count() {
        let machine = machine(Os::Linux, &[("XDG_CONFIG_HOME", "c"), ("XDG_STATE_HOME", "")]);
        assert_eq!(machine.configuration(), Path::new("/home/u/.config/ostler/ostler.json"));
        assert_eq!(machine.state(), Path::new("/home/u/.local/state/ostler"));
    }
}
