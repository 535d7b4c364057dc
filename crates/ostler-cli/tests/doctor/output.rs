//! Output for people and for programs.

use std::fs;

use ostler_testkit::{Stage, rows};
use serde_json::Value;

use crate::world::World;

/// The page without the parts that differ between machines.
fn page_of(world: &World) -> String {
    let output = world.ostler(&["doctor"]);
    String::from_utf8(output.stdout).unwrap()
}

/// The part of the page from one line on.
fn from<'p>(page: &'p str, line: &str) -> &'p str {
    &page[page.find(line).unwrap_or_else(|| panic!("no '{line}' in:\n{page}"))..]
}

rows! {
    fn the_report_shows_orphans_and_the_command_to_end_them(stage) {
        let world = World::new(stage);
        let script = world.path("node_modules/y-mcp/cli.js").display().to_string();
        let (host, server) = world.pipeline("piped", &["node", &script]);
        world.kill(&host);
        let output = world.ostler(&["doctor"]);
        assert_eq!(output.status.code(), Some(4));
        let page = String::from_utf8(output.stdout).unwrap();
        assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
        let find = world.finds("orphaned_server").remove(0);
        let id = find["id"].as_str().unwrap();
        let left = from(&page, "Left behind\n");
        let first = left.lines().nth(1).unwrap();
        assert!(first.starts_with(&format!("  {id}  orphaned server, likely, ")), "{page}");
        assert!(first.ends_with(" MB"), "{page}");
        for line in [
            "    server    y-mcp\n",
            "    host      unknown\n",
            "    evidence  its command line names the MCP server y-mcp\n",
            "    evidence  its parent has ended: it was adopted by process 1 (ostler-stub)\n",
            "    evidence  no agent host is among its ancestors\n",
            "    evidence  stdin is a pipe that no process writes to\n",
            "    evidence  stdout is a pipe that no process reads from\n",
            &format!("    processes {server} (node)\n"),
            &format!("    to act    ostler reap {id} --yes\n"),
            "\n1 thing was left behind: ",
        ] {
            assert!(left.contains(line), "{line:?} is not in:\n{page}");
        }
        assert!(page.ends_with(" MB. Nothing was touched.\n"), "{page}");
        world.end();
    }

    fn the_report_describes_the_machine(stage) {
        let world = World::new(stage);
        let page = page_of(&world);
        assert!(page.starts_with("This machine\n  containment "), "{page}");
        for line in ["\n  node        ", "\n  npx         ", "\n  config      none\n", "\n  gateway     none runs\n"] {
            assert!(page.contains(line), "{line:?} is not in:\n{page}");
        }
        assert!(page.ends_with("\nNothing was left behind. Nothing was touched.\n"), "{page}");
        assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");

        let report = world.json(&["doctor", "--json"]);
        let machine = &report["machine"];
        assert_eq!(machine["containment"]["auto"], world.stage.level());
        let is_leaf = world.stage.level() == "leaf";
        assert_eq!(machine["containment"]["no_leaf"].is_null(), is_leaf, "{machine}");
        let keys: Vec<&String> = machine.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["configuration", "containment", "engines", "gateways", "tools"]);
        assert_eq!(report["finds"], Value::Array(Vec::new()));
        assert_eq!(report["totals"]["left_over"], 0);
        let tools = machine["tools"].as_array().unwrap();
        let node = tools.iter().find(|tool| tool["name"] == "node").unwrap();
        assert!(node["version"].as_str().unwrap().starts_with(|c: char| c.is_ascii_digit()), "{node}");
        world.end();
    }

    fn a_find_has_all_documented_fields(stage) {
        let world = World::new(stage);
        let (host, _) = world.host("one", world.user(), &["npx", "--no", "--", "x-mcp"]);
        world.kill(&[host]);
        let report = world.json(&["doctor", "--json"]);
        let fields: Vec<&String> = report["finds"][0].as_object().unwrap().keys().collect();
        assert_eq!(fields, [
            "action", "age", "certainty", "command", "container", "evidence", "host", "id", "kind", "memory",
            "processes", "server",
        ]);
        let fields: Vec<&String> = report.as_object().unwrap().keys().collect();
        assert_eq!(fields, ["finds", "machine", "notes", "totals"]);
        world.end();
    }

    fn problems_of_the_configuration_are_reported(stage) {
        let world = World::new(stage);
        let file = world.stage.sandbox.file("ostler.json");
        fs::write(&file, "{ \"mcpServers\": { \"a\": { \"comand\": \"x\" } } }").unwrap();
        let ostler = world.stage.sandbox.reachable(&ostler_testkit::binary("ostler"));
        let mut command = world.inside(world.user(), ostler);
        let output = command.arg("doctor").env("OSTLER_CONFIG", &file).output().unwrap();
        let page = String::from_utf8(output.stdout).unwrap();
        assert!(page.contains("problem: ") && page.contains("comand"), "{page}");
        assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
        world.end();
    }
}

#[test]
fn remains_of_a_dead_ostler_are_reported_as_certain() {
    let stage = Stage::leaf();
    let mut run = stage.wrap(&["--setsid-child", "--descendants-ignore-term"]);
    stage.abandon(&mut run);
    let output = stage.try_ostler(&["doctor", "--json"]);
    assert_eq!(output.status.code(), Some(4));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let finds = report["finds"].as_array().unwrap().iter();
    let certain: Vec<&Value> = finds.filter(|find| find["certainty"] == "certain").collect();
    assert_eq!(certain.len(), 1, "{report}");
    assert_eq!(
        (&certain[0]["kind"], &certain[0]["host"]),
        (&"dead_owner".into(), &"ostler".into())
    );
    assert_eq!(certain[0]["action"], "ostler reap --yes");
    // Doctor changes nothing.
    assert!(!stage.sandbox.survivors().processes.is_empty());
    stage.ostler(&["reap", "--yes"]);
    stage.assert_empty_now();
}
