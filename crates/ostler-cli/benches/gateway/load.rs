//! Load: many clients at once, each with one call in flight.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::epoll;

use crate::Result;

/// Calls that clients have made.
#[derive(Default)]
pub(crate) struct Load {
    calls: u32,
    time: Duration,
    /// Latency of each call, in microseconds.
    pub(crate) latencies: Vec<f64>,
}

/// A client under load.
pub(crate) trait Caller: AsFd {
    /// Sends a message without waiting for a response.
    fn say(&mut self, line: &str) -> Result<()>;

    /// Its call counter.
    fn turns(&mut self) -> &mut Turns;

    /// Sends a call of `echo` without waiting for the response.
    fn begin(&mut self) -> Result<()> {
        let id = self.turns().next();
        self.say(&echo(id))
    }

    /// Reads once. Returns whether the response is complete.
    fn has_heard(&mut self) -> Result<bool>;

    /// Makes one call and waits for the response.
    fn call(&mut self) -> Result<()> {
        self.begin()?;
        while !self.has_heard()? {}
        Ok(())
    }
}

/// Call counter of one client.
pub(crate) struct Turns {
    last: u64,
    /// Start of the last call.
    since: Instant,
}

impl Turns {
    pub(crate) fn new() -> Self {
        Self { last: 0, since: Instant::now() }
    }

    /// Id of the next call, which begins now.
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.since = Instant::now();
        self.last
    }
}

/// Request that calls the measured tool.
fn echo(id: u64) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","arguments":{{"message":"hello"}}}}}}"#
    )
}

impl Load {
    /// Keeps one call of each client in flight for this long.
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
