//! Logs of the gateway's servers: what each instance writes to stderr, and how it failed.
//!
//! The task that reads an instance turns its stderr into stored lines and puts them into the queue of its server, which is
//! all that happens there. [`ServerLogs::write`] waits for lines, lets them gather for [`GATHER`], and appends them to the
//! files on a blocking thread. A queue is bounded, and lines that do not fit are dropped and counted: a server that floods its
//! stderr, or a disk that hangs, costs no other server a line and no call any time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use ostler::InstanceId;
use ostler::keeper::{Ending, Key, StderrSink, StderrSinks};
use ostler::logs::{LogWriter, Logs, Recorder};
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use crate::failure::Failure;
use crate::mutex::lock;
use crate::variant;

/// Time that lines gather before they are written together.
const GATHER: Duration = Duration::from_millis(50);
/// Time limit for the last lines of a gateway that shuts down.
const LAST_WRITE: Duration = Duration::from_secs(1);

/// Stderr of all instances, on its way to the logs.
#[derive(Debug)]
pub(crate) struct ServerLogs {
    logs: Logs,
    /// Queues by server; one that no instance uses is removed once it is written.
    queues: Arc<Mutex<BTreeMap<String, Arc<Queue>>>>,
    /// A queue has lines.
    filled: Arc<Notify>,
}

/// Lines of one server that wait to be written.
#[derive(Debug)]
struct Queue {
    /// At most `ostler::logs::MOST_WAITING` bytes, and a few more lines.
    block: Mutex<Vec<u8>>,
    /// Locked while it writes, which may take long; never by tasks that read instances.
    writer: Mutex<LogWriter>,
}

/// Sink of one instance.
#[derive(Debug)]
struct InstanceSink {
    recorder: Recorder,
    queue: Arc<Queue>,
    filled: Arc<Notify>,
}

impl ServerLogs {
    pub(crate) fn new(logs: Logs) -> Self {
        Self { logs, queues: Arc::default(), filled: Arc::default() }
    }

    /// Writes lines as they come. Never returns.
    pub(crate) async fn write(&self) {
        loop {
            self.filled.notified().await;
            sleep(GATHER).await;
            self.flush().await;
        }
    }

    /// Writes the lines of a gateway that ends, within [`LAST_WRITE`].
    pub(crate) async fn write_last(&self) {
        let _ = timeout(LAST_WRITE, self.flush()).await;
    }

    async fn flush(&self) {
        let queues = Arc::clone(&self.queues);
        let flushed = spawn_blocking(move || {
            let waiting: Vec<Arc<Queue>> = lock(&queues).values().cloned().collect();
            for queue in waiting {
                queue.flush();
            }
            lock(&queues).retain(|_, queue| Arc::strong_count(queue) > 1 || queue.is_unsettled());
        });
        // Fails only if the runtime shuts down.
        let _ = flushed.await;
    }
}

impl Queue {
    fn flush(&self) {
        let mut writer = lock(&self.writer);
        let block = std::mem::take(&mut *lock(&self.block));
        writer.append(&block);
    }

    /// Whether lines wait, or were dropped and the log does not say so yet.
    fn is_unsettled(&self) -> bool {
        !lock(&self.block).is_empty() || lock(&self.writer).is_failing()
    }
}

impl StderrSinks for ServerLogs {
    fn open(&self, key: &Key, number: u64) -> Box<dyn StderrSink> {
        let server = variant::name(&key.server);
        let new_queue = || {
            let writer = Mutex::new(LogWriter::new(self.logs.path(server)));
            Arc::new(Queue { block: Mutex::default(), writer })
        };
        let queue = lock(&self.queues).entry(server.to_owned()).or_insert_with(new_queue).clone();
        let recorder = Recorder::new(Some(number));
        Box::new(InstanceSink { recorder, queue, filled: Arc::clone(&self.filled) })
    }
}

impl InstanceSink {
    fn record(&mut self, record: impl FnOnce(&mut Recorder, &mut Vec<u8>)) {
        let mut block = lock(&self.queue.block);
        let was_empty = block.is_empty();
        record(&mut self.recorder, &mut block);
        if was_empty && !block.is_empty() {
            self.filled.notify_one();
        }
    }
}

impl StderrSink for InstanceSink {
    fn identify(&mut self, instance: InstanceId) {
        self.recorder.identify(instance);
    }

    fn write(&mut self, bytes: &[u8]) {
        self.record(|recorder, block| recorder.write(SystemTime::now(), bytes, block));
    }

    fn end(&mut self, ending: &Ending) {
        let Some(failure) = Failure::of(ending) else { return };
        // The log has its stderr already.
        let failure = Failure { stderr: Vec::new(), ..failure };
        for text in std::iter::once(failure.summary()).chain(failure.lines()) {
            self.record(|recorder, block| recorder.note(SystemTime::now(), &text, block));
        }
    }
}

impl Drop for InstanceSink {
    fn drop(&mut self) {
        self.record(|recorder, block| recorder.finish(SystemTime::now(), block));
    }
}
