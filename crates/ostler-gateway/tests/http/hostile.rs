//! Hostile clients.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use ostler::keeper::Sharing;
use ostler_testkit::web::{Reply, Web, request};
use ostler_testkit::{assert_linear, wait_until};
use rustix::io::ioctl_fionread;
use rustix::net::sockopt;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

use crate::stage::{PATIENCE, Stage};

fn ping(web: &Web) {
    assert_eq!(web.send("POST", &request(&json!(1), "ping", &json!({}))).status, 200);
}

/// The status of the response to these bytes; `None` if the gateway closes the connection without one.
fn status(web: &Web, bytes: &[u8]) -> Option<u16> {
    let mut stream = web.connect();
    // The gateway may close it before all is sent.
    let _ = stream.write_all(bytes);
    Reply::read(stream).ok().map(|reply| reply.status)
}

#[test]
fn heads_that_are_too_large_or_no_heads_are_refused() {
    let stage = Stage::new(Sharing::All);
    let (web, _server) = stage.both();
    let large = web.clone().with("X-Large", &"x".repeat(1 << 20)).text("GET", "");
    assert_eq!(status(&web, large.as_bytes()), Some(431));
    let mut many = web.clone();
    many.headers.extend((0..1000).map(|number| (format!("X-{number}"), "x".into())));
    assert_eq!(status(&web, many.text("GET", "").as_bytes()), Some(431));
    for nonsense in
        [&b"\0\0\0\0\r\n\r\n"[..], b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", &[0xff; 4096]]
    {
        assert_eq!(status(&web, nonsense), Some(400));
    }
    ping(&web);
}

#[test]
fn h1_bodies_that_are_too_large_are_not_read() {
    let stage = Stage::new(Sharing::All);
    let (web, _server) = stage.both();
    let text = web.text("POST", "").replace("Content-Length: 0", "Content-Length: 99999999999");
    assert_eq!(status(&web, text.as_bytes()), Some(413));
    let chunked = web.text("POST", "").replace("Content-Length: 0", "Transfer-Encoding: chunked");
    let mut bytes = chunked.into_bytes();
    let chunk = [b"100000\r\n", vec![b' '; 1 << 20].as_slice(), b"\r\n"].concat();
    for _ in 0..18 {
        bytes.extend_from_slice(&chunk);
    }
    assert_eq!(status(&web, &bytes), Some(413));
    let ping_text = request(&json!(1), "ping", &json!({}));
    let full = ping_text.clone() + &" ".repeat((16 << 20) - ping_text.len());
    assert_eq!(web.send("POST", &full).status, 200);
    ping(&web);
}

#[test]
fn clients_that_send_slowly_delay_no_other_client() {
    let stage = Stage::new(Sharing::All);
    let (web, _server) = stage.both();
    let text = web.text("POST", &request(&json!(1), "ping", &json!({})));
    let slow: Vec<TcpStream> = (0..100)
        .map(|number| {
            let mut stream = web.connect();
            // Nothing, some of the head, some of the body.
            stream.write_all(&text.as_bytes()[..number * text.len() / 100]).expect("room");
            stream
        })
        .collect();
    ping(&web);
    // One of them completes its request.
    let mut last = slow.into_iter().next_back().expect("one");
    last.write_all(&text.as_bytes()[99 * text.len() / 100..]).expect("room");
    assert_eq!(Reply::read(last).expect("an answer").status, 200);
}

#[test]
fn unused_connections_above_the_limit_are_closed() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let allow = |current| setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum });
    allow(2 << 10).expect("a lower limit");
    let stage = Stage::new(Sharing::All);
    let (web, _server) = stage.both();
    // Both ends are in this process.
    allow(8 << 10).expect("room for clients");
    let mut idle: Vec<TcpStream> = Vec::new();
    for number in 0..1200 {
        let Ok(stream) = TcpStream::connect(web.address) else { break };
        idle.push(stream);
        if number % 200 == 0 {
            ping(&web);
        }
    }
    ping(&web);
    let first = idle.first_mut().expect("one");
    first.set_read_timeout(Some(PATIENCE)).expect("a limit");
    assert_eq!(first.read(&mut [0; 1]).expect("an end"), 0, "the oldest has given way");
}

#[test]
fn a_session_with_too_many_requests_in_flight_is_refused() {
    let stage = Stage::new(Sharing::All);
    let (web, mut server) = stage.both();
    let streams: Vec<TcpStream> = (0..256)
        .map(|id| {
            let stream = web.begin("POST", &request(&json!(id), "tools/call", &json!({})));
            server.expect("tools/call");
            stream
        })
        .collect();
    let refused = web.send("POST", &request(&json!(999), "tools/call", &json!({})));
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")));
    // Other sessions are not affected.
    ping(&stage.web().enter());
    drop(streams);
}

#[test]
fn a_client_that_listens_too_often_loses_the_oldest() {
    let stage = Stage::new(Sharing::All);
    let (web, _server) = stage.both();
    let mut streams: Vec<Reply> = (0..9).map(|_| web.listen()).collect();
    assert_eq!(streams.remove(0).said(), None);
    ping(&web);
}

#[test]
fn a_client_that_does_not_read_blocks_no_other_client() {
    let stage = Stage::new(Sharing::All);
    let (slow, mut server) = stage.both();
    let quick = stage.web().enter();
    let large = "x".repeat(1 << 20);
    let mut unread = Vec::new();
    for id in 1..=24 {
        unread.push(slow.begin("POST", &request(&json!(id), "tools/call", &json!({}))));
        let asked = server.expect("tools/call");
        server.answer(&asked, &json!(large));
        let stream = quick.begin("POST", &request(&json!(id), "tools/call", &json!({})));
        let asked = server.expect("tools/call");
        server.answer(&asked, &json!({}));
        assert_eq!(Reply::read(stream).expect("an answer").message()["id"], id);
    }
}

/// A batch must be refused at the limit, before all of it is read and its ids are compared.
#[test]
fn b1_a_batch_is_not_read_beyond_its_limit() {
    let stage = Stage::new(Sharing::All);
    let (web, _server) = stage.both_in("2025-03-26", &json!({}));
    let pings = |count: usize| {
        let ping = |id| request(&json!(id), "ping", &json!({}));
        (0..count).map(ping).collect::<Vec<_>>().join(",")
    };
    let mut reply = web.send("POST", &format!("[{},nonsense", pings(257)));
    assert_eq!((reply.status, &reply.message()["error"]["code"]), (400, &json!(-32600)));
    let mut reply = web.send("POST", &format!("[{}]", pings(256)));
    assert_eq!((reply.status, reply.message().as_array().map(Vec::len)), (200, Some(256)));
    assert_linear(5000, |size| {
        assert_eq!(web.send("POST", &format!("[{}]", pings(size))).status, 400);
    });
}

/// A client that sends requests and reads no response, until the gateway can't write any more.
fn deaf(web: &Web) -> TcpStream {
    const LOOKS: u32 = 20;
    let mut stream = web.connect();
    sockopt::set_socket_recv_buffer_size(&stream, 128 << 10).expect("a small buffer");
    stream.set_write_timeout(Some(Duration::from_millis(300))).expect("a limit");
    let requests = "GET / HTTP/1.1\r\n\r\n".repeat(1 << 10);
    while stream.write_all(requests.as_bytes()).is_ok() {}
    let (mut before, mut same) = (0, 0);
    wait_until("there is no room for answers", PATIENCE, || {
        let now = ioctl_fionread(&stream).expect("a number");
        same = if now > 0 && now == before { same + 1 } else { 0 };
        before = now;
        same > LOOKS
    });
    stream
}

#[test]
fn an_unauthenticated_client_that_does_not_read_holds_no_connection_slot() {
    const PLACES: usize = 4;
    let stage = Stage::with(&["puppet"], Sharing::All, |settings| {
        settings.limits.connections = PLACES;
    });
    let web = stage.web();
    let all: Vec<TcpStream> = (0..PLACES).map(|_| deaf(&web)).collect();
    for _ in 0..PLACES {
        assert_eq!(web.send("GET", "").status, 405);
    }
    drop(all);
}
