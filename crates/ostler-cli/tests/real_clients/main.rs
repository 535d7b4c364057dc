//! Third-party clients: each gets the same through a gateway as from a server that it starts itself.
//!
//! Every client plays the same part and writes down what it gets: once with the server started
//! directly, once through the gateway by the server's name, and once with all servers as one. It gets to the gateway
//! by `ostler connect`, or on HTTP.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

mod alone;
mod cut;
mod inspector;
mod killed;
#[path = "../published/mod.rs"]
mod published;
mod reach;
mod remote;
mod rust;
mod scripts;
#[expect(dead_code, reason = "it is shared with other tests")]
#[path = "../gateway/test_gateway.rs"]
mod test_gateway;
mod together;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use ostler_testkit::Stage;
use published::{NPX, Published, UVX, offline};
use reach::{Gateway, Reach, Transport};
use serde_json::{Map, Value, json};

/// Bound on the work of a client; its server may be started three times on a busy machine.
const PLAY: Duration = Duration::from_mins(2);

/// Results of a client, by operation.
type Seen = Map<String, Value>;

/// Path of a client to a server.
struct Way<'a> {
    stage: &'a Stage,
    server: &'static Published,
    reach: Reach,
    /// Prefix of the server's tool names.
    prefix: String,
}

impl Way<'_> {
    /// A command with the environment that package runners need.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = self.stage.command(program);
        offline(&mut command);
        command
    }
}

/// Directory of the tools that `scripts/prepare` has installed.
fn tools() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/test-tools")
}

fn node() -> PathBuf {
    tools().join("node/node_modules/.bin/node")
}

/// The client sees the same each time, and nothing is left when it has gone.
fn sees_the_same(transport: Transport, play: impl Fn(&Way<'_>) -> Seen) {
    // Not every client ends its session.
    let gateway = Gateway::open_with(transport, &json!({}), &json!({ "detachTimeout": "3s" }));
    for server in [&NPX, &UVX] {
        let direct = {
            // Processes that a wrapper leaves behind without ostler end with their stage.
            let stage = Stage::leaf();
            let reach = Reach::itself(server);
            play(&Way { stage: &stage, server, reach, prefix: String::new() })
        };
        let one = play(&gateway.way(server));
        compare(&direct, &one, "over its own name");
        gateway.test_gateway.expect_no_server();
        let mut all = play(&gateway.way_among_all(server));
        // Here it is the gateway that introduces itself.
        all.insert("server".into(), direct["server"].clone());
        compare(&direct, &all, "among all servers");
        gateway.test_gateway.expect_no_server();
    }
    gateway.down();
}

fn compare(direct: &Seen, seen: &Seen, how: &str) {
    assert_eq!(direct.keys().collect::<Vec<_>>(), seen.keys().collect::<Vec<_>>(), "{how}");
    for (what, expected) in direct {
        let (expected, found) = (timeless(expected), timeless(&seen[what]));
        assert_eq!(expected, found, "{what}, {how}");
    }
}

/// As text, without the time of day that the server puts into a resource.
fn timeless(value: &Value) -> String {
    const BEFORE: &str = "created at ";
    let text = value.to_string();
    let mut parts = text.split(BEFORE);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, rest| text + BEFORE + rest.split_once('M').map_or(rest, |r| r.1))
}
