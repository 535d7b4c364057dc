//! Request heads: parsing, header access, and the framing of body and response.

use std::mem::MaybeUninit;

use httparse::{Header, Status};
use ostler::http::{self, Body};

use super::limits::{HEAD, HEADERS};
use super::refusal::Refusal;

/// Request head that borrows from the input buffer.
#[derive(Debug)]
pub(super) struct Head<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) query: &'a str,
    /// Minor version of HTTP/1; HTTP/1.0 has no chunked encoding.
    version: u8,
    pub(super) headers: &'a [Header<'a>],
}

/// How a request and its response are framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exchange {
    pub(super) body: Body,
    /// The client waits for `100 Continue` before it sends the body.
    pub(super) is_asked_for: bool,
    /// The connection closes after the response.
    pub(super) ends: bool,
    pub(super) form: Form,
}

/// Framing of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Chunked encoding, if the length is not known.
    Chunks,
    /// Unframed bytes, ended by the close of the connection.
    Plain,
    /// No body, for a HEAD request.
    Head,
}

/// Whether the bytes behind the first `known` ones may complete a head.
pub(super) fn may_have_ended(bytes: &[u8], known: usize) -> bool {
    // A head ends with a line end that another one follows directly.
    let from = known.saturating_sub(3);
    let mut ends = memchr::memchr_iter(b'\n', &bytes[from..]).map(|at| &bytes[from + at + 1..]);
    ends.any(|rest| rest.starts_with(b"\n") || rest.starts_with(b"\r\n"))
}

/// Parses the head at the start of `bytes` and passes it to `look`. Returns its length too, or `None` if it is
/// incomplete.
pub(super) fn parse<T>(
    bytes: &[u8],
    look: impl FnOnce(&Head<'_>) -> T,
) -> Result<Option<(usize, Exchange, T)>, Refusal> {
    let mut headers = [const { MaybeUninit::uninit() }; HEADERS];
    let mut request = httparse::Request::new(&mut []);
    let length = match request.parse_with_uninit_headers(bytes, &mut headers) {
        Ok(Status::Complete(length)) if length <= HEAD => length,
        Ok(Status::Partial) if bytes.len() < HEAD => return Ok(None),
        Ok(_) | Err(httparse::Error::TooManyHeaders) => return Err(Refusal::LargeHead),
        Err(_) => return Err(Refusal::Head),
    };
    let target = request.path.unwrap_or_default();
    // A valid request has no fragment, and HTTP parsers disagree about which part of such a target is the path.
    if memchr::memchr(b'#', target.as_bytes()).is_some() {
        return Err(Refusal::Head);
    }
    let (path, query) = split(target);
    let head = Head {
        method: request.method.unwrap_or_default(),
        path,
        query,
        version: request.version.unwrap_or_default(),
        headers: request.headers,
    };
    let exchange = head.exchange()?;
    Ok(Some((length, exchange, look(&head))))
}

/// Path and query of a request target, which may be in absolute form (`http://host/path`).
fn split(target: &str) -> (&str, &str) {
    let named = target.strip_prefix("http://").or_else(|| target.strip_prefix("https://"));
    let target = match named {
        Some(named) => named.find(['/', '?']).map_or("/", |at| &named[at..]),
        None => target,
    };
    target.split_once('?').unwrap_or((target, ""))
}

impl<'a> Head<'a> {
    /// All values of a header.
    pub(super) fn all(&self, name: &'static str) -> impl Iterator<Item = &'a [u8]> {
        let named = self.headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
        named.map(|header| header.value)
    }

    pub(super) fn has(&self, name: &'static str) -> bool {
        self.all(name).next().is_some()
    }

    /// First value of a header; an empty string if it is not text.
    pub(super) fn first(&self, name: &'static str) -> Option<&'a str> {
        self.all(name).next().map(|value| text(value).unwrap_or_default())
    }

    /// Value of a header that occurs exactly once, as text.
    pub(super) fn only(&self, name: &'static str) -> Option<&'a str> {
        let mut values = self.all(name);
        let value = values.next().filter(|_| values.next().is_none());
        value.and_then(text)
    }

    fn exchange(&self) -> Result<Exchange, Refusal> {
        let says = |name, word| http::says(self.headers, name, word);
        let is_old = self.version == 0;
        Ok(Exchange {
            body: http::of_request(self.headers, self.version)?,
            is_asked_for: !is_old && says("expect", "100-continue"),
            ends: is_old || says("connection", "close"),
            form: match self.method {
                "HEAD" => Form::Head,
                _ if is_old => Form::Plain,
                _ => Form::Chunks,
            },
        })
    }
}

/// Header value as text: visible ASCII, spaces and tabs only.
pub(super) fn text(value: &[u8]) -> Option<&str> {
    let is_plain = |byte: u8| byte == b'\t' || (b' '..=b'~').contains(&byte);
    // Without an early exit, so that the compiler can vectorize the loop.
    let all_plain = value.iter().fold(true, |so_far, byte| so_far & is_plain(*byte));
    all_plain.then(|| std::str::from_utf8(value).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(lines: &str) -> Result<Exchange, Refusal> {
        let bytes = format!("{lines}\r\n\r\n");
        let (length, exchange, ()) = parse(bytes.as_bytes(), |_| ())?.expect("all of it is there");
        assert_eq!(length, bytes.len());
        Ok(exchange)
    }

    #[test]
    fn a_head_is_parsed_when_it_is_complete() {
        let bytes = b"GET /mcp?x=1 HTTP/1.1\r\nHost: a\r\nX:  b \r\nx: c\r\n\r\nrest";
        for end in 0..bytes.len() - 4 {
            assert!(matches!(parse(&bytes[..end], |_| ()), Ok(None)), "{end}");
            assert!(!may_have_ended(&bytes[..end], end / 2), "{end}");
        }
        for known in 0..bytes.len() - 4 {
            assert!(may_have_ended(bytes, known), "{known}");
        }
        let look = |head: &Head<'_>| {
            let values: Vec<_> = head.all("x").collect();
            assert_eq!(values, [b"b", b"c"]);
            assert_eq!(
                (head.first("X"), head.only("x"), head.only("host")),
                (Some("b"), None, Some("a"))
            );
            assert_eq!((head.method, head.path, head.query), ("GET", "/mcp", "x=1"));
        };
        let (length, ..) = parse(bytes, look).unwrap().unwrap();
        assert_eq!(&bytes[length..], b"rest");
    }

    #[test]
    fn a_target_may_name_the_gateway() {
        assert_eq!(split("http://a:1/mcp/b?c=d"), ("/mcp/b", "c=d"));
        assert_eq!(split("http://a"), ("/", ""));
        assert_eq!(split("http://a?b"), ("", "b"));
        assert_eq!(split("*"), ("*", ""));
    }

    #[test]
    fn a_target_with_a_fragment_is_refused() {
        for target in ["/mcp#x", "/mcp?x#y", "http://a#/mcp", "http://a/#/mcp", "#"] {
            let bytes = format!("GET {target} HTTP/1.1\r\n\r\n");
            assert!(matches!(parse(bytes.as_bytes(), |_| ()), Err(Refusal::Head)), "{target}");
        }
    }

    #[test]
    fn a_head_over_the_limit_is_refused() {
        let long = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(HEAD));
        assert!(matches!(parse(long.as_bytes(), |_| ()), Err(Refusal::LargeHead)));
        let whole = long + "\r\n\r\n";
        assert!(matches!(parse(whole.as_bytes(), |_| ()), Err(Refusal::LargeHead)));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(HEADERS + 1));
        assert!(matches!(parse(many.as_bytes(), |_| ()), Err(Refusal::LargeHead)));
        for nonsense in
            ["\0\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/2.0\r\n\r\n", "PRI * HTTP/2.0\r\n\r\n"]
        {
            assert!(matches!(parse(nonsense.as_bytes(), |_| ()), Err(Refusal::Head)), "{nonsense}");
        }
    }

    #[test]
    fn ambiguous_body_lengths_are_refused() {
        let body =
            |lines: &str| exchange(&format!("POST / HTTP/1.1\r\n{lines}")).map(|one| one.body);
        assert_eq!(body("X: y").unwrap(), Body::NONE);
        assert_eq!(body("Content-Length: 7").unwrap(), Body::Length(7));
        assert_eq!(body("Transfer-Encoding: Chunked").unwrap(), Body::CHUNKED);
        let both = body("Content-Length: 7\r\nTransfer-Encoding: chunked");
        assert!(matches!(both, Err(Refusal::Framing(_))));
    }

    #[test]
    fn a_connection_ends_when_its_client_wants_it_to() {
        let ends = |lines: &str| exchange(lines).map(|exchange| exchange.ends).unwrap();
        assert!(!ends("GET / HTTP/1.1"));
        assert!(!ends("GET / HTTP/1.1\r\nConnection: keep-alive"));
        assert!(ends("GET / HTTP/1.1\r\nConnection: x, Close"));
        assert!(ends("GET / HTTP/1.0\r\nConnection: keep-alive"));
    }
}
