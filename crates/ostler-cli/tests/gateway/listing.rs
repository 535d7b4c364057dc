//! The first list of slow servers, and the catalog after it.

use ostler_testkit::{rows, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::test_gateway::{PATIENCE, TestGateway};

/// Longer than the wait of any list.
const SLOW: [&str; 4] = ["--answer", "slow", "--slow-ms", "6000"];

fn names(list: &Value) -> Vec<&str> {
    let tools = list["result"]["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    tools.iter().filter_map(|tool| tool["name"].as_str()).collect()
}

rows! {
    fn the_first_list_has_the_tools_of_a_slow_server_and_the_second_starts_nothing(stage) {
        let test_gateway = TestGateway::new(stage);
        test_gateway.configure(&[
            ("fast", test_gateway.stub("fast", &[], &json!({}))),
            ("slow", test_gateway.stub("slow", &SLOW, &json!({}))),
        ]);
        for _ in 0..2 {
            let mut client = test_gateway.client(&[]);
            let list = client.0.call("tools/list", &json!({}));
            let tools = names(&list);
            assert!(tools.contains(&"fast__echo") && tools.contains(&"slow__echo"), "{list}");
            client.end();
        }
        assert_eq!((test_gateway.starts("fast").len(), test_gateway.starts("slow").len()), (1, 1));
        test_gateway.expect_no_server();
        test_gateway.down();
    }

    fn a_client_that_leaves_while_a_server_starts_leaves_its_tools_to_the_next(stage) {
        let test_gateway = TestGateway::new(stage);
        test_gateway.configure(&[("slow", test_gateway.stub("slow", &SLOW, &json!({})))]);
        let mut client = test_gateway.client(&[]);
        client.0.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }));
        wait_until("it is being started", PATIENCE, || test_gateway.starts("slow").len() == 1);
        client.0.signal(Signal::KILL);
        client.0.wait_exit(PATIENCE);
        test_gateway.expect_known_tools();
        test_gateway.expect_no_server();
        let mut next = test_gateway.client(&[]);
        assert!(names(&next.0.call("tools/list", &json!({}))).contains(&"slow__echo"));
        assert_eq!(test_gateway.starts("slow").len(), 1);
        next.end();
        test_gateway.down();
    }

    fn another_terminal_path_or_directory_does_not_start_a_server_to_list_it(stage) {
        let test_gateway = TestGateway::with(stage, &["a"], &json!({}));
        let mut client = test_gateway.client(&[]);
        client.look();
        client.end();
        test_gateway.expect_no_server();
        let variables = [("TERM", "other"), ("PATH", "/nowhere:/usr/bin:/bin"), ("LANG", "C")];
        for (name, value) in variables {
            let mut command = test_gateway.connect_command(&[]);
            command.env(name, value).current_dir("/");
            let mut client = crate::test_gateway::Client::start(&mut command);
            assert!(names(&client.0.call("tools/list", &json!({}))).contains(&"a__echo"), "{name}");
            client.end();
        }
        assert_eq!(test_gateway.starts("a").len(), 1);
        test_gateway.down();
    }

    fn warm_lists_every_server_and_leaves_none(stage) {
        let test_gateway = TestGateway::new(stage);
        test_gateway.configure(&[
            ("a", test_gateway.stub("a", &[], &json!({}))),
            ("b", test_gateway.stub("b", &[], &json!({ "share": "call" }))),
        ]);
        let config = test_gateway.config().display().to_string();
        let said = test_gateway.ostler(&["warm", "--config", &config]);
        assert!(said.contains("a: ") && said.contains("b: ") && said.contains(" tools"), "{said}");
        test_gateway.expect_no_server();
        let mut client = test_gateway.client(&[]);
        assert!(names(&client.0.call("tools/list", &json!({}))).contains(&"b__echo"));
        client.end();
        assert_eq!((test_gateway.starts("a").len(), test_gateway.starts("b").len()), (1, 1));
        test_gateway.down();
    }

    fn warm_says_which_server_can_not_be_listed_and_why(stage) {
        let test_gateway = TestGateway::new(stage);
        test_gateway.configure(&[
            ("good", test_gateway.stub("good", &[], &json!({}))),
            ("bad", json!({ "command": "no-such-program-anywhere" })),
        ]);
        let config = test_gateway.config().display().to_string();
        let output = test_gateway.try_ostler(&["warm", "--json", "--config", &config]);
        assert_eq!(output.status.code(), Some(1));
        let text = String::from_utf8(output.stdout).unwrap();
        let rows: Vec<Value> = text.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
        let row = |name: &str| rows.iter().find(|row| row["server"] == name).unwrap();
        assert!(row("good")["tools"].as_u64().is_some_and(|tools| tools > 0), "{text}");
        let why = row("bad")["error"].as_str().unwrap();
        assert!(why.contains("no-such-program-anywhere"), "{why}");
        let unknown = test_gateway.try_ostler(&["warm", "--config", &config, "nobody"]);
        assert_eq!(unknown.status.code(), Some(3));
        test_gateway.down();
    }
}
