//! Clients of others over `ostler connect`: each sees what it sees when it starts the server itself.
//!
//! Every client plays the same part and writes down what it gets: once with the server started
//! directly, once over `ostler connect SERVER`, and once over `ostler connect`, with all servers as one.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

#[expect(dead_code, reason = "it is shared with other tests")]
#[path = "../gateway/house.rs"]
mod house;
mod inspector;
#[path = "../published/mod.rs"]
mod published;
mod remote;
mod rust;
mod scripts;
mod together;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use house::House;
use ostler_testkit::Stage;
use published::{NPX, Published, UVX, offline};
use serde_json::{Map, Value, json};

/// For all that a client does; its server may be started three times on a busy machine.
const PLAY: Duration = Duration::from_mins(2);

/// What a client has seen, by what it did.
type Seen = Map<String, Value>;

/// How a client gets to a server.
struct Way<'a> {
    stage: &'a Stage,
    server: &'static Published,
    /// What it has to start.
    words: Vec<String>,
    /// What the names of the server's tools begin with.
    prefix: String,
}

impl Way<'_> {
    fn is_direct(&self) -> bool {
        self.words[0] == self.server.start[0]
    }

    /// A program that may start what it has to.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = self.stage.command(program);
        offline(&mut command);
        command
    }
}

/// What `scripts/prepare` has installed.
fn tools() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/test-tools")
}

fn node() -> PathBuf {
    tools().join("node/node_modules/.bin/node")
}

/// A gateway to both servers; `more` is added to each.
fn house(more: &Value) -> House {
    let house = House::new(Stage::leaf());
    NPX.fetch(&house);
    UVX.fetch(&house);
    house.configure(&[NPX, UVX].map(|server| (server.name, server.entry(more))));
    house
}

fn connect(house: &House, words: &[&str]) -> Vec<String> {
    let config = house.config().display().to_string();
    let words = words.iter().map(ToString::to_string);
    [house.program(), "connect".into()]
        .into_iter()
        .chain(words)
        .chain(["--config".into(), config])
        .collect()
}

/// The client sees the same each time, and nothing is left when it has gone.
fn sees_the_same(play: impl Fn(&Way<'_>) -> Seen) {
    let house = house(&json!({}));
    for server in [&NPX, &UVX] {
        let direct = {
            // What a wrapper leaves behind without us is ended with its stage.
            let stage = Stage::leaf();
            let words = server.start.iter().map(ToString::to_string).collect();
            play(&Way { stage: &stage, server, words, prefix: String::new() })
        };
        let words = connect(&house, &[server.name]);
        let one = play(&Way { stage: &house, server, words, prefix: String::new() });
        compare(&direct, &one, "over its own name");
        let (words, prefix) = (connect(&house, &[]), format!("{}__", server.name));
        let mut all = play(&Way { stage: &house, server, words, prefix });
        // Here it is the gateway that introduces itself.
        all.insert("server".into(), direct["server"].clone());
        compare(&direct, &all, "among all servers");
    }
    house.down();
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
