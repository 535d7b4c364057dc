//! A home directory with files of clients, and ostler in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use ostler_testkit::Sandbox;

/// A file of Cursor with a secret, a comment and a remote server.
pub(crate) const CURSOR: &str = r#"{
  // my servers
  "mcpServers": {
    "files": { "command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/srv"] },
    "db": {
      "command": "uvx",
      "args": ["mcp-server-sqlite", "--api-key", "s3cret-argument"],
      "env": { "DB_PASSWORD": "s3cret-variable", "DB_USER": "${env:DB_USER}" },
      "alwaysAllow": ["query"]
    },
    "linear": { "url": "https://example.invalid/mcp" }
  }
}
"#;

/// A file of VS Code with a server that only VS Code can start, and one that Cursor has too.
pub(crate) const VSCODE: &str = r#"{
	"servers": {
		"asks": { "type": "stdio", "command": "npx", "args": ["asks"], "env": { "T": "${input:token}" } },
		"filesystem": { "type": "stdio", "command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/srv"] }
	}
}
"#;

pub(crate) struct Home {
    pub(crate) sandbox: Sandbox,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self { sandbox: Sandbox::new() }
    }

    /// One with the files of Cursor and VS Code.
    pub(crate) fn with_clients() -> Self {
        let home = Self::new();
        home.write(".cursor/mcp.json", CURSOR);
        home.write(".config/Code/User/mcp.json", VSCODE);
        home
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.sandbox.home().join(path)
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    /// A command with this home, an empty environment otherwise, and a project as its directory.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let project = self.path("project");
        fs::create_dir_all(&project).unwrap();
        let mut command = self.sandbox.command(program);
        command.current_dir(project).stdin(Stdio::null());
        for name in [
            "XDG_CONFIG_HOME",
            "OSTLER_CONFIG",
            "CODEX_HOME",
            "CLAUDE_CONFIG_DIR",
            "COPILOT_HOME",
            "OPENCLAW_STATE_DIR",
        ] {
            command.env_remove(name);
        }
        command.env("PATH", "/usr/bin:/bin").env("COLUMNS", "100");
        command
    }

    pub(crate) fn ostler(&self, words: &[&str]) -> Output {
        self.command(&ostler_testkit::binary("ostler")).args(words).output().unwrap()
    }

    /// The command line, its output and its exit code, without what differs from run to run.
    pub(crate) fn transcript(&self, words: &[&str]) -> String {
        let output = self.ostler(words);
        let (stdout, stderr) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        let stderr = stderr.lines().filter(|line| !line.contains(" is running; "));
        let stderr = stderr.fold(String::new(), |text, line| text + "! " + line + "\n");
        let text = format!(
            "$ ostler {}\n{stdout}{stderr}= {}\n",
            words.join(" "),
            output.status.code().unwrap()
        );
        self.neutral(&text)
    }

    fn neutral(&self, text: &str) -> String {
        let program = fs::canonicalize(ostler_testkit::binary("ostler")).unwrap();
        let real = |path: PathBuf| fs::canonicalize(path).unwrap().display().to_string();
        let text = text.replace(&program.display().to_string(), "/OSTLER");
        let text = text
            .replace(&real(self.sandbox.home()), "/HOME")
            .replace(&real(self.sandbox.state()), "/STATE");
        without_stamps(&text)
    }
}

/// Replaces the time in names of backups.
fn without_stamps(text: &str) -> String {
    let mut parts = text.split("/backups/");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        format!("{text}/backups/TIME{}", &part["20261118-120000".len()..])
    })
}
