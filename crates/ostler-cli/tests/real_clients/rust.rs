//! The SDK for Rust.
#![expect(deprecated, reason = "what the newest version of the protocol leaves out is still there")]

use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

use ostler_testkit::wait_until;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientConfig, ClientRequest,
    CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams, ElicitResult,
    GetPromptRequestParams, ListRootsResult, LoggingLevel, LoggingMessageNotificationParam,
    ProgressNotificationParam, ReadResourceRequestParams, ResourceUpdatedNotificationParam,
    SetLevelRequestParams, SubscribeRequestParams, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, PeerRequestOptions, RequestContext, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientHandler, ErrorData, RoleClient, ServiceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::net::unix::pipe;
use tokio::runtime::Runtime;

use crate::{PLAY, Reach, Seen, Transport, Way, sees_the_same};

const URI: &str = "demo://resource/dynamic/text/1";
const LONG: &str = "trigger-long-running-operation";

/// A client that records requests and notifications of the server.
#[derive(Clone, Default)]
struct User(Arc<Mutex<Notes>>);

#[derive(Default)]
struct Notes {
    asked: Seen,
    progress: Vec<Value>,
    logs: Vec<Value>,
    updates: Vec<Value>,
    has_moved: bool,
}

impl User {
    fn note<T>(&self, note: impl FnOnce(&mut Notes) -> T) -> T {
        note(&mut self.0.lock().unwrap())
    }

    /// Waits for a notification.
    fn wait(&self, what: &str, find: impl Fn(&Notes) -> Option<Value>) -> Value {
        wait_until(what, PLAY, || self.note(|notes| find(notes)))
    }
}

impl ClientHandler for User {
    fn get_info(&self) -> ClientConfig {
        made(json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "sampling": {}, "elicitation": {}, "roots": { "listChanged": true } },
            "clientInfo": { "name": "real-client", "version": "1.0.0" },
        }))
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.note(|notes| notes.asked.insert("sampling".into(), plain(params)));
        let text = json!({ "type": "text", "text": "a sample" });
        Ok(made(json!({ "model": "none", "role": "assistant", "content": text })))
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.note(|notes| notes.asked.insert("elicitation".into(), plain(params)));
        Ok(made(json!({ "action": "accept", "content": { "name": "Nobody", "integer": 7 } })))
    }

    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        let place = if self.note(|notes| notes.has_moved) { "two" } else { "one" };
        Ok(made(json!({ "roots": [{ "uri": format!("file:///{place}"), "name": place }] })))
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.note(|notes| notes.progress.push(json!([params.progress, params.total])));
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.note(|notes| notes.logs.push(plain(params)));
    }

    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.note(|notes| notes.updates.push(plain(params)));
    }
}

#[test]
fn the_sdk_for_rust() {
    sees_the_same(Transport::Stdio, run);
}

#[test]
fn the_sdk_for_rust_on_http() {
    sees_the_same(Transport::StreamableHttp, run);
}

fn run(way: &Way<'_>) -> Seen {
    Runtime::new().unwrap().block_on(async {
        let (client, child) = Connected::new(way).await;
        let seen = client.play().await;
        if let Some(mut child) = child.filter(|_| matches!(way.reach, Reach::Connect(_))) {
            let ended = || child.try_wait().unwrap().map(|status| assert!(status.success()));
            wait_until("its end", PLAY, ended);
        }
        seen
    })
}

/// The response to a call during which an action runs.
pub(crate) fn long_call(way: &Way<'_>, happen: impl FnOnce()) -> Value {
    Runtime::new().unwrap().block_on(async {
        let (client, _) = Connected::new(way).await;
        let begun = async {
            tokio::task::block_in_place(|| {
                client.user.wait("a step", |notes| notes.progress.first().cloned());
                happen();
            });
        };
        let (answer, ()) =
            tokio::join!(client.call(LONG, json!({ "duration": 4, "steps": 8 })), begun);
        client.service.cancel().await.unwrap();
        answer
    })
}

fn start(way: &Way<'_>, words: &[String]) -> (Child, (pipe::Receiver, pipe::Sender)) {
    let mut command = way.command(&words[0]);
    command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let input = pipe::Receiver::from_owned_fd(stdout.into()).unwrap();
    (child, (input, pipe::Sender::from_owned_fd(stdin.into()).unwrap()))
}

/// A client that is connected.
struct Connected<'a> {
    service: RunningService<RoleClient, User>,
    user: User,
    way: &'a Way<'a>,
}

impl<'a> Connected<'a> {
    /// Connects, and returns the process that was started for it, if any.
    async fn new(way: &'a Way<'a>) -> (Self, Option<Child>) {
        let user = User::default();
        let (service, child) = match &way.reach {
            Reach::Itself(words) | Reach::Connect(words) => {
                let (child, pipes) = start(way, words);
                (user.clone().serve(pipes).await, Some(child))
            }
            Reach::Http { url, token } => {
                let config = StreamableHttpClientTransportConfig::with_uri(&**url);
                let config = config.auth_header(token);
                let transport = StreamableHttpClientTransport::from_config(config);
                (user.clone().serve(transport).await, None)
            }
        };
        (Self { service: service.unwrap(), user, way }, child)
    }

    async fn play(self) -> Seen {
        let mut seen = Seen::new();
        seen.insert("server".into(), plain(self.service.peer_info()));
        seen.insert("tools".into(), self.tools().await);
        if self.way.server.name == "everything" {
            self.everything(&mut seen).await;
        } else {
            let at = json!({ "source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo" });
            seen.insert("converted".into(), self.call("convert_time", at).await);
        }
        self.service.cancel().await.unwrap();
        seen
    }

    /// A server that is being started may be missing from the first list.
    async fn tools(&self) -> Value {
        loop {
            let tools = self.own(plain(self.service.list_all_tools().await.unwrap()));
            if tools.as_array().is_some_and(|tools| !tools.is_empty()) {
                return tools;
            }
        }
    }

    fn own(&self, mut list: Value) -> Value {
        list.as_array_mut().unwrap().retain_mut(|item| {
            let own =
                item["name"].as_str().unwrap().strip_prefix(&self.way.prefix).map(Value::from);
            own.map(|own| item["name"] = own).is_some()
        });
        list
    }

    fn params(&self, tool: &str, arguments: Value) -> CallToolRequestParams {
        let name = format!("{}{tool}", self.way.prefix);
        CallToolRequestParams::new(name).with_arguments(made(arguments))
    }

    async fn call(&self, tool: &str, arguments: Value) -> Value {
        plain(self.service.call_tool(self.params(tool, arguments)).await.unwrap())
    }

    async fn everything(&self, seen: &mut Seen) {
        let mut see = |what: &str, value: Value| seen.insert(what.into(), value);
        let peer = self.service.peer();
        see("prompts", self.own(plain(peer.list_all_prompts().await.unwrap())));
        see("resources", plain(peer.list_all_resources().await.unwrap()));
        see("templates", plain(peer.list_all_resource_templates().await.unwrap()));
        see("echo", self.call("echo", json!({ "message": "h\u{e9}llo \u{1F40E}" })).await);
        see(
            "structured",
            self.call("get-structured-content", json!({ "location": "Chicago" })).await,
        );
        see("image", self.call("get-tiny-image", json!({})).await);
        see("wrong", self.call("get-sum", json!({ "a": "no number" })).await);
        let prompt = GetPromptRequestParams::new(format!("{}args-prompt", self.way.prefix));
        let prompt = prompt.with_arguments(made(json!({ "city": "Ulm" })));
        see("prompt", plain(self.service.get_prompt(prompt).await.unwrap()));
        let read = ReadResourceRequestParams::new(URI);
        see("read", plain(self.service.read_resource(read).await.unwrap()));
        see("progress", self.long_operations().await);
        let sampled =
            self.call("trigger-sampling-request", json!({ "prompt": "p", "maxTokens": 10 }));
        see("sampled", sampled.await);
        see("elicited", self.call("trigger-elicitation-request", json!({})).await);
        see("asked", self.user.note(|notes| plain(&notes.asked)));
        see("roots", self.call("get-roots-list", json!({})).await);
        self.user.note(|notes| notes.has_moved = true);
        peer.notify_roots_list_changed().await.unwrap();
        see("new roots", self.moved().await);
        peer.set_level(SetLevelRequestParams::new(LoggingLevel::Info)).await.unwrap();
        peer.subscribe(SubscribeRequestParams::new(URI)).await.unwrap();
        let is_subscribed = |log: &&Value| log.to_string().contains("Received Subscribe");
        let log = |notes: &Notes| notes.logs.iter().find(is_subscribed).cloned();
        see("log", tokio::task::block_in_place(|| self.user.wait("a log message", log)));
        self.call("toggle-subscriber-updates", json!({})).await;
        let update = |notes: &Notes| notes.updates.first().cloned();
        see("update", tokio::task::block_in_place(|| self.user.wait("an update", update)));
        peer.unsubscribe(UnsubscribeRequestParams::new(URI)).await.unwrap();
    }

    /// One with progress, and one that is cancelled.
    async fn long_operations(&self) -> Value {
        let mut answer = self.call(LONG, json!({ "duration": 0.2, "steps": 4 })).await;
        // This client looks at notifications in any order.
        let four = |notes: &Notes| (notes.progress.len() == 4).then(|| plain(&notes.progress));
        let mut steps = tokio::task::block_in_place(|| self.user.wait("four steps", four));
        steps.as_array_mut().unwrap().sort_by_key(Value::to_string);
        answer["steps"] = steps;
        let params = self.params(LONG, json!({ "duration": 60, "steps": 600 }));
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let options = PeerRequestOptions::no_options();
        let call = self.service.send_cancellable_request(request, options).await.unwrap();
        let begun = |notes: &Notes| (notes.progress.len() > 4).then_some(Value::Null);
        tokio::task::block_in_place(|| self.user.wait("a step", begun));
        call.cancel(Some("enough".into())).await.unwrap();
        answer
    }

    async fn moved(&self) -> Value {
        loop {
            let answer = self.call("get-roots-list", json!({})).await;
            if answer.to_string().contains("file:///two") {
                return answer;
            }
        }
    }
}

fn plain(value: impl Serialize) -> Value {
    serde_json::to_value(value).unwrap()
}

fn made<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}
