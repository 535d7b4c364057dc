//! Variants of HTTP/1 that clients use.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use ostler::keeper::Sharing;
use ostler_testkit::web::{Reply, Web, request};
use serde_json::json;

use crate::stage::Stage;

fn ping(id: u64) -> String {
    request(&json!(id), "ping", &json!({}))
}

/// The whole response to these bytes, until the gateway closes the connection.
fn all(web: &Web, text: &str) -> String {
    let mut stream = web.connect();
    stream.write_all(text.as_bytes()).expect("room");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer, and an end");
    answer
}

/// A ping on a connection that has been used before.
fn is_answered_on(web: &Web, mut stream: TcpStream, id: u64) -> bool {
    stream.write_all(web.text("POST", &ping(id)).as_bytes()).expect("room");
    Reply::read(stream).expect("an answer").message()["id"] == id
}

#[test]
fn requests_that_come_at_once_are_answered_in_their_order() {
    let stage = Stage::new(Sharing::All);
    let (web, _server) = stage.both();
    let last = web.clone().with("Connection", "close");
    let texts = [web.text("POST", &ping(1)), web.text("DELETE", ""), last.text("POST", &ping(3))];
    let answers = all(&web, &texts.concat());
    assert_eq!(answers.matches("HTTP/1.1 ").count(), 3, "{answers}");
    let places = [r#""id":1,"result""#, "HTTP/1.1 200 OK\r\ncontent-length: 0", "HTTP/1.1 404 "];
    let places = places.map(|part| answers.find(part).unwrap_or_else(|| panic!("{answers}")));
    assert!(places.is_sorted(), "{answers}");
}

#[test]
fn a_request_may_come_in_pieces_of_any_size() {
    let stage = Stage::new(Sharing::All);
    let (web, _server) = stage.both();
    let mut stream = web.connect();
    for byte in web.text("POST", &ping(1)).as_bytes() {
        stream.write_all(&[*byte]).expect("room");
    }
    let mut reply = Reply::read(stream).expect("an answer");
    assert_eq!(reply.message()["id"], 1);
    assert!(is_answered_on(&web, reply.into_stream(), 2));
}

#[test]
fn a_body_may_come_in_chunks() {
    let stage = Stage::new(Sharing::All);
    let (web, _server) = stage.both();
    let head = web.text("POST", "").replace("Content-Length: 0", "Transfer-Encoding: chunked");
    let body = ping(1);
    let (one, other) = body.split_at(7);
    let text = format!("{head}7;x=y\r\n{one}\r\n{:x}\r\n{other}\r\n0\r\nX: y\r\n\r\n", other.len());
    let mut stream = web.connect();
    stream.write_all(text.as_bytes()).expect("room");
    let mut reply = Reply::read(stream).expect("an answer");
    assert_eq!(reply.message()["id"], 1);
    assert!(is_answered_on(&web, reply.into_stream(), 2));
    let broken = all(&web, &format!("{head}7\r\n{body}\r\n"));
    assert!(broken.starts_with("HTTP/1.1 400 ") && broken.contains("\r\nconnection: close\r\n"));
}

#[test]
fn a_client_that_expects_100_continue_gets_it_before_the_body() {
    let stage = Stage::new(Sharing::All);
    let (web, _server) = stage.both();
    let waiting = web.clone().with("Expect", "100-continue");
    let (text, body) = (waiting.text("POST", &ping(1)), ping(1));
    let mut stream = web.connect();
    stream.write_all(&text.as_bytes()[..text.len() - body.len()]).expect("room");
    let mut word = [0; 25];
    stream.read_exact(&mut word).expect("our word");
    assert_eq!(&word, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(body.as_bytes()).expect("room");
    assert_eq!(Reply::read(stream).expect("an answer").message()["id"], 1);
    // A refused client may or may not send the body, so the gateway closes the connection.
    let refused = waiting.without("Authorization").text("POST", &body);
    let answer = all(&web, &refused[..refused.len() - body.len()]);
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
}

#[test]
fn a_connection_outlives_a_refusal() {
    let stage = Stage::new(Sharing::All);
    let (web, _server) = stage.both();
    let wrong = web.clone().with("Content-Type", "text/plain").text("POST", &ping(1));
    let (head, body) = wrong.split_at(wrong.len() - 10);
    let mut stream = web.connect();
    stream.write_all(head.as_bytes()).expect("room");
    let mut reply = Reply::read(stream).expect("an answer before all of it is sent");
    assert_eq!((reply.status, reply.text().is_empty()), (415, false));
    let mut stream = reply.into_stream();
    stream.write_all(body.as_bytes()).expect("room");
    assert!(is_answered_on(&web, stream, 2));
}

#[test]
fn a_client_of_the_oldest_version_is_answered_and_the_connection_ends() {
    let stage = Stage::new(Sharing::All);
    let (web, mut server) = stage.both();
    let old = |text: String| text.replace(" HTTP/1.1\r\n", " HTTP/1.0\r\n");
    let answer = all(&web, &old(web.text("POST", &ping(1))));
    assert!(answer.contains("\r\nconnection: close\r\n") && answer.ends_with("\"result\":{}}\n"));
    // HTTP/1.0 has no chunks: an event stream extends to the end of the connection.
    let mut stream = web.connect();
    let call = request(&json!(1), "tools/call", &json!({ "_meta": { "progressToken": "p" } }));
    stream.write_all(old(web.text("POST", &call)).as_bytes()).expect("room");
    let asked = server.expect("tools/call");
    let token = &asked["params"]["_meta"]["progressToken"];
    let params = json!({ "progressToken": token, "progress": 1 });
    let progress =
        json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params });
    server.say(&progress.to_string());
    server.answer(&asked, &json!({}));
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer, and an end");
    let (head, events) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.contains("text/event-stream") && !head.contains("chunked"), "{head}");
    let data = events.split_inclusive("\n\n").filter(|event| event.contains("\ndata: {"));
    assert_eq!(data.count(), 2, "{events}");
}

#[test]
fn a_head_request_gets_no_body() {
    let stage = Stage::new(Sharing::All);
    let (web, _server) = stage.both();
    let answer = all(&web, &web.clone().with("Connection", "close").text("HEAD", ""));
    assert!(answer.starts_with("HTTP/1.1 405 ") && answer.ends_with("\r\n\r\n"), "{answer}");
}

#[test]
fn responses_carry_a_date() {
    let stage = Stage::new(Sharing::All);
    let reply = stage.web().send("GET", "");
    let date = reply.header("date").expect("a date");
    assert!(date.len() == 29 && date.ends_with(" GMT"), "{date}");
}

/// The gateway notices a closed connection during a call, also behind pipelined bytes.
#[test]
fn h4_a_client_that_pipelined_a_request_and_closed_is_detached() {
    let stage = Stage::with(&["puppet"], Sharing::Session, |settings| {
        settings.limits.detach = Duration::from_millis(300);
    });
    let (web, mut server) = stage.both();
    let mut stream = web.begin("POST", &request(&json!(1), "tools/call", &json!({})));
    server.expect("tools/call");
    stream.write_all(web.text("POST", &ping(2)).as_bytes()).expect("room");
    drop(stream);
    assert_eq!(server.expect("notifications/cancelled")["params"]["reason"], "the client has left");
}
