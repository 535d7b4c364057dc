//! Slow clients, and more connections and sessions than the limits allow.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ostler::keeper::Sharing;
use ostler_gateway::front::http::{Settings, TlsIdentity};
use ostler_testkit::web::{Reply, Web, hello, request};
use ostler_testkit::{Authority, wait_until};
use serde_json::json;

use crate::stage::{PATIENCE, Stage};

/// A short limit, far below the bounds of the tests.
const SHORT: Duration = Duration::from_millis(300);

fn ping() -> String {
    request(&json!(1), "ping", &json!({}))
}

/// A gateway with short limits for heads, bodies and handshakes.
fn stage(change: impl Fn(&mut Settings)) -> Stage {
    Stage::with(&["puppet"], Sharing::All, |settings| {
        let limits = &mut settings.limits;
        (limits.handshake, limits.head, limits.body) = (SHORT, SHORT, SHORT);
        change(settings);
    })
}

/// Sends one byte after the other until the connection ends, and returns the response.
fn drip(mut stream: TcpStream) -> String {
    stream.set_read_timeout(Some(Duration::from_millis(10))).expect("a limit");
    let (begin, mut answer) = (Instant::now(), Vec::new());
    while begin.elapsed() < PATIENCE {
        let sent = stream.write_all(b"x");
        let mut bytes = [0; 1024];
        match stream.read(&mut bytes) {
            Ok(0) => return String::from_utf8_lossy(&answer).into_owned(),
            Ok(read) => answer.extend_from_slice(&bytes[..read]),
            Err(error) if error.kind() == ErrorKind::WouldBlock && sent.is_ok() => {}
            Err(_) => return String::from_utf8_lossy(&answer).into_owned(),
        }
    }
    panic!("it is listened to for ever: {answer:?}");
}

/// A connection on which this text was sent.
fn begun(web: &Web, text: &str) -> TcpStream {
    let mut stream = web.connect();
    stream.write_all(text.as_bytes()).expect("room");
    stream
}

#[test]
fn a_head_that_comes_byte_by_byte_times_out() {
    let stage = stage(|_| {});
    let (web, _server) = stage.both();
    for text in ["", "P", "POST /mcp/puppet HTTP/1.1\r\nHost: localhost\r\nX-Slow: "] {
        let answer = drip(begun(&web, text));
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    // A connection without any byte times out, too.
    assert_eq!(web.connect().read(&mut [0]).expect("an end"), 0);
    assert_eq!(web.send("POST", &ping()).status, 200);
}

#[test]
fn a_body_that_comes_byte_by_byte_times_out() {
    let stage = stage(|_| {});
    let (web, _server) = stage.both();
    let head = web.text("POST", "");
    let known = head.replace("Content-Length: 0", "Content-Length: 1000000");
    let chunked = head.replace("Content-Length: 0", "Transfer-Encoding: chunked");
    for text in [known, chunked + "f4240\r\n"] {
        let answer = drip(begun(&web, &text));
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    }
    assert_eq!(web.send("POST", &ping()).status, 200);
}

#[test]
fn a_handshake_that_does_not_end_times_out() {
    let authority = Authority::new();
    authority.sign("gateway");
    let stage = stage(|settings| {
        let [certificate, key] = ["gateway.pem", "gateway.key"].map(|name| authority.file(name));
        let identity = TlsIdentity::read(certificate, key).expect("a certificate");
        settings.identity = Some(Arc::new(identity));
    });
    let web = stage.web();
    assert_eq!(web.connect().read(&mut [0]).expect("an end"), 0);
    // The beginning of a long ClientHello.
    let mut stream = web.connect();
    stream.write_all(&[0x16, 3, 1, 0x3f, 0xff, 1, 0, 0x3f, 0xfb]).expect("room");
    drip(stream);
}

#[test]
fn a_detached_session_makes_room_for_a_new_one_and_an_attached_one_does_not() {
    let stage = stage(|settings| settings.limits.sessions = 3);
    let (away, _server) = stage.both();
    let here: Vec<(Web, Reply)> = (0..2)
        .map(|_| {
            let web = stage.web().enter();
            let listening = web.listen();
            (web, listening)
        })
        .collect();
    let third = stage.web().enter();
    assert_eq!(away.send("POST", &ping()).status, 404);
    let _listening = third.listen();
    let refused = stage.web().send("POST", &hello("2025-11-25", &json!({})));
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    for (web, _) in &here {
        assert_eq!(web.send("POST", &ping()).status, 200);
    }
}

#[test]
fn connections_in_use_are_not_closed_to_make_room() {
    let stage = stage(|settings| settings.limits.connections = 3);
    let (web, _server) = stage.both();
    // The connections of the handshake may count for a moment longer.
    let listen = || Reply::read(web.begin("GET", "")).ok().filter(|reply| reply.status == 200);
    let mut streams: Vec<Reply> =
        (0..3).map(|_| wait_until("there is room for a stream", PATIENCE, listen)).collect();
    assert!(Reply::read(web.begin("POST", &ping())).is_err());
    streams.remove(0).cut();
    wait_until("there is room again", PATIENCE, || {
        Reply::read(web.begin("POST", &ping())).is_ok_and(|reply| reply.status == 200)
    });
}

/// The gateway reads on for a short time after a refusal, so that the client gets the response, and then closes.
#[test]
fn a_refused_client_that_keeps_sending_is_cut_off() {
    let stage = stage(|settings| settings.limits.last_words = SHORT);
    let (web, _server) = stage.both();
    let wrong = web.clone().with("Content-Type", "text/plain");
    // A short body that never comes.
    let text = wrong.text("POST", "").replace("Content-Length: 0", "Content-Length: 10");
    let mut reply = Reply::read(begun(&web, &text)).expect("an answer");
    assert_eq!((reply.status, reply.text().is_empty()), (415, false));
    assert_eq!(reply.into_stream().read(&mut [0]).expect("an end"), 0);
    // A long body of which more keeps coming.
    let text = wrong.text("POST", "").replace("Content-Length: 0", "Content-Length: 99999999");
    let mut stream = begun(&web, &text);
    let is_cut = || stream.write_all(b"x").is_err();
    wait_until("the gateway has closed the connection", PATIENCE, is_cut);
}
