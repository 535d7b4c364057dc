//! Loopback HTTP listener that receives the browser's redirect at the end of a login.

use std::io;

use ostler::visible::is_hidden;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::form::decode;
use super::login::LoginLimits;

/// Longest request head that is read, in bytes.
const LONGEST: usize = 16 << 10;
/// Path of the redirect URI.
const PATH: &str = "/callback";

/// Listener on 127.0.0.1.
#[derive(Debug)]
pub(super) struct Callback {
    listener: TcpListener,
    port: u16,
}

/// Parameters of the authorization response.
#[derive(Debug, Default)]
pub(super) struct Returned {
    pub(super) code: Option<String>,
    pub(super) error: Option<String>,
    pub(super) issuer: Option<String>,
}

impl Callback {
    /// Listens on `port`, or on any free port.
    pub(super) async fn open(port: Option<u16>) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port.unwrap_or(0))).await?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener, port })
    }

    /// The redirect URI.
    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// Waits for the authorization response that carries `state`. All other requests get 404.
    pub(super) async fn wait(&self, state: &str, limits: &LoginLimits) -> io::Result<Returned> {
        loop {
            let (mut stream, _) = self.listener.accept().await?;
            let served = timeout(limits.request, serve(&mut stream, state)).await;
            if let Ok(Ok(Some(returned))) = served {
                return Ok(returned);
            }
        }
    }
}

async fn serve(stream: &mut TcpStream, state: &str) -> io::Result<Option<Returned>> {
    let returned = read_query(stream).await?.and_then(|query| returned(&query, state));
    let (status, text) = match &returned {
        Some(Returned { code: Some(_), .. }) => {
            ("200 OK", "Logged in. You can close this page and go back to the terminal.")
        }
        Some(_) => ("200 OK", "Not logged in. The terminal says why."),
        None => ("404 Not Found", "No login is under way."),
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n{text}",
        text.len(),
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    Ok(returned)
}

/// Reads a request head and returns the query of a GET request for the callback path.
async fn read_query(stream: &mut TcpStream) -> io::Result<Option<String>> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() > LONGEST || stream.read_buf(&mut head).await? == 0 {
            return Ok(None);
        }
    }
    let head = String::from_utf8_lossy(&head);
    let target = head.strip_prefix("GET ").and_then(|rest| rest.split(' ').next());
    let query = target.and_then(|target| target.strip_prefix(PATH)?.strip_prefix('?'));
    Ok(query.map(ToOwned::to_owned))
}

fn returned(query: &str, state: &str) -> Option<Returned> {
    let mut returned = Returned::default();
    let (mut is_ours, mut description) = (false, None);
    for (name, value) in decode(query) {
        match name.as_str() {
            "state" => is_ours = value == state,
            "code" => returned.code = Some(value),
            "error" => returned.error = Some(value),
            "error_description" => description = Some(value),
            "iss" => returned.issuer = Some(value),
            _ => {}
        }
    }
    if let (Some(error), Some(description)) = (&mut returned.error, description) {
        error.push_str(": ");
        error.extend(description.chars().filter(|c| !is_hidden(*c)));
    }
    (is_ours && (returned.code.is_some() || returned.error.is_some())).then_some(returned)
}
