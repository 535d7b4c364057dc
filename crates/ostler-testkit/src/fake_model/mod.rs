//! A fake language model on loopback that speaks the APIs of agent hosts' providers.
//!
//! It has the streaming APIs of four providers, distinguished by the request path. In the first turn that offers a tool
//! whose name ends in `echo` it calls that tool once; with the tool's result the conversation ends, or the model stays
//! silent so that its host stays in the middle of a turn. Requests without tools, such as for a title, get one word.

mod completions;
mod gemini;
mod messages;
mod responses;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::fake_http::{FakeHttp, Heard, Part, Reply};

/// How a silent model's stream begins: a comment, which every reader of event streams skips.
const SILENCE: &str = ": silence\n\n";
/// Longer than any host is watched.
const SILENT_FOR: Duration = Duration::from_mins(30);

/// Behaviour of the model when it has the tool's result, or when it was offered no tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Afterwards {
    /// Ends the conversation, so that the host exits.
    Finish,
    /// Stays silent, so that the host keeps its servers until the test ends it.
    Stay,
}

/// One request of a host that offered tools.
#[derive(Clone, Debug)]
pub struct Turn {
    /// When the request arrived.
    pub at: Instant,
    /// Whether the tool was among those that were offered.
    pub is_tool_offered: bool,
    /// The text of all tool results in the conversation; empty if there is none.
    pub results: String,
}

/// The model. Drop ends it.
#[derive(Debug)]
pub struct FakeModel {
    http: FakeHttp,
    turns: Arc<Mutex<Vec<Turn>>>,
}

/// A tool as an API names it.
#[derive(Clone, Debug)]
struct Tool {
    /// The group that Codex puts the tools of one server in.
    namespace: Option<String>,
    name: String,
}

/// One provider's API.
trait Api {
    /// The tools that a request offers.
    fn tools(&self, request: &Value) -> Vec<Tool>;
    /// The text of the tool results in a request; empty if there is none.
    fn results(&self, request: &Value) -> String;
    /// A turn in which the model calls a tool.
    fn call(&self, tool: &Tool, arguments: &Value) -> Reply;
    /// A turn in which the model returns text and ends.
    fn say(&self, text: &str) -> Reply;
}

impl FakeModel {
    /// A model that calls the tool with these arguments.
    pub fn start(arguments: Value, afterwards: Afterwards) -> Self {
        let turns: Arc<Mutex<Vec<Turn>>> = Arc::default();
        let seen = Arc::clone(&turns);
        let http = FakeHttp::new(move |heard| answer(heard, &arguments, afterwards, &seen));
        Self { http, turns }
    }

    /// The address for a host's configuration, with this path.
    pub fn url(&self, path: &str) -> String {
        self.http.url(path)
    }

    /// The turns so far, in order.
    pub fn turns(&self) -> Vec<Turn> {
        self.turns.lock().expect("a list").clone()
    }

    /// The text of the tool's result, once the host has sent it.
    pub fn result(&self) -> Option<String> {
        self.turns().into_iter().map(|turn| turn.results).find(|text| !text.is_empty())
    }
}

fn answer(
    heard: &Heard,
    arguments: &Value,
    afterwards: Afterwards,
    turns: &Mutex<Vec<Turn>>,
) -> Reply {
    let Some(api) = api(&heard.path) else { return Reply::json(&serde_json::json!({})) };
    let request = heard.message();
    let tools = api.tools(&request);
    if tools.is_empty() {
        return api.say("title");
    }
    let tool = tools.iter().find(|tool| tool.name.ends_with("echo"));
    let results = api.results(&request);
    let turn =
        Turn { at: Instant::now(), is_tool_offered: tool.is_some(), results: results.clone() };
    turns.lock().expect("a list").push(turn);
    match (tool, afterwards) {
        (Some(tool), _) if results.is_empty() => api.call(tool, arguments),
        (_, Afterwards::Finish) => api.say("done"),
        (_, Afterwards::Stay) => {
            Reply::stream([Part::Text(SILENCE.to_owned()), Part::Pause(SILENT_FOR)])
        }
    }
}

fn api(path: &str) -> Option<&'static dyn Api> {
    let path = path.split('?').next().unwrap_or_default();
    if path.ends_with("/responses") {
        Some(&responses::Responses)
    } else if path.ends_with("/messages") {
        Some(&messages::Messages)
    } else if path.ends_with("/chat/completions") {
        Some(&completions::Completions)
    } else if path.ends_with(":streamGenerateContent") {
        Some(&gemini::Gemini)
    } else {
        None
    }
}

impl Tool {
    fn named(name: &Value) -> Option<Self> {
        Some(Self { namespace: None, name: name.as_str()?.to_owned() })
    }
}

/// The items of an array; none of anything else.
fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The items of this type, as text.
fn text_of(all: impl Iterator<Item = Value>) -> String {
    all.map(|item| item.to_string()).collect()
}

/// A stream of events that are named by their own `type`.
fn typed_events(events: &[Value]) -> Reply {
    Reply::stream(events.iter().map(|event| {
        let name = event["type"].as_str().unwrap_or_default();
        Part::Text(format!("event: {name}\ndata: {event}\n\n"))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_tells_the_api() {
        for path in [
            "/v1/responses",
            "/v1/messages?beta=true",
            "/v1/chat/completions",
            "/v1beta/models/m:streamGenerateContent?alt=sse",
        ] {
            assert!(api(path).is_some(), "{path}");
        }
        assert!(api("/v1/models").is_none());
    }
}
