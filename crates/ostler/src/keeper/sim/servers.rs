//! Random configurations.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use super::behaviour::{below, one_of, pick};
use crate::frame::Frame;
use crate::keeper::dice::Dice;
use crate::keeper::phase::EXIT_LAG;
use crate::keeper::{
    BackoffLimits, Caps, Config, Greeting, Handshake, Server, ServerLimits, Sharing, Talk,
};
use crate::spec::ServerSpec;

/// Queue timeout.
pub(super) const QUEUE: Duration = Duration::from_millis(150);
/// Start limit.
const START: Duration = Duration::from_millis(120);
/// Longest time of an acquire: the queue timeout, a start that was under way when it passed, and the exit and the last
/// output that explain a failed start.
pub(super) const ACQUIRE: Duration =
    QUEUE.saturating_add(START).saturating_add(EXIT_LAG).saturating_add(LAST_OUTPUT);
/// How long the keeper reads the output of a server after its exit.
pub(super) const LAST_OUTPUT: Duration = Duration::from_millis(15);
/// Call limit.
pub(super) const CALL: Duration = Duration::from_millis(80);
/// Equal for all servers, so that the rules need not track it.
pub(super) const BACKOFF: BackoffLimits = BackoffLimits {
    first: Duration::from_millis(20),
    most: Duration::from_millis(100),
    sustained: Duration::from_millis(120),
};
/// Idle limit.
const IDLE: Duration = Duration::from_millis(90);

/// Names of the servers.
pub(super) const NAMES: [&str; 5] = ["all", "agent", "session", "call", "other"];

/// Sends one request and expects a response without error.
#[derive(Debug)]
struct Hello;

impl Handshake for Hello {
    fn greet<'a>(&'a self, server: &'a Talk) -> Greeting<'a> {
        Box::pin(async move {
            let answer = server.call(&request("hello"), Duration::from_hours(1)).await;
            let answer = answer.map_err(|error| error.to_string())?;
            let is_error = answer.bytes().windows(7).any(|word| word == b"\"error\"");
            if is_error { Err("refused".into()) } else { Ok(()) }
        })
    }
}

pub(super) fn request(method: &str) -> Frame {
    Frame::parse(format!(r#"{{"jsonrpc":"2.0","id":"a","method":"{method}"}}"#)).unwrap()
}

/// A server with this sharing policy; another `version` is another configuration.
pub(super) fn server(name: &str, sharing: Sharing, version: usize) -> Server {
    let spec = ServerSpec {
        name: name.into(),
        program: "server".into(),
        args: vec![version.to_string().into()],
        env: Vec::new(),
        cwd: None,
    };
    let limits = ServerLimits {
        idle: Some(IDLE),
        start: START,
        call: CALL,
        drain: Duration::from_millis(30),
        write: Duration::from_millis(40),
        last_output: LAST_OUTPUT,
        backoff: BACKOFF,
        line: 256,
        backlog: 4096,
        stderr: 64,
    };
    Server { sharing, limits, handshake: Arc::new(Hello), ..Server::new(spec) }
}

pub(super) fn caps() -> Caps {
    Caps { instances: 8, containers: 3, starting: 4, queue: 8, queue_timeout: QUEUE }
}

/// A random configuration.
pub(super) fn draw(dice: &mut Dice) -> Config {
    let mut config = Config { caps: draw_caps(dice), ..Config::default() };
    for name in NAMES {
        let drawn = draw_server(name, dice);
        config.servers.insert(name.into(), drawn);
    }
    config
}

/// A random variation of a configuration, possibly without a difference.
pub(super) fn redraw(config: &Config, dice: &mut Dice) -> Config {
    let mut next = config.clone();
    let name = *pick(dice, &NAMES);
    match below(dice, 7) {
        0 => {}
        1 => {
            next.servers.remove(name);
        }
        2 => {
            let drawn = draw_server(name, dice);
            next.servers.insert(name.into(), drawn);
        }
        3 => next.caps = draw_caps(dice),
        4 => {
            for server in next.servers.values_mut() {
                server.limits.idle = one_of(dice, 2).then_some(IDLE * 2);
            }
        }
        5 => {
            for server in next.servers.values_mut() {
                if one_of(dice, 2) {
                    let version = below(dice, 3).to_string();
                    server.spec_mut().unwrap().args = vec![version.into()];
                }
            }
        }
        _ => return draw(dice),
    }
    next
}

fn draw_caps(dice: &mut Dice) -> Caps {
    Caps {
        instances: 1 + below(dice, 6),
        containers: 1 + below(dice, 3),
        starting: 1 + below(dice, 3),
        queue: 1 + below(dice, 6),
        queue_timeout: QUEUE,
    }
}

fn draw_server(name: &str, dice: &mut Dice) -> Server {
    let sharing = match name {
        "all" => Sharing::All,
        "agent" => Sharing::Agent,
        "session" => Sharing::Session,
        "call" => Sharing::Call,
        _ => *pick(dice, &[Sharing::All, Sharing::Agent, Sharing::Session]),
    };
    let mut server = server(name, sharing, below(dice, 2));
    let few = |dice: &mut Dice| NonZeroUsize::MIN.saturating_add(below(dice, 2));
    server.max_instances = few(dice).saturating_add(1);
    server.max_concurrency = one_of(dice, 2).then(|| few(dice));
    server.cap = one_of(dice, 4).then(|| few(dice));
    server.containers = if one_of(dice, 4) { 1 + below(dice, 2) } else { 0 };
    if one_of(dice, 5) {
        server.limits.idle = None;
    }
    server
}
