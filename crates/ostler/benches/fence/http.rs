//! A minimal HTTP client for container engines.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::Result;

/// Limit of a call, far beyond its duration, so that a hang becomes an error.
const PATIENCE: Duration = Duration::from_mins(1);

/// A connection after the head of a response.
struct Answered {
    status: u16,
    length: usize,
    rest: BufReader<UnixStream>,
}

/// Makes one call on a new connection. Returns the body of the response.
pub(crate) fn call(
    socket: &Path,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> Result<Vec<u8>> {
    let body = body.map(Value::to_string).unwrap_or_default();
    let headers = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    let mut answered = ask(socket, method, path, &(headers + "\r\n" + &body))?;
    let mut answer = vec![0; answered.length];
    answered.rest.read_exact(&mut answer)?;
    if !(200..300).contains(&answered.status) {
        let said = String::from_utf8_lossy(&answer);
        return Err(format!("{method} {path}: {}: {said}", answered.status).into());
    }
    Ok(answer)
}

fn ask(socket: &Path, method: &str, path: &str, rest: &str) -> Result<Answered> {
    let mut connection = UnixStream::connect(socket)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.set_write_timeout(Some(PATIENCE))?;
    connection.write_all(
        format!("{method} /v1.41{path} HTTP/1.1\r\nHost: docker\r\n{rest}").as_bytes(),
    )?;
    let mut rest = BufReader::new(connection);
    let mut line = String::new();
    rest.read_line(&mut line)?;
    let status = line.split(' ').nth(1).ok_or("no status")?.parse()?;
    let mut length = 0;
    loop {
        line.clear();
        if rest.read_line(&mut line)? == 0 {
            return Err("the response ends within its head".into());
        }
        match line.trim_end().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse()?;
            }
            Some(_) => {}
            None => return Ok(Answered { status, length, rest }),
        }
    }
}

/// A connection that was upgraded to a container's stdin and stdout.
pub(crate) struct Attached(BufReader<UnixStream>);

/// Attaches to a container.
pub(crate) fn attach(socket: &Path, container: &str) -> Result<Attached> {
    let path = format!("/containers/{container}/attach?stream=1&stdin=1&stdout=1");
    let headers = "Connection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 0\r\n\r\n";
    let answered = ask(socket, "POST", &path, headers)?;
    match answered.status {
        101 => Ok(Attached(answered.rest)),
        status => Err(format!("attach: {status}").into()),
    }
}

impl Attached {
    /// A duplicate for another thread.
    pub(crate) fn writer(&self) -> io::Result<UnixStream> {
        self.0.get_ref().try_clone()
    }

    /// Reads this many bytes of output. Each piece follows a header of eight bytes that ends with its
    /// length.
    pub(crate) fn read(&mut self, count: usize) -> io::Result<()> {
        let mut left = count;
        while left > 0 {
            let mut head = [0; 8];
            self.0.read_exact(&mut head)?;
            let length = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
            let piece = io::copy(&mut (&mut self.0).take(length.into()), &mut io::sink())?;
            left = left.saturating_sub(usize::try_from(piece).unwrap_or(usize::MAX));
        }
        Ok(())
    }

    pub(crate) fn close(&self) -> io::Result<()> {
        self.0.get_ref().shutdown(Shutdown::Both)
    }
}
