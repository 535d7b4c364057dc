//! Requests of servers to clients: which session is asked, and how many instances an agent gets.

use ostler_testkit::{Launched, rows};
use serde_json::{Value, json};

use crate::test_gateway::{PATIENCE, TestGateway};

/// A client of the agent `one` that answers requests of servers.
struct Able {
    client: Launched,
    roots: Value,
}

impl Able {
    fn enter(
        test_gateway: &TestGateway<impl std::borrow::Borrow<ostler_testkit::Stage>>,
        directory: &str,
    ) -> Self {
        let mut client =
            Launched::start(&mut test_gateway.connect_command(&["a", "--agent", "one"]));
        let info = json!({ "name": "able", "version": "0" });
        let capabilities = json!({ "roots": {}, "sampling": {} });
        let params = json!({
            "protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": info,
        });
        client.call("initialize", &params);
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        let mut able = Self { client, roots: json!({ "roots": [{ "uri": directory }] }) };
        let asked = able.client.message(PATIENCE);
        assert_eq!(asked["method"], "roots/list", "{asked}");
        able.answer(&asked);
        able
    }

    /// Answers one request of a server.
    fn answer(&mut self, asked: &Value) {
        let result = match asked["method"].as_str() {
            Some("roots/list") => self.roots.clone(),
            _ => json!({ "sampled for": self.roots }),
        };
        self.client.send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }));
    }

    /// Begins a call during which the server sends this request.
    fn begin(&mut self, method: &str, more: &Value) {
        let mut arguments = json!({ "ask": method });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let params = json!({ "name": "echo", "arguments": arguments });
        let call =
            json!({ "jsonrpc": "2.0", "id": "call", "method": "tools/call", "params": params });
        self.client.send(&call);
    }

    /// The response that the server got, and the number of requests to this client meanwhile.
    fn finish(&mut self) -> (Value, usize) {
        let mut asked = 0;
        loop {
            let message = self.client.message(PATIENCE);
            if message["id"] == "call" && message["method"].is_null() {
                assert!(message["result"].is_object(), "{message}");
                return (message["result"]["structuredContent"]["asked"].clone(), asked);
            }
            asked += 1;
            self.answer(&message);
        }
    }

    fn ask(&mut self, method: &str) -> (Value, usize) {
        self.begin(method, &json!({}));
        self.finish()
    }

    fn end(mut self) {
        self.client.close_stdin();
        assert!(self.client.wait_exit(PATIENCE).success());
    }
}

rows! {
    fn sessions_with_the_same_roots_share_a_process_and_are_asked_once(stage) {
        let test_gateway = TestGateway::with(stage, &["a"], &json!({}));
        let mut clients = ["file:///x", "file:///x", "file:///y"].map(|it| Able::enter(&test_gateway, it));
        for client in &mut clients {
            let (answer, asked) = client.ask("roots/list");
            assert_eq!((&answer["result"], asked), (&client.roots, 0));
        }
        assert_eq!(test_gateway.starts("a").len(), 2);
        assert_eq!(test_gateway.named("ostler-stub").len(), 2);
        clients.into_iter().for_each(Able::end);
        test_gateway.down();
    }

    fn sessions_whose_server_samples_have_a_process_each_while_they_call(stage) {
        let test_gateway = TestGateway::with(stage, &["a"], &json!({ "maxInstances": 2 }));
        let mut clients = [(); 3].map(|()| Able::enter(&test_gateway, "file:///x"));
        let [one, other, third] = &mut clients;
        assert_eq!(one.ask("sampling/createMessage").1, 1);
        let go = test_gateway.sandbox.file("go");
        // Both sessions have a call with the only instance, so its request has no single owner.
        for client in [&mut *one, &mut *other] {
            client.begin("sampling/createMessage", &json!({ "until": go }));
        }
        test_gateway.expect_calls(2);
        std::fs::write(&go, "").unwrap();
        let answers = [one.finish().0, other.finish().0];
        let reasons = answers.each_ref().map(|answer| &answer["error"]["data"]["gateway"]["reason"]);
        // The server takes one call after the other, and asks again when only one is left.
        let refused = reasons.iter().filter(|reason| **reason == "no_owner").count();
        assert_eq!(refused, 1, "{answers:?}");
        assert_eq!(test_gateway.starts("a").len(), 1);
        // From now on the sessions use separate instances.
        std::fs::remove_file(&go).unwrap();
        for client in [&mut *one, &mut *other] {
            client.begin("sampling/createMessage", &json!({ "until": go }));
        }
        test_gateway.expect_calls(2);
        assert_eq!(test_gateway.starts("a").len(), 2);
        // There may be no more than two, so that the third session waits for its turn.
        third.begin("sampling/createMessage", &json!({}));
        std::fs::write(&go, "").unwrap();
        for client in [one, other, third] {
            let (answer, asked) = client.finish();
            assert_eq!((&answer["result"]["sampled for"], asked), (&client.roots, 1));
        }
        assert_eq!(test_gateway.named("ostler-stub").len(), 2);
        clients.into_iter().for_each(Able::end);
        test_gateway.down();
    }
}
