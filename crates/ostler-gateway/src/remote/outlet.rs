//! Output of an instance: messages from the remote server, and diagnostics in place of stderr.

use bytes::Bytes;
use ostler::Frame;
use tokio::io::{AsyncWriteExt as _, DuplexStream};
use tokio::sync::Mutex;

/// The instance's output and diagnostics, shared by all its streams.
#[derive(Debug)]
pub(super) struct Outlet {
    output: Mutex<DuplexStream>,
    complaints: Mutex<DuplexStream>,
}

impl Outlet {
    pub(super) fn new(output: DuplexStream, complaints: DuplexStream) -> Self {
        Self { output: Mutex::new(output), complaints: Mutex::new(complaints) }
    }

    /// Writes a message as a line.
    pub(super) async fn say(&self, line: &[u8]) {
        // Writing fails only after the keeper has dropped the instance.
        let _ = self.output.lock().await.write_all(line).await;
    }

    /// Writes a diagnostic line for operators.
    pub(super) async fn complain(&self, text: &str) {
        let _ = self.complaints.lock().await.write_all(format!("{text}\n").as_bytes()).await;
    }
}

/// Parses a message that may span several lines: line breaks in valid JSON are only white space between tokens.
pub(super) fn frame_of(body: &[u8]) -> Option<Frame> {
    let flat = |byte: &u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte };
    let line: Bytes = body.trim_ascii().iter().map(flat).collect();
    Frame::parse(line).ok()
}
