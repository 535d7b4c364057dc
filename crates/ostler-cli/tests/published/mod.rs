//! Published servers behind the package runners that fetch them, cached in the build directory.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use ostler_testkit::{Launched, Stage};
use serde_json::{Value, json};

/// Bound on a download from a registry.
const FETCH: Duration = Duration::from_mins(3);

/// A published server, in exactly this version.
pub(crate) struct Published {
    pub(crate) name: &'static str,
    fetch: &'static [&'static str],
    pub(crate) start: &'static [&'static str],
    /// Process name of the server behind its wrapper.
    #[allow(dead_code, reason = "not every test looks behind the wrapper")]
    pub(crate) process: &'static str,
}

pub(crate) const NPX: Published = Published {
    name: "everything",
    fetch: &["npx", "-y", "-p", "@modelcontextprotocol/server-everything@2026.8.31", "true"],
    start: &["npx", "-y", "@modelcontextprotocol/server-everything@2026.8.31"],
    process: "node",
};

pub(crate) const UVX: Published = Published {
    name: "time",
    fetch: &["uvx", "--from", "mcp-server-time@2026.10.19", "python", "-c", ""],
    start: &["uvx", "mcp-server-time@2026.10.19"],
    process: "mcp-server-time",
};

impl Published {
    /// Downloads the package, unless it is cached.
    pub(crate) fn fetch(&self, stage: &Stage) {
        let cache = cache();
        fs::create_dir_all(&cache).unwrap();
        // Concurrent first runs of a package runner may conflict.
        let lock = File::create(cache.join(format!("{}.lock", self.name))).unwrap();
        lock.lock().unwrap();
        let done = cache.join(format!("{}.fetched", self.name));
        if fs::read_to_string(&done).is_ok_and(|words| words == self.fetch.join(" ")) {
            return;
        }
        let mut command = stage.command(self.fetch[0]);
        command.args(&self.fetch[1..]).envs(variables());
        let mut fetch = Launched::start(command.stdin(Stdio::null()));
        let status = fetch.wait_exit(FETCH);
        assert!(status.success(), "{:?} can't be fetched: {}", self.fetch, fetch.stderr());
        fs::write(done, self.fetch.join(" ")).unwrap();
    }

    /// As an entry of a configuration.
    #[allow(dead_code, reason = "not every test has a configuration")]
    pub(crate) fn entry(&self, more: &Value) -> Value {
        let mut env = json!({ "npm_config_offline": "true", "UV_OFFLINE": "1" });
        for (name, path) in variables() {
            env[name] = json!(path);
        }
        let mut entry = json!({ "command": self.start[0], "args": self.start[1..], "env": env });
        entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        entry
    }
}

/// Makes a command use the cached packages without a registry.
pub(crate) fn offline(command: &mut Command) -> &mut Command {
    command.envs(variables()).env("npm_config_offline", "true").env("UV_OFFLINE", "1")
}

fn variables() -> [(&'static str, PathBuf); 2] {
    [("npm_config_cache", cache().join("npm")), ("UV_CACHE_DIR", cache().join("uv"))]
}

fn cache() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("published")
}
