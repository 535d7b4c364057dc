//! All planted orphans are reported, and no process in use is.

use ostler_testkit::rows;
use serde_json::Value;

use crate::world::{World, pids_of, read_pid};

const NOTHING: [(String, Vec<i32>); 0] = [];
const NPX: [&str; 4] = ["npx", "--no", "--", "x-mcp"];

/// The findings of orphans, by the pids of their processes.
fn left_over(world: &World) -> Vec<(String, Vec<i32>)> {
    let report = world.json(&["doctor", "--json"]);
    let finds = report["finds"].as_array().unwrap().iter();
    let left = finds.filter(|find| find["certainty"] == "likely");
    left.map(|find| (text(&find["kind"]), pids_of(find))).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn server(world: &World, name: &str) -> String {
    world.path(&format!("node_modules/{name}/cli.js")).display().to_string()
}

rows! {
    // The wrapper and the shell that npm puts between host and server stay as well.
    fn l01_a_server_behind_npx_whose_host_was_killed_is_found(stage) {
        let world = World::new(stage);
        let (host, server) = world.host("wrapped", world.user(), &NPX);
        assert_eq!(left_over(&world), NOTHING);
        let wrapper = world.parent_of(world.parent_of(server));
        assert_eq!(world.parent_of(wrapper), host);
        world.kill(&[host]);
        let finds = world.finds("orphaned_server");
        assert_eq!(finds.len(), 1, "{finds:?}");
        let find = &finds[0];
        let pids = pids_of(find);
        assert_eq!((pids[0], pids.contains(&server)), (wrapper, true), "{find}");
        assert_eq!((&find["server"], &find["host"]), (&"x-mcp".into(), &"Claude Code".into()));
        let evidence = find["evidence"].to_string();
        for fact in ["stdin is a socket that no process writes to", "adopted by process 1", "CLAUDECODE"] {
            assert!(evidence.contains(fact), "{evidence}");
        }
        assert!(find["memory"].as_u64().unwrap() > 1_000_000, "{find}");
        world.end();
    }

    fn l10_a_server_whose_parent_died_and_whose_pipes_are_closed_is_found(stage) {
        let world = World::new(stage);
        let script = server(&world, "y-mcp");
        let (host, server) = world.pipeline("piped", &["node", &script]);
        assert_eq!(left_over(&world), NOTHING);
        world.kill(&host);
        assert_eq!(left_over(&world), [("orphaned_server".to_owned(), vec![server])]);
        let find = world.finds("orphaned_server").remove(0);
        assert!(find["evidence"].to_string().contains("stdin is a pipe that no process writes to"), "{find}");
        assert_eq!(find["host"], Value::Null);
        world.end();
    }

    fn l03_a_helper_in_a_session_of_its_own_is_found_when_its_server_is_gone(stage) {
        let world = World::new(stage);
        let words = [&NPX[..], &["--helper"]].concat();
        let (host, server) = world.host("helped", world.user(), &words);
        let helper = read_pid(&world.pid_file("helped").with_extension("pid.helper"));
        let wrapper = world.parent_of(world.parent_of(server));
        assert_eq!(left_over(&world), NOTHING);
        // While the server lives, the helper is part of the finding of the server.
        world.kill(&[host]);
        let finds = left_over(&world);
        assert_eq!(finds.len(), 1, "{finds:?}");
        assert!(finds[0].1.contains(&helper) && finds[0].1.contains(&server), "{finds:?}");
        world.kill(&[wrapper, world.parent_of(server), server]);
        assert_eq!(left_over(&world), [("orphaned_helper".to_owned(), vec![helper])]);
        world.end();
    }

    fn processes_in_use_are_not_listed(stage) {
        let world = World::new(stage);
        // Under a living host, started through npx and directly.
        let (_, hosted) = world.host("hosted", world.user(), &NPX);
        let (_, piped) = world.pipeline("alive", &["node", &server(&world, "y-mcp")]);
        // A user's own program and an editor's language server, both left behind like a server.
        let shop = server(&world, "shop");
        let (dead, own) = world.host("own", world.user(), &["node", &shop]);
        let language = server(&world, "typescript-language-server");
        let (editor, language) = world.host("language", world.user(), &["node", &language, "--stdio"]);
        // A server of another user, left behind.
        let (other_host, other) = world.host("other", world.other_user(), &NPX);
        world.kill(&[dead, editor, other_host]);
        assert_eq!(left_over(&world), NOTHING);
        let reap = world.ostler(&["reap"]);
        let said = String::from_utf8(reap.stdout).unwrap();
        assert_eq!(said, "nothing to reap: no dead owner has left anything\n");
        assert_eq!(world.ostler(&["doctor"]).status.code(), Some(0));
        assert!(world.ostler(&["reap", "--yes"]).status.success());
        for innocent in [hosted, piped, own, language, other] {
            assert!(world.is_alive(innocent));
        }
        world.end();
    }

    fn duplicates_across_hosts_and_secrets_are_reported(stage) {
        let world = World::new(stage);
        let script = server(&world, "y-mcp");
        let words = ["node", &script, "--api-key", "s3cret"];
        let mut copies = ["one", "two", "three"].map(|name| world.host(name, world.user(), &words).1);
        let finds = world.finds("duplicate_servers");
        assert_eq!(finds.len(), 1, "{finds:?}");
        let mut pids = pids_of(&finds[0]);
        pids.sort_unstable();
        copies.sort_unstable();
        assert_eq!(pids, copies);
        let saved = finds[0]["memory"].as_u64().unwrap();
        assert!(saved > 1_000_000, "{saved}");
        assert_eq!(finds[0]["host"], "Claude Code");
        let secrets = world.finds("secret_on_command_line");
        assert_eq!(secrets.len(), 3, "{secrets:?}");
        assert!(secrets[0]["evidence"][0].as_str().unwrap().ends_with("has --api-key …"), "{secrets:?}");
        let output = world.ostler(&["doctor"]);
        assert_eq!(output.status.code(), Some(0));
        assert!(!String::from_utf8(output.stdout).unwrap().contains("s3cret"));
        world.end();
    }
}
