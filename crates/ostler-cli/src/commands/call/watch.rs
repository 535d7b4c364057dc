//! Progress of a call, on the terminal.

use std::time::{Duration, Instant};

use crate::mcp::{News, Progress};
use crate::out::StatusLine;

/// A call that takes longer is shown as waiting.
const SHORT: Duration = Duration::from_secs(1);

/// Shows what is known of a call that has no result yet.
#[derive(Debug)]
pub(super) struct Watch {
    what: String,
    since: Instant,
    progress: Option<String>,
    line: StatusLine,
}

impl Watch {
    pub(super) fn new(server: &str, tool: &str) -> Self {
        let what = format!("{server} {tool}");
        Self { what, since: Instant::now(), progress: None, line: StatusLine::new() }
    }

    pub(super) fn hear(&mut self, news: &News<'_>) {
        if let News::Progress(progress) = news {
            self.progress = Some(describe(progress));
        }
        let waited = self.since.elapsed();
        match &self.progress {
            Some(progress) => self.line.show(format_args!("{}: {progress}", self.what)),
            None if waited > SHORT => {
                self.line.show(format_args!("{}: waiting, {}s", self.what, waited.as_secs()));
            }
            None => {}
        }
    }
}

/// `3/10 message`, `42 message`.
fn describe(Progress { done, total, message }: &Progress) -> String {
    let total = total.map(|total| format!("/{total}")).unwrap_or_default();
    let message = message.as_ref().map(|message| format!(" {message}")).unwrap_or_default();
    format!("{done}{total}{message}")
}
