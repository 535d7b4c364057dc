//! Calls and their results.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ostler::Frame;
use ostler::keeper::{Scope, ServeError};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::greet::request;
use crate::{Answer, Work};

/// Results of a number of calls.
#[derive(Debug, Default)]
struct Tally {
    answered: usize,
    /// Number of occurrences of each error.
    failed: BTreeMap<String, usize>,
    slowest: Duration,
}

/// Arguments of the tool call.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) arguments: Value,
    pub(crate) bulk: usize,
}

/// Makes this many calls by each of these callers.
pub(crate) fn call(callers: Vec<Scope>, server: String, times: usize, told: Told) -> Work {
    Box::pin(async move {
        let mut tasks = JoinSet::new();
        for (number, caller) in callers.into_iter().enumerate() {
            tasks.spawn(repeat(caller, server.clone(), (number * times, times), told.clone()));
        }
        let mut all = Tally::default();
        while let Some(tally) = tasks.join_next().await {
            all.add(tally.map_err(|error| error.to_string())?);
        }
        Ok(all.to_json())
    })
}

async fn repeat(
    caller: Scope,
    server: String,
    (first, times): (usize, usize),
    told: Told,
) -> Tally {
    let mut tally = Tally::default();
    for number in first..first + times {
        let begin = Instant::now();
        let request = told.request(number);
        let answer = caller.call(&server, &request).await;
        tally.note(number, answer, begin.elapsed());
    }
    tally
}

impl Told {
    fn request(&self, number: usize) -> Frame {
        let mut arguments = self.arguments.clone();
        arguments["number"] = number.into();
        if self.bulk > 0 {
            arguments["bulk"] = "x".repeat(self.bulk).into();
        }
        request("tools/call", &json!({"name": "echo", "arguments": arguments}))
    }
}

impl Tally {
    fn note(&mut self, number: usize, answer: Result<Frame, ServeError>, time: Duration) {
        self.slowest = self.slowest.max(time);
        let error = match answer {
            Err(error) => error.to_string(),
            Ok(answer) if is_answer_to(number, &answer) => return self.answered += 1,
            Ok(answer) => format!("not the answer to {number}: {answer:?}"),
        };
        *self.failed.entry(error).or_default() += 1;
    }

    fn add(&mut self, other: Self) {
        self.answered += other.answered;
        self.slowest = self.slowest.max(other.slowest);
        for (error, times) in other.failed {
            *self.failed.entry(error).or_default() += times;
        }
    }

    fn to_json(&self) -> Value {
        let slowest = u64::try_from(self.slowest.as_micros()).unwrap_or(u64::MAX);
        json!({"answered": self.answered, "failed": self.failed, "slowest_us": slowest})
    }
}

/// Checks that every caller gets its own answer.
fn is_answer_to(number: usize, answer: &Frame) -> bool {
    serde_json::from_slice::<Value>(answer.bytes())
        .is_ok_and(|answer| answer["result"]["structuredContent"]["arguments"]["number"] == number)
}

/// The tools of a server.
pub(crate) fn tools(answer: Result<Frame, impl std::fmt::Display>) -> Answer {
    let answer = answer.map_err(|error| error.to_string())?;
    let answer: Value =
        serde_json::from_slice(answer.bytes()).map_err(|error| error.to_string())?;
    Ok(answer["result"]["tools"].clone())
}
