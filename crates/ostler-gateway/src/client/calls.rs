//! The requests of one client that have no response yet: one record for each, in one table.
//!
//! A session opens a [`Call`] when it receives a request, and the response closes it. In between the call is at one
//! [`Stage`]: just received, waiting somewhere in the session, or with a server. The record keeps its return address, so
//! that a transport never has to remember requests by itself. Requests that came as one batch are responded to as one:
//! their responses are collected until the last one is there.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::task::AbortHandle;

use super::responses::InFlight;
use crate::quota::RequestPermits;
use crate::transport::ReturnAddress;

/// Longest duration of a call, however much progress its server reports.
const LONGEST: Duration = Duration::from_hours(1);

/// The open calls of one client, by the client's own ids.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    open: BTreeMap<Bytes, Call>,
    batches: HashMap<u64, Batch>,
    last_batch: u64,
    /// A lower bound of the time limits of all calls that are with servers. Responses don't raise it.
    shortest: Option<Duration>,
}

/// A request that has no response yet.
#[derive(Debug)]
pub(crate) struct Call {
    stage: Stage,
    /// The event stream that the response goes to; 0 on a pipe.
    stream: u64,
    /// The batch that the request came with.
    batch: Option<u64>,
    #[expect(dead_code, reason = "held until the call is closed")]
    permit: Option<RequestPermits>,
}

#[derive(Debug)]
enum Stage {
    Received,
    Waiting(Location),
    InFlight(InFlight),
}

/// Place in the session where a call waits until it is sent to a server.
#[derive(Debug)]
pub(crate) enum Location {
    /// In the queue of this server, under this number.
    Queue(Arc<str>, u64),
    /// In the aggregation with this number.
    Aggregation(u64),
    /// In a task that works for this call alone.
    Task(AbortHandle),
}

/// Requests that came as one message.
#[derive(Debug)]
struct Batch {
    responses: Vec<Bytes>,
    /// Number of requests, including withdrawn ones.
    size: usize,
    /// Requests that are still open.
    open: usize,
}

/// Message to send after a response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// Nothing yet: other requests of the same batch are open.
    Later,
    /// This line, which completes so many requests of the stream. `None` if all of them were withdrawn.
    Now { line: Option<Bytes>, stream: u64, requests: usize },
}

impl Calls {
    /// Opens a call. Returns false, and changes nothing, if a request with this id is open.
    pub(crate) fn open(&mut self, id: Bytes, address: &mut ReturnAddress) -> bool {
        self.open_in(None, id, address)
    }

    /// Opens the calls of a batch. Returns false, and changes nothing, if one of them is open. The ids are distinct.
    pub(crate) fn open_batch(&mut self, ids: Vec<Bytes>, address: &mut ReturnAddress) -> bool {
        if ids.iter().any(|id| self.open.contains_key(id)) {
            return false;
        }
        if ids.is_empty() {
            return true;
        }
        self.last_batch += 1;
        let batch = Batch { responses: Vec::new(), size: ids.len(), open: ids.len() };
        self.batches.insert(self.last_batch, batch);
        for id in ids {
            self.open_in(Some(self.last_batch), id, address);
        }
        true
    }

    fn open_in(&mut self, batch: Option<u64>, id: Bytes, address: &mut ReturnAddress) -> bool {
        let Entry::Vacant(place) = self.open.entry(id) else { return false };
        let (stream, permit) = (address.stream, RequestPermits::take_one(&mut address.permits));
        place.insert(Call { stage: Stage::Received, stream, batch, permit });
        true
    }

    /// Notes where a call waits for a server.
    pub(crate) fn wait_at(&mut self, id: &[u8], location: Location) {
        if let Some(call) = self.open.get_mut(id) {
            call.stage = Stage::Waiting(location);
        }
    }

    /// Place where a call waits; `None` unless it waits in the session.
    pub(crate) fn location(&self, id: &[u8]) -> Option<&Location> {
        match &self.open.get(id)?.stage {
            Stage::Waiting(location) => Some(location),
            Stage::Received | Stage::InFlight(_) => None,
        }
    }

    /// Notes that a server has a call.
    pub(crate) fn begin(&mut self, id: &[u8], in_flight: InFlight) {
        let limit = in_flight.limit;
        self.shortest = Some(self.shortest.map_or(limit, |shortest| shortest.min(limit)));
        if let Some(call) = self.open.get_mut(id) {
            call.stage = Stage::InFlight(in_flight);
        }
    }

    /// Takes a call back from its server; it stays open.
    pub(crate) fn take_back(&mut self, id: &[u8]) -> Option<InFlight> {
        self.open.get_mut(id)?.take_back()
    }

    /// Extends the deadline of a call because its server reports progress, up to the longest duration.
    pub(crate) fn prolong(&mut self, id: &[u8]) {
        if let Some(Call { stage: Stage::InFlight(call), .. }) = self.open.get_mut(id) {
            call.until = (Instant::now() + call.limit).min(call.since + LONGEST);
        }
    }

    /// The event stream of an open call.
    pub(crate) fn stream_of(&self, id: &[u8]) -> Option<u64> {
        self.open.get(id).map(|call| call.stream)
    }

    /// Closes a call, whose response goes to [`Calls::deliver`].
    pub(crate) fn close(&mut self, id: &[u8]) -> Option<Call> {
        self.open.remove(id)
    }

    /// Closes a call that is with a server. Any other call stays open: its server has ended before it got the request,
    /// and the session sends the request to the next instance.
    pub(crate) fn close_in_flight(&mut self, id: &Bytes) -> Option<(Call, InFlight)> {
        let mut call = self.open.remove(id)?;
        if let Some(in_flight) = call.take_back() {
            return Some((call, in_flight));
        }
        self.open.insert(id.clone(), call);
        None
    }

    pub(crate) fn is_open(&self, id: &[u8]) -> bool {
        self.open.contains_key(id)
    }

    /// Returns the message to send for a closed call with this response, or without one if it was withdrawn.
    pub(crate) fn deliver(&mut self, call: &Call, line: Option<Bytes>) -> Delivery {
        let stream = call.stream;
        let Some(number) = call.batch else { return Delivery::Now { line, stream, requests: 1 } };
        let Some(batch) = self.batches.get_mut(&number) else { return Delivery::Later };
        batch.responses.extend(line.map(|line| line.slice(..line.len() - 1)));
        batch.open -= 1;
        if batch.open > 0 {
            return Delivery::Later;
        }
        let batch = self.batches.remove(&number);
        let requests = batch.as_ref().map_or(0, |batch| batch.size);
        Delivery::Now { line: batch.and_then(Batch::line), stream, requests }
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Number of calls in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.open.values().filter(|call| matches!(call.stage, Stage::InFlight(_))).count()
    }

    /// Closes all calls without a response.
    pub(crate) fn close_all(&mut self) -> impl Iterator<Item = Call> + use<> {
        std::mem::take(self).open.into_values()
    }

    /// Lower bound of the time limits of calls in flight; no call expires sooner after it was sent.
    pub(crate) fn shortest_limit(&self) -> Option<Duration> {
        self.shortest
    }

    /// Takes calls that are over their limit back from their servers; they stay open.
    pub(crate) fn take_late(&mut self, now: Instant) -> Vec<(Bytes, InFlight)> {
        let mut late = Vec::new();
        let mut shortest: Option<Duration> = None;
        for (id, call) in &mut self.open {
            let Stage::InFlight(in_flight) = &call.stage else { continue };
            if in_flight.until <= now {
                late.extend(call.take_back().map(|in_flight| (id.clone(), in_flight)));
            } else {
                let limit = in_flight.limit;
                shortest = Some(shortest.map_or(limit, |shortest| shortest.min(limit)));
            }
        }
        self.shortest = shortest;
        late
    }
}

impl Call {
    /// The event stream that its response goes to; 0 on a pipe.
    pub(crate) fn stream(&self) -> u64 {
        self.stream
    }

    /// Takes the call back from its server. Returns `None` if no server had it.
    pub(crate) fn take_back(&mut self) -> Option<InFlight> {
        match std::mem::replace(&mut self.stage, Stage::Received) {
            Stage::InFlight(in_flight) => Some(in_flight),
            stage => {
                self.stage = stage;
                None
            }
        }
    }
}

impl Batch {
    /// All responses as one line, if there is any.
    fn line(self) -> Option<Bytes> {
        let line = [&b"["[..], &self.responses.join(&b","[..]), b"]\n"].concat();
        (!self.responses.is_empty()).then(|| line.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: Bytes = Bytes::from_static(b"{}\n");

    fn id(number: &'static str) -> Bytes {
        Bytes::from_static(number.as_bytes())
    }

    fn respond(calls: &mut Calls, number: &'static str, line: Option<Bytes>) -> Delivery {
        let call = calls.close(number.as_bytes()).expect("it is open");
        calls.deliver(&call, line)
    }

    #[test]
    fn a_call_is_open_until_its_response() {
        let mut calls = Calls::default();
        let mut address = ReturnAddress::stream(7);
        assert!(calls.open(id("1"), &mut address));
        assert!(!calls.open(id("1"), &mut address), "the id is taken");
        assert!(
            calls.close_in_flight(&id("1")).is_none() && calls.is_open(b"1"),
            "no server has it"
        );
        let now = Delivery::Now { line: Some(LINE), stream: 7, requests: 1 };
        assert_eq!(respond(&mut calls, "1", Some(LINE)), now);
        assert!(calls.is_empty() && calls.open(id("1"), &mut address));
    }

    #[test]
    fn a_batch_has_one_response_when_all_its_requests_have_theirs() {
        let mut calls = Calls::default();
        let mut address = ReturnAddress::stream(3);
        assert!(calls.open_batch(vec![id("1"), id("2")], &mut address));
        assert!(!calls.open_batch(vec![id("3"), id("2")], &mut address), "one of them is open");
        assert!(calls.open(id("3"), &mut address), "nothing of the refused batch is open");
        assert_eq!(respond(&mut calls, "2", Some(LINE)), Delivery::Later);
        let line = Some(Bytes::from_static(b"[{},{}]\n"));
        let all = Delivery::Now { line, stream: 3, requests: 2 };
        assert_eq!(respond(&mut calls, "1", Some(LINE)), all);
    }

    #[test]
    fn a_batch_whose_requests_were_all_withdrawn_has_no_response() {
        let mut calls = Calls::default();
        assert!(calls.open_batch(vec![id("1"), id("2")], &mut ReturnAddress::stream(3)));
        assert_eq!(respond(&mut calls, "1", None), Delivery::Later);
        let none = Delivery::Now { line: None, stream: 3, requests: 2 };
        assert_eq!(respond(&mut calls, "2", None), none);
    }
}
