//! Installation paths of the hosts.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Host;

/// Where a host's own program is, how it is started, and its package.
#[derive(Debug)]
pub(super) struct Installed {
    /// The program and its first arguments.
    pub(super) words: Vec<String>,
    pub(super) version: String,
}

/// Node as `scripts/prepare` installs it.
pub(super) fn node() -> PathBuf {
    tools().join("node/node_modules/.bin/node")
}

impl Host {
    /// Its program and its first arguments. Panics with advice if it is not installed.
    pub fn words(self) -> Vec<String> {
        self.installed().words
    }

    /// Panics with advice if it is not installed.
    pub(super) fn installed(self) -> Installed {
        let modules = tools().join(format!("hosts/{self}/node_modules"));
        let (package, program) = self.files();
        let (package, program) = (modules.join(package), modules.join(program));
        let advice = "run scripts/prepare for Codex and Claude Code, scripts/hosts for all";
        assert!(program.is_file(), "{} is missing: {advice}", program.display());
        let program = text(&program);
        let words = if self.is_script() { vec![text(&node()), program] } else { vec![program] };
        Installed { words, version: version(&package) }
    }

    /// Paths of its package and its program among Node's modules. The program is the host itself, not the launcher that npm
    /// puts on the `PATH`, so that a signal reaches the host.
    fn files(self) -> (String, String) {
        let (node_arch, rust_arch) = match std::env::consts::ARCH {
            "aarch64" => ("arm64", "aarch64"),
            _ => ("x64", "x86_64"),
        };
        let files = match self {
            Self::Codex => {
                let vendor = format!("vendor/{rust_arch}-unknown-linux-musl");
                let program = format!("@openai/codex-linux-{node_arch}/{vendor}/bin/codex");
                ("@openai/codex", program)
            }
            Self::ClaudeCode => (
                "@anthropic-ai/claude-code",
                format!("@anthropic-ai/claude-code-linux-{node_arch}/claude"),
            ),
            Self::OpenCode => ("opencode-ai", format!("opencode-linux-{node_arch}/bin/opencode")),
            Self::Gemini => {
                ("@google/gemini-cli", "@google/gemini-cli/bundle/gemini.js".to_owned())
            }
            Self::OpenClaw => ("openclaw", "openclaw/openclaw.mjs".to_owned()),
        };
        (files.0.to_owned(), files.1)
    }

    fn is_script(self) -> bool {
        matches!(self, Self::Gemini | Self::OpenClaw)
    }
}

fn tools() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/test-tools")
}

fn version(package: &Path) -> String {
    let path = package.join("package.json");
    let text = std::fs::read_to_string(&path).expect("the package's description");
    let description: Value = serde_json::from_str(&text).expect("JSON");
    description["version"].as_str().expect("a version").to_owned()
}

fn text(path: &Path) -> String {
    path.to_str().expect("a path in UTF-8").to_owned()
}
