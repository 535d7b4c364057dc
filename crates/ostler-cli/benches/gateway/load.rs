//! Clients that call one after the other, all at once.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::epoll;

use crate::Result;

/// What clients have got out of a server.
#[derive(Default)]
pub(crate) struct Load {
    calls: u32,
    time: Duration,
    /// Of each call, in microseconds.
    pub(crate) latencies: Vec<f64>,
}

/// Somebody who calls, and waits for the answer.
pub(crate) trait Caller: AsFd {
    /// Says something, and does not wait for an answer.
    fn say(&mut self, line: &str) -> Result<()>;

    /// Its calls.
    fn turns(&mut self) -> &mut Turns;

    /// Asks for an echo, and does not wait for it.
    fn begin(&mut self) -> Result<()> {
        let id = self.turns().next();
        self.say(&echo(id))
    }

    /// Reads once. Whether the answer is complete.
    fn has_heard(&mut self) -> Result<bool>;

    /// One call and its answer.
    fn call(&mut self) -> Result<()> {
        self.begin()?;
        while !self.has_heard()? {}
        Ok(())
    }
}

/// The calls of one client.
pub(crate) struct Turns {
    last: u64,
    /// When the last was begun.
    since: Instant,
}

impl Turns {
    pub(crate) fn new() -> Self {
        Self { last: 0, since: Instant::now() }
    }

    /// The id of the next, which begins now.
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.since = Instant::now();
        self.last
    }
}

/// A call of the tool that is measured.
fn echo(id: u64) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","arguments":{{"message":"hello"}}}}}}"#
    )
}

impl Load {
    /// Each client has one call in flight for so long.
    pub(crate) fn add<C: Caller>(&mut self, clients: &mut [C], time: Duration) -> Result<()> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (index, client) in clients.iter().enumerate() {
            let data = epoll::EventData::new_u64(index as u64);
            epoll::add(&poll, client.as_fd(), data, epoll::EventFlags::IN)?;
        }
        let begin = Instant::now();
        clients.iter_mut().try_for_each(C::begin)?;
        let mut in_flight = clients.len();
        let mut events = Vec::with_capacity(clients.len());
        while in_flight > 0 {
            events.clear();
            epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None)?;
            for event in &events {
                let client = &mut clients[usize::try_from(event.data.u64())?];
                if !client.has_heard()? {
                    continue;
                }
                self.calls += 1;
                self.latencies.push(client.turns().since.elapsed().as_secs_f64() * 1e6);
                if begin.elapsed() < time {
                    client.begin()?;
                } else {
                    in_flight -= 1;
                }
            }
        }
        self.time += begin.elapsed();
        Ok(())
    }

    pub(crate) fn per_second(&self) -> f64 {
        f64::from(self.calls) / self.time.as_secs_f64()
    }
}
