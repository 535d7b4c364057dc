//! Where an instance's stderr goes: a tail for messages to callers, and a sink of the host.

use super::tail::Tail;
use crate::id::InstanceId;
use crate::keeper::cause::Ending;
use crate::keeper::key::Key;

/// Keeps the stderr of instances. The keeper itself keeps only the last bytes of each, so the host implements this.
pub trait StderrSinks: Send + Sync {
    /// Makes the sink of an instance that is about to be started. `number` is its number within its keeper.
    fn open(&self, key: &Key, number: u64) -> Box<dyn StderrSink>;
}

/// Takes the stderr of one instance.
///
/// The task that also reads the instance's stdout calls it, so it must not block. It is dropped when nothing more comes.
pub trait StderrSink: Send {
    /// Takes the id of the instance, before its program runs.
    fn identify(&mut self, instance: InstanceId);

    /// Takes the bytes of one read, which may begin and end within a line.
    fn write(&mut self, bytes: &[u8]);

    /// Takes why the instance stops, or why it could not be started. More bytes may follow.
    fn end(&mut self, ending: &Ending);
}

/// Stderr of one instance.
#[derive(Default)]
pub(super) struct Stderr {
    tail: Tail,
    /// `None` if the host keeps nothing, and once nothing more comes.
    sink: Option<Box<dyn StderrSink>>,
}

impl Stderr {
    pub(super) fn new(sink: Option<Box<dyn StderrSink>>) -> Self {
        Self { tail: Tail::default(), sink }
    }

    /// The bytes of one read; the tail keeps the last `limit`.
    pub(super) fn push(&mut self, bytes: &[u8], limit: usize) {
        self.tail.push(bytes, limit);
        self.tell(|sink| sink.write(bytes));
    }

    pub(super) fn tell(&mut self, tell: impl FnOnce(&mut dyn StderrSink)) {
        if let Some(sink) = &mut self.sink {
            tell(&mut **sink);
        }
    }

    pub(super) fn close(&mut self) {
        self.sink = None;
    }

    pub(super) fn text(&mut self) -> String {
        self.tail.text()
    }
}
