//! Fairness between two tokens: one takes as much as it can, and the other is still served.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use ostler::keeper::Sharing;
use ostler_gateway::front::http::{Credential, Settings};
use ostler_testkit::wait_until;
use ostler_testkit::web::{Reply, Web, hello, request};
use serde_json::json;

use crate::stage::{PATIENCE, Stage};

const OTHER: &str = "token-of-the-other";
/// Bound on an immediate response; every time limit of the front is longer.
const PROMPT: Duration = Duration::from_secs(5);
/// Size limit of a body.
const LARGEST: usize = 16 << 20;

/// A gateway with a second token.
fn stage(change: impl Fn(&mut Settings)) -> Stage {
    Stage::with(&["puppet"], Sharing::All, |settings| {
        settings.credentials.push(Credential::named("other", OTHER.into()));
        change(settings);
    })
}

/// The same client with the second token.
fn other(web: &Web) -> Web {
    Web::new(web.address, &web.path, OTHER)
}

fn ping(web: &Web) -> u16 {
    web.send("POST", &request(&json!(1), "ping", &json!({}))).status
}

#[test]
fn a_token_that_opens_many_sessions_ends_its_own() {
    const MOST: usize = 32;
    let stage = stage(|settings| settings.limits.sessions = MOST);
    let (web, _server) = stage.both();
    let friends: Vec<Web> = (0..3).map(|_| stage.web().enter()).collect();
    let hostile = other(&stage.web());
    let first = hostile.enter();
    for _ in 0..4 * MOST {
        assert!(!hostile.enter().session().is_empty());
    }
    for friend in friends.iter().chain([&web]) {
        assert_eq!(ping(friend), 200, "its session is still there");
    }
    assert_eq!(ping(&first), 404, "the oldest of those that were too many has ended");
    // The hostile token loses sessions until both have the same number.
    let more: Vec<Web> = (0..MOST / 2 - 4).map(|_| stage.web().enter()).collect();
    for friend in friends.iter().chain(&more) {
        assert_eq!(ping(friend), 200);
    }
}

#[test]
fn sessions_of_a_token_that_has_most_of_them_give_way_although_they_are_in_use() {
    const MOST: usize = 8;
    let stage = stage(|settings| settings.limits.sessions = MOST);
    let (web, _server) = stage.both();
    let hostile = other(&stage.web());
    let mut listening: Vec<Reply> = (0..MOST - 1).map(|_| hostile.enter().listen()).collect();
    let refused = hostile.send("POST", &hello("2025-11-25", &json!({})));
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    let friend = stage.web().enter();
    assert_eq!((ping(&web), ping(&friend)), (200, 200));
    assert_eq!(listening.remove(0).said(), None, "the oldest has ended");
}

#[test]
fn a_token_that_uses_many_connections_leaves_some_to_others() {
    const MOST: usize = 16;
    let stage = stage(|settings| settings.limits.connections = MOST);
    let (web, _server) = stage.both();
    let hostile = other(&stage.web());
    let sessions: Vec<Web> = (0..MOST).map(|_| hostile.enter()).collect();
    let mut listening = Vec::new();
    let refused = sessions.iter().find_map(|session| {
        let stream = session.clone().with("Accept", "text/event-stream").begin("GET", "");
        let reply = Reply::read(stream).expect("an answer");
        if reply.status == 200 {
            listening.push(reply);
            return None;
        }
        Some(reply)
    });
    let refused = refused.expect("there is a limit");
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")));
    for _ in 0..MOST {
        assert_eq!(ping(&web), 200);
    }
    let _own = web.listen();
    assert_eq!(ping(&web), 200);
    drop(listening);
    wait_until("there is room again", PATIENCE, || ping(&sessions[0]) == 200);
}

#[test]
fn slow_uploads_of_one_token_delay_no_other_token() {
    let stage = stage(|_| {});
    let (web, mut server) = stage.both();
    let hostile = other(&stage.web()).enter();
    let expecting = hostile.clone().with("Expect", "100-continue");
    let head = expecting.text("POST", "").replace("Length: 0", &format!("Length: {LARGEST}"));
    let slow: Vec<TcpStream> = (0..16)
        .map(|_| {
            let mut stream = hostile.connect();
            stream.write_all(head.as_bytes()).expect("room");
            stream.write_all(&[b' '; 1 << 10]).expect("room");
            stream.set_nonblocking(true).expect("a flag");
            stream
        })
        .collect();
    // The gateway sends 100 Continue when it begins to read.
    let is_read = |stream: &&TcpStream| stream.peek(&mut [0]).is_ok();
    wait_until("their bodies are read", PATIENCE, || slow.iter().filter(is_read).count() >= 8);
    let begin = Instant::now();
    let text = "x".repeat(100 << 10);
    let stream = web.begin("POST", &request(&json!(1), "tools/call", &json!({ "text": text })));
    let asked = server.expect("tools/call");
    server.answer(&asked, &json!({}));
    assert_eq!(Reply::read(stream).expect("an answer").status, 200);
    assert!(begin.elapsed() < PROMPT, "it took {:?}", begin.elapsed());
    drop(slow);
}
