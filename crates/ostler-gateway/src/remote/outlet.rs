//! What a remote server says, as lines of the instance that stands for it.

use bytes::Bytes;
use ostler::Frame;
use tokio::io::{AsyncWriteExt as _, DuplexStream};
use tokio::sync::Mutex;

/// The instance's output, which several streams write to.
#[derive(Debug)]
pub(super) struct Outlet {
    output: Mutex<DuplexStream>,
    complaints: Mutex<DuplexStream>,
}

impl Outlet {
    pub(super) fn new(output: DuplexStream, complaints: DuplexStream) -> Self {
        Self { output: Mutex::new(output), complaints: Mutex::new(complaints) }
    }

    /// A message, as a line.
    pub(super) async fn say(&self, line: &[u8]) {
        // Nobody reads it only when nobody needs it any more.
        let _ = self.output.lock().await.write_all(line).await;
    }

    /// For people.
    pub(super) async fn complain(&self, text: &str) {
        let _ = self.complaints.lock().await.write_all(format!("{text}\n").as_bytes()).await;
    }
}

/// A message that may have line breaks between its words: in valid JSON these mean nothing.
pub(super) fn frame_of(body: &[u8]) -> Option<Frame> {
    let flat = |byte: &u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte };
    let line: Bytes = body.trim_ascii().iter().map(flat).collect();
    Frame::parse(line).ok()
}
