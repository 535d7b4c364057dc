//! A minimal browser: follows redirects.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::PATIENCE;

/// Status and text of a page, after redirects.
pub fn get(url: &str) -> (u16, String) {
    let mut url = url.to_owned();
    for _ in 0..5 {
        let (head, body) = ask(&url);
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
        let location = head.lines().find_map(|line| line.strip_prefix("location: "));
        match location {
            Some(next) if (300..400).contains(&status) => next.clone_into(&mut url),
            _ => return (status, body),
        }
    }
    panic!("redirects without an end: {url}")
}

fn ask(url: &str) -> (String, String) {
    let rest = url.strip_prefix("http://").expect("a url in the clear");
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let mut stream = TcpStream::connect(host).expect("a listening server");
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("a listener");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.to_owned(), body.to_owned())
}
