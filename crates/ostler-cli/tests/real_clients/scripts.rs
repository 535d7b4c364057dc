//! The SDKs for TypeScript and Python, by scripts.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use ostler_testkit::{Launched, Stage};

use crate::{PLAY, Seen, Way, node, sees_the_same, tools};

const SCRIPTS: [(&str, &str); 4] = [
    ("play.mjs", include_str!("play.mjs")),
    ("typescript-v1.mjs", include_str!("typescript-v1.mjs")),
    ("typescript-v2.mjs", include_str!("typescript-v2.mjs")),
    ("python.py", include_str!("python.py")),
];

/// A client that is a script.
#[derive(Clone, Copy)]
pub(crate) enum Script {
    TypeScript(&'static str),
    Python(&'static str),
}

impl Script {
    /// The client, about to play a part.
    pub(crate) fn command(self, way: &Way<'_>, part: &str) -> Command {
        let directory = install(way.stage);
        let mut command = match self {
            Self::TypeScript(script) => {
                let mut command = way.command(node());
                command.arg(directory.join(script));
                command
            }
            Self::Python(line) => {
                let mut command = way.command(tools().join(line).join("bin/python"));
                command.args(["-W", "ignore"]).arg(directory.join("python.py"));
                command
            }
        };
        command.arg(part).arg(&way.prefix).args(&way.words);
        command
    }
}

/// The scripts beside the packages that they use.
fn install(stage: &Stage) -> std::path::PathBuf {
    let directory = stage.sandbox.file("scripts");
    if fs::create_dir(&directory).is_ok() {
        for (name, text) in SCRIPTS {
            fs::write(directory.join(name), text).unwrap();
        }
        let packages = tools().join("node/node_modules");
        assert!(Path::new(&packages).is_dir(), "run scripts/prepare first");
        symlink(packages, directory.join("node_modules")).unwrap();
    }
    directory
}

pub(crate) fn play(script: Script, way: &Way<'_>) -> Seen {
    let mut client = Launched::start(&mut script.command(way, way.server.name));
    let Ok(Some(line)) = client.line(PLAY) else {
        panic!("{:?} got no further: {}", way.words, client.stderr());
    };
    let status = client.wait_exit(PLAY);
    assert!(status.success(), "{:?}: {status}: {}", way.words, client.stderr());
    serde_json::from_slice(&line).unwrap()
}

#[test]
fn the_first_line_of_the_typescript_sdk() {
    sees_the_same(|way| play(Script::TypeScript("typescript-v1.mjs"), way));
}

#[test]
fn the_second_line_of_the_typescript_sdk() {
    sees_the_same(|way| play(Script::TypeScript("typescript-v2.mjs"), way));
}

#[test]
fn the_first_line_of_the_python_sdk() {
    sees_the_same(|way| play(Script::Python("mcp-1"), way));
}

#[test]
fn the_second_line_of_the_python_sdk() {
    sees_the_same(|way| play(Script::Python("mcp-2"), way));
}
