//! The first list of servers that take their time, and what is left of the start.

use ostler_testkit::{rows, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::house::{House, PATIENCE};

/// Longer than any list used to wait for it.
const SLOW: [&str; 4] = ["--answer", "slow", "--slow-ms", "6000"];

fn names(list: &Value) -> Vec<&str> {
    let tools = list["result"]["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    tools.iter().filter_map(|tool| tool["name"].as_str()).collect()
}

rows! {
    fn the_first_list_has_the_tools_of_a_slow_server_and_the_second_starts_nothing(stage) {
        let house = House::new(stage);
        house.configure(&[
            ("fast", house.stub("fast", &[], &json!({}))),
            ("slow", house.stub("slow", &SLOW, &json!({}))),
        ]);
        for _ in 0..2 {
            let mut client = house.client(&[]);
            let list = client.0.call("tools/list", &json!({}));
            let tools = names(&list);
            assert!(tools.contains(&"fast__echo") && tools.contains(&"slow__echo"), "{list}");
            client.end();
        }
        assert_eq!((house.starts("fast").len(), house.starts("slow").len()), (1, 1));
        house.expect_no_server();
        house.down();
    }

    fn a_client_that_leaves_while_a_server_starts_leaves_its_tools_to_the_next(stage) {
        let house = House::new(stage);
        house.configure(&[("slow", house.stub("slow", &SLOW, &json!({})))]);
        let mut client = house.client(&[]);
        client.0.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }));
        wait_until("it is being started", PATIENCE, || house.starts("slow").len() == 1);
        client.0.signal(Signal::KILL);
        client.0.wait_exit(PATIENCE);
        house.expect_known_tools();
        house.expect_no_server();
        let mut next = house.client(&[]);
        assert!(names(&next.0.call("tools/list", &json!({}))).contains(&"slow__echo"));
        assert_eq!(house.starts("slow").len(), 1);
        next.end();
        house.down();
    }

    fn another_terminal_path_or_directory_does_not_start_a_server_to_list_it(stage) {
        let house = House::with(stage, &["a"], &json!({}));
        let mut client = house.client(&[]);
        client.look();
        client.end();
        house.expect_no_server();
        let variables = [("TERM", "other"), ("PATH", "/nowhere:/usr/bin:/bin"), ("LANG", "C")];
        for (name, value) in variables {
            let mut command = house.connect_command(&[]);
            command.env(name, value).current_dir("/");
            let mut client = crate::house::Client::start(&mut command);
            assert!(names(&client.0.call("tools/list", &json!({}))).contains(&"a__echo"), "{name}");
            client.end();
        }
        assert_eq!(house.starts("a").len(), 1);
        house.down();
    }

    fn warm_lists_every_server_and_leaves_none(stage) {
        let house = House::new(stage);
        house.configure(&[
            ("a", house.stub("a", &[], &json!({}))),
            ("b", house.stub("b", &[], &json!({ "share": "call" }))),
        ]);
        let config = house.config().display().to_string();
        let said = house.ostler(&["warm", "--config", &config]);
        assert!(said.contains("a: ") && said.contains("b: ") && said.contains(" tools"), "{said}");
        house.expect_no_server();
        let mut client = house.client(&[]);
        assert!(names(&client.0.call("tools/list", &json!({}))).contains(&"b__echo"));
        client.end();
        assert_eq!((house.starts("a").len(), house.starts("b").len()), (1, 1));
        house.down();
    }

    fn warm_says_which_server_can_not_be_listed_and_why(stage) {
        let house = House::new(stage);
        house.configure(&[
            ("good", house.stub("good", &[], &json!({}))),
            ("bad", json!({ "command": "no-such-program-anywhere" })),
        ]);
        let config = house.config().display().to_string();
        let output = house.try_ostler(&["warm", "--json", "--config", &config]);
        assert_eq!(output.status.code(), Some(1));
        let text = String::from_utf8(output.stdout).unwrap();
        let rows: Vec<Value> = text.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
        let row = |name: &str| rows.iter().find(|row| row["server"] == name).unwrap();
        assert!(row("good")["tools"].as_u64().is_some_and(|tools| tools > 0), "{text}");
        let why = row("bad")["error"].as_str().unwrap();
        assert!(why.contains("no-such-program-anywhere"), "{why}");
        let unknown = house.try_ostler(&["warm", "--config", &config, "nobody"]);
        assert_eq!(unknown.status.code(), Some(3));
        house.down();
    }
}
