//! `reap FIND-ID` ends exactly the process tree of that finding.

use ostler_testkit::rows;
use serde_json::{Value, json};

use crate::world::{World, pids_of, read_pid};

/// The only finding of an orphan.
fn find(world: &World) -> Value {
    let report = world.json(&["reap", "--json"]);
    let finds = report.as_array().unwrap();
    assert_eq!(finds.len(), 1, "{report}");
    assert_eq!(finds[0]["certainty"], "likely");
    finds[0].clone()
}

/// An orphan behind npx with a helper in a session of its own: the server's pid and the helper's.
fn plant(world: &World, switches: &[&str]) -> (i32, i32) {
    let words = [&["npx", "--no", "--", "x-mcp", "--helper"], switches].concat();
    let (host, server) = world.host("planted", world.user(), &words);
    world.kill(&[host]);
    (server, read_pid(&world.pid_file("planted").with_extension("pid.helper")))
}

rows! {
    fn a_find_ends_with_its_wrappers_and_helpers(stage) {
        let world = World::new(stage);
        let (server, helper) = plant(&world, &[]);
        let (_, innocent) = world.host("innocent", world.user(), &["npx", "--no", "--", "x-mcp"]);
        let find = find(&world);
        let id = find["id"].as_str().unwrap();
        let pids = pids_of(&find);
        assert!(pids.contains(&server) && pids.contains(&helper), "{find}");

        // Without an id, --yes ends only certain findings; without --yes nothing is ended.
        let certain = world.ostler(&["reap", "--yes"]);
        let said = String::from_utf8(certain.stdout).unwrap();
        assert_eq!(said, "nothing to reap: no dead owner has left anything\n");
        let shown = world.ostler(&["reap", id]);
        let said = String::from_utf8(shown.stdout).unwrap();
        assert!(said.ends_with(&format!("Nothing was touched. To end it: ostler reap {id} --yes\n")), "{said}");
        assert!(shown.status.success() && pids.iter().all(|pid| world.is_alive(*pid)));

        let ended = world.ostler(&["reap", id, "--yes"]);
        let said = String::from_utf8(ended.stdout).unwrap();
        assert!(said.starts_with(&format!("{id} (x-mcp): gone, {} processes, ", pids.len())), "{said}");
        assert!(ended.status.success() && !pids.iter().any(|pid| world.is_alive(*pid)));
        assert!(world.is_alive(innocent));

        // The id of an ended finding names nothing.
        let again = world.ostler(&["reap", id, "--yes"]);
        let complaint = String::from_utf8(again.stderr).unwrap();
        assert!(complaint.starts_with(&format!("ostler: there is no find {id}: ")), "{complaint}");
        assert_eq!(again.status.code(), Some(3));
        world.end();
    }

    fn l08_a_server_that_ignores_term_is_killed(stage) {
        let world = World::new(stage);
        let (server, _) = plant(&world, &["--stubborn"]);
        let id = find(&world)["id"].as_str().unwrap().to_owned();
        let ended = world.json(&["reap", &id, "--yes", "--json"]);
        assert_eq!((&ended[0]["outcome"], &ended[0]["left"]), (&json!("gone"), &Value::Null), "{ended}");
        assert!(!world.is_alive(server));
        world.end();
    }

    // The id of an earlier process with the same pid.
    fn l07_a_recycled_pid_is_not_touched(stage) {
        let world = World::new(stage);
        let (server, _) = plant(&world, &[]);
        let find = find(&world);
        let root = &find["processes"][0];
        let stale = format!("p{}-1a", root["pid"]);
        assert_ne!(find["id"], stale.as_str());
        let output = world.ostler(&["reap", &stale, "--yes"]);
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        assert!(world.is_alive(server));
        world.end();
    }

    fn an_id_that_names_no_finding_is_refused(stage) {
        let world = World::new(stage);
        let (_, hosted) = world.host("hosted", world.user(), &["npx", "--no", "--", "x-mcp"]);
        for (id, code) in [("node", 2), ("x-mcp", 2), ("p1", 2), ("p1-1", 3), ("c0123456789ab", 3), ("i0123456789ab", 3)] {
            let output = world.ostler(&["reap", id, "--yes"]);
            assert_eq!(output.status.code(), Some(code), "{id}: {output:?}");
            assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{id}: {output:?}");
        }
        // An orphan of another user is not reported to this one.
        let (host, other) = world.host("other", world.other_user(), &["npx", "--no", "--", "x-mcp"]);
        world.kill(&[host]);
        assert_eq!(world.json(&["reap", "--json"]), json!([]));
        assert!(world.is_alive(hosted) && world.is_alive(other));
        world.end();
    }

    fn reap_does_not_end_processes_that_are_only_advice(stage) {
        let world = World::new(stage);
        let script = world.path("node_modules/y-mcp/cli.js").display().to_string();
        let (_, server) = world.host("secret", world.user(), &["node", &script, "--token", "s3cret"]);
        let find = world.finds("secret_on_command_line").remove(0);
        let id = find["id"].as_str().unwrap();
        let output = world.ostler(&["reap", id, "--yes"]);
        let complaint = String::from_utf8(output.stderr).unwrap();
        let expected = format!(
            "ostler: {id} (secret on a command line) is nothing to end; `ostler doctor` says what to do\n"
        );
        assert_eq!((output.status.code(), complaint), (Some(1), expected));
        assert!(world.is_alive(server));
        world.end();
    }
}
