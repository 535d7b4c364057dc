//! The SDKs for TypeScript and Python, by scripts.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use ostler_testkit::{Launched, Stage};

use crate::{PLAY, Reach, Seen, Transport, Way, node, sees_the_same, tools};

pub(crate) const TYPESCRIPT_1: Script = Script::TypeScript("typescript-v1.mjs");
const TYPESCRIPT_2: Script = Script::TypeScript("typescript-v2.mjs");
const PYTHON_1: Script = Script::Python("mcp-1");
pub(crate) const PYTHON_2: Script = Script::Python("mcp-2");

/// All clients that are scripts.
pub(crate) const SCRIPTED: [Script; 4] = [TYPESCRIPT_1, TYPESCRIPT_2, PYTHON_1, PYTHON_2];

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
    /// Command of the client for one part of the test.
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
        command.arg(part).arg(&way.prefix);
        match &way.reach {
            Reach::Itself(words) | Reach::Connect(words) => command.args(words),
            Reach::Http { url, token } => command.arg(url).env("TOKEN", token),
        };
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

/// One client of each kind, all of which have used a server and hold on to it.
pub(crate) fn meet(way: &Way<'_>) -> [Launched; SCRIPTED.len()] {
    let mut clients = SCRIPTED.map(|script| Launched::start(&mut script.command(way, "meet")));
    let met = clients.each_mut().map(|client| client.message(PLAY)["echo"]["content"].take());
    assert!(met.iter().all(|one| one == &met[0] && one.is_array()), "{met:?}");
    clients
}

pub(crate) fn play(script: Script, way: &Way<'_>) -> Seen {
    let mut client = Launched::start(&mut script.command(way, way.server.name));
    let Ok(Some(line)) = client.line(PLAY) else {
        panic!("{:?} got no further: {}", way.reach, client.stderr());
    };
    let status = client.wait_exit(PLAY);
    assert!(status.success(), "{:?}: {status}: {}", way.reach, client.stderr());
    serde_json::from_slice(&line).unwrap()
}

fn plays_over(script: Script, transport: Transport) {
    sees_the_same(transport, |way| play(script, way));
}

#[test]
fn the_first_line_of_the_typescript_sdk() {
    plays_over(TYPESCRIPT_1, Transport::Stdio);
}

#[test]
fn the_first_line_of_the_typescript_sdk_on_http() {
    plays_over(TYPESCRIPT_1, Transport::StreamableHttp);
}

#[test]
fn the_first_line_of_the_typescript_sdk_on_http_in_the_old_way() {
    plays_over(TYPESCRIPT_1, Transport::Sse);
}

#[test]
fn the_second_line_of_the_typescript_sdk() {
    plays_over(TYPESCRIPT_2, Transport::Stdio);
}

#[test]
fn the_second_line_of_the_typescript_sdk_on_http() {
    plays_over(TYPESCRIPT_2, Transport::StreamableHttp);
}

#[test]
fn the_first_line_of_the_python_sdk() {
    plays_over(PYTHON_1, Transport::Stdio);
}

#[test]
fn the_first_line_of_the_python_sdk_on_http() {
    plays_over(PYTHON_1, Transport::StreamableHttp);
}

#[test]
fn the_first_line_of_the_python_sdk_on_http_in_the_old_way() {
    plays_over(PYTHON_1, Transport::Sse);
}

#[test]
fn the_second_line_of_the_python_sdk() {
    plays_over(PYTHON_2, Transport::Stdio);
}

#[test]
fn the_second_line_of_the_python_sdk_on_http() {
    plays_over(PYTHON_2, Transport::StreamableHttp);
}
