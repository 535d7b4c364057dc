//! Parser for event streams (`text/event-stream`).

/// A complete event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// Event type; empty stands for `message`.
    pub(crate) name: Vec<u8>,
    pub(crate) data: Vec<u8>,
}

/// The event exceeds the size limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Incremental parser of one event stream.
#[derive(Debug)]
pub(crate) struct Events {
    limit: usize,
    line: Vec<u8>,
    event: Event,
    has_data: bool,
    /// The last byte was CR, so that a following LF belongs to the same line end.
    after_return: bool,
    is_first_line: bool,
    /// Last event id, for resumption.
    pub(crate) last_id: Option<Vec<u8>>,
    /// Reconnection delay that the server requested, in milliseconds.
    pub(crate) retry: Option<u64>,
}

impl Events {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            event: Event::default(),
            has_data: false,
            after_return: false,
            is_first_line: true,
            last_id: None,
            retry: None,
        }
    }

    /// Parses more bytes and passes each complete event to `each`.
    pub(crate) fn feed(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(Event),
    ) -> Result<(), TooLong> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_return) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = memchr::memchr2(b'\r', b'\n', bytes);
            let (text, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            if self.line.len() + self.event.data.len() + text.len() > self.limit {
                return Err(TooLong);
            }
            self.line.extend_from_slice(text);
            bytes = rest;
            if let Some((end, rest)) = rest.split_first() {
                self.after_return = *end == b'\r';
                bytes = rest;
                if let Some(event) = self.end_line() {
                    each(event);
                }
            }
        }
        Ok(())
    }

    /// Prepares for the resumed stream: a partial event is dropped, because the server sends it again.
    pub(crate) fn restart(&mut self) {
        let (last_id, retry) = (self.last_id.take(), self.retry);
        *self = Self { last_id, retry, ..Self::new(self.limit) };
    }

    /// Processes a complete line. Returns the event that a blank line ends.
    fn end_line(&mut self) -> Option<Event> {
        let line = std::mem::take(&mut self.line);
        let mut line = line.as_slice();
        if std::mem::take(&mut self.is_first_line) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            return std::mem::take(&mut self.has_data).then_some(event);
        }
        let colon = memchr::memchr(b':', line);
        let (field, value) = line.split_at(colon.unwrap_or(line.len()));
        let value = value.strip_prefix(b":").unwrap_or(value);
        self.take(field, value.strip_prefix(b" ").unwrap_or(value));
        None
    }

    fn take(&mut self, field: &[u8], value: &[u8]) {
        match field {
            b"event" => self.event.name = value.to_vec(),
            b"data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push(b'\n');
                }
                self.event.data.extend_from_slice(value);
            }
            b"id" if !value.contains(&0) => {
                self.last_id = Some(value.to_vec()).filter(|id| !id.is_empty());
            }
            b"retry" => {
                let number = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                self.retry = number.or(self.retry);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(stream: &[u8], chunk: usize) -> (Vec<(String, String)>, Events) {
        let (mut found, mut events) = (Vec::new(), Events::new(1000));
        for bytes in stream.chunks(chunk) {
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
            events.feed(bytes, |event| found.push((text(event.name), text(event.data)))).unwrap();
        }
        (found, events)
    }

    #[test]
    fn a_stream_is_taken_apart_wherever_it_is_cut() {
        let stream = b"\xef\xbb\xbf: hello\r\nid: 1\r\ndata:a\r\ndata: b\r\n\r\nevent: endpoint\rdata: /x\r\r\
            id: 2\nretry: 50\nretry: soon\ndata\n\nevent: none\n\nid\ndata: open";
        for chunk in 1..stream.len() {
            let (found, events) = read(stream, chunk);
            let found: Vec<(&str, &str)> =
                found.iter().map(|(name, data)| (name.as_str(), data.as_str())).collect();
            assert_eq!(found, [("", "a\nb"), ("endpoint", "/x"), ("", "")], "{chunk}");
            assert_eq!((events.last_id, events.retry), (None, Some(50)), "{chunk}");
        }
        assert_eq!(read(b"id: 7\ndata:\n\n", 3).1.last_id, Some(b"7".to_vec()));
    }

    #[test]
    fn an_event_without_an_end_is_not_kept() {
        let mut events = Events::new(100);
        let endless = (0..).map(|_| b"data: 0123456789\n");
        let fed = endless.take(50).try_for_each(|line| events.feed(line, |_| {}));
        assert_eq!(fed, Err(TooLong));
        assert_eq!(Events::new(100).feed(&[b'x'; 101], |_| {}), Err(TooLong));
    }
}
