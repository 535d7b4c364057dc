//! Sharing: the number of instances for a number of callers.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use ostler_testkit::{pids_in, rows, wait_until, zombies_of_any};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::test_gateway::{Client, PATIENCE, TestGateway};

rows! {
    fn l33_a_thousand_calls_are_one_process(stage) {
        let test_gateway = TestGateway::with(stage, &["a"], &json!({}));
        let mut client = test_gateway.client(&["a", "--agent", "one"]);
        (0..1000).for_each(|_| client.echo());
        assert_eq!(test_gateway.starts("a").len(), 1);
        client.end();
        test_gateway.down();
    }

    fn a_written_limit_of_instances_binds_servers_that_are_not_shared(stage) {
        for share in ["call", "session"] {
            let test_gateway = TestGateway::new(&stage);
            let census = test_gateway.sandbox.file(&format!("census-{share}"));
            let switches = ["--census", census.to_str().unwrap()];
            let more = json!({ "share": share, "maxInstances": 1 });
            test_gateway.configure(&[("a", test_gateway.stub("a", &switches, &more))]);
            let go = test_gateway.sandbox.file(&format!("go-{share}"));
            let mut clients: Vec<Client> = (0..3).map(|_| test_gateway.client(&["a"])).collect();
            for client in &mut clients {
                client.begin(100, "echo", &json!({ "until": go }));
            }
            wait_until("all of them have asked for an instance", PATIENCE, || {
                test_gateway.ostler(&["events"]).matches("queued").count() >= 3
            });
            std::fs::write(&go, "").unwrap();
            for client in &mut clients {
                let answer = client.0.message(PATIENCE);
                assert!(answer["result"].is_object(), "{answer}");
            }
            let alive = pids_in(&census.with_extension("alive"));
            assert_eq!(alive.into_iter().max(), Some(1), "{share}");
            clients.into_iter().for_each(Client::end);
            test_gateway.down();
        }
    }

    fn s06_the_handshake_is_paid_once(stage) {
        let test_gateway = TestGateway::with(stage, &["a"], &json!({}));
        for _ in 0..5 {
            let mut client = test_gateway.client(&["a", "--agent", "one"]);
            client.echo();
            client.end();
        }
        assert_eq!(test_gateway.starts("a").len(), 1);
        test_gateway.down();
    }

    fn l34_sessions_leave_nothing_when_they_end(stage) {
        let test_gateway = TestGateway::with(stage, &["a", "b", "c", "d"], &json!({ "share": "session" }));
        let mut clients: Vec<Client> = (0..5).map(|_| test_gateway.client(&[])).collect();
        for client in &mut clients {
            client.0.call("tools/list", &json!({}));
            for name in ["a__echo", "b__echo", "c__echo", "d__echo"] {
                client.tool(name, &json!({}));
            }
        }
        assert_eq!(test_gateway.named("ostler-stub").len(), 20);
        clients.into_iter().for_each(Client::end);
        test_gateway.expect_no_server();
        assert_eq!(test_gateway.gateways().len(), 1);
        test_gateway.down();
    }

    fn s09_agents_share_a_server_that_is_shared_by_all(stage) {
        let test_gateway = TestGateway::with(stage, &["a", "b"], &json!({ "share": "all" }));
        let agent = |number: usize| test_gateway.client(&["--agent", &format!("agent {number}")]);
        let mut clients: Vec<Client> = (0..10).map(agent).collect();
        clients.iter_mut().for_each(Client::look);
        for _ in 0..50 {
            for client in &mut clients {
                client.tool("a__echo", &json!({}));
                client.tool("b__echo", &json!({}));
            }
        }
        assert_eq!((test_gateway.starts("a").len(), test_gateway.starts("b").len()), (1, 1));
        clients.into_iter().for_each(Client::end);
        test_gateway.down();
    }

    fn s12_the_instance_of_an_agent_ends_with_its_last_session(stage) {
        let test_gateway = TestGateway::with(stage, &["a"], &json!({}));
        let mut shared = [test_gateway.client(&["a", "--agent", "named"]), test_gateway.client(&["a", "--agent", "named"])];
        let mut own = test_gateway.client(&["a"]);
        shared.iter_mut().for_each(Client::echo);
        own.echo();
        assert_eq!(test_gateway.starts("a").len(), 2);
        let (named, unnamed) = (test_gateway.starts("a")[0], test_gateway.starts("a")[1]);
        own.end();
        wait_until("the instance of the session ends", PATIENCE, || !ostler_testkit::is_alive(unnamed));
        assert!(ostler_testkit::is_alive(named));
        shared.into_iter().for_each(Client::end);
        test_gateway.down();
    }

    fn a_claude_session_shares_its_projects_server_which_ends_soon_after_the_last_one(stage) {
        let test_gateway = TestGateway::new(stage);
        test_gateway.configure_with(&[("a", test_gateway.stub("a", &[], &json!({})))], &json!({ "agentTimeout": "1s" }));
        let session = |id: &str| {
            let mut command = test_gateway.connect_command(&["a"]);
            Client::start(command.env("CLAUDE_CODE_SESSION_ID", id).env("CLAUDE_PROJECT_DIR", "/project"))
        };
        let (mut first, mut second) = (session("1"), session("2"));
        first.echo();
        second.echo();
        assert_eq!(test_gateway.starts("a").len(), 1);
        first.end();
        // A client that restarts within the time gets the same instance.
        second.end();
        let mut third = session("3");
        third.echo();
        assert_eq!(test_gateway.starts("a").len(), 1);
        third.end();
        test_gateway.expect_no_server();
        test_gateway.down();
    }

    fn s10_no_ended_process_stays_a_zombie(stage) {
        let test_gateway = TestGateway::with(stage, &["a"], &json!({ "share": "call", "maxInstances": 4 }));
        let mut client = test_gateway.client(&["a"]);
        for _ in 0..20 {
            client.echo();
            let family: Vec<u32> = test_gateway.gateways().into_iter().chain(test_gateway.guardians()).collect();
            wait_until("there is no zombie", PATIENCE, || zombies_of_any(&family).is_empty());
        }
        client.end();
        test_gateway.down();
    }

    fn s14_a_killed_server_starts_again_only_for_a_call(stage) {
        let test_gateway = TestGateway::with(stage, &["a", "b"], &json!({ "share": "all" }));
        let mut clients: Vec<Client> = (0..5).map(|_| test_gateway.client(&["a"])).collect();
        clients.iter_mut().for_each(Client::echo);
        test_gateway.expect_known_tools();
        let first = test_gateway.starts("a")[0];
        test_gateway.signal(first, Signal::KILL);
        test_gateway.expect_no_server();
        // Every client lists; none of the lists may start the server.
        clients.iter_mut().for_each(Client::look);
        assert_eq!(test_gateway.starts("a").len(), 1);
        clients[0].echo();
        assert_eq!(test_gateway.starts("a").len(), 2);
        clients.iter_mut().for_each(Client::echo);
        assert_eq!(test_gateway.starts("a").len(), 2);
        clients.into_iter().for_each(Client::end);
        test_gateway.down();
    }

    fn l35_the_idle_instance_is_evicted_first(stage) {
        let test_gateway = TestGateway::new(stage);
        let names = ["a", "b", "c"];
        let servers: serde_json::Map<String, Value> = names
            .iter()
            .map(|name| ((*name).to_owned(), test_gateway.stub(name, &[], &json!({ "share": "all" }))))
            .collect();
        let caps = json!({ "instances": 2, "queueTimeout": "200ms" });
        test_gateway.write(&json!({ "mcpServers": servers, "caps": caps }).to_string());
        let mut clients: Vec<Client> = names.iter().map(|name| test_gateway.client(&[name])).collect();
        clients[1].begin(7, "echo", &json!({ "never": true }));
        test_gateway.expect_calls(1);
        // Idle instances make room for others, one after the other.
        clients[0].echo();
        let idle = *test_gateway.starts("a").last().unwrap();
        clients[2].begin(7, "echo", &json!({ "never": true }));
        test_gateway.expect_calls(2);
        wait_until("the idle one is gone", PATIENCE, || !ostler_testkit::is_alive(idle));
        // Now no instance is idle.
        let refused = clients[0].0.call("tools/call", &json!({ "name": "echo", "arguments": {} }));
        let text = refused["error"]["message"].as_str().unwrap();
        assert!(text.contains("the cap on instances is reached"), "{refused}");
        assert_eq!(test_gateway.instances().len(), 2);
        drop(clients);
        test_gateway.down();
    }

    fn l36_a_call_in_flight_keeps_its_server(stage) {
        let test_gateway = TestGateway::new(stage);
        let idle = |time: &str| json!({ "share": "all", "idleTimeout": time });
        test_gateway.configure(&[
            ("brief", test_gateway.stub("brief", &[], &idle("200ms"))),
            ("lasting", test_gateway.stub("lasting", &[], &idle("never"))),
        ]);
        let mut clients = [test_gateway.client(&["brief"]), test_gateway.client(&["lasting"])];
        clients.iter_mut().for_each(Client::echo);
        let (brief, lasting) = (test_gateway.starts("brief")[0], test_gateway.starts("lasting")[0]);
        wait_until("the idle one is gone", PATIENCE, || !ostler_testkit::is_alive(brief));
        assert!(ostler_testkit::is_alive(lasting));
        // A call in flight counts as use for any duration.
        clients[0].begin(7, "echo", &json!({ "delayMs": 1000 }));
        assert_eq!(clients[0].0.message(PATIENCE)["id"], 7);
        assert_eq!(test_gateway.starts("brief").len(), 2);
        clients.into_iter().for_each(Client::end);
        test_gateway.down();
    }

    fn s13_s15_idle_clients_start_nothing_and_cost_nothing(stage) {
        let test_gateway = TestGateway::with(stage, &["a", "b"], &json!({ "share": "all", "idleTimeout": "100ms" }));
        let mut gateway = test_gateway.serve(&[]);
        let base = files_of(gateway.pid());
        let visit = || {
            let mut clients: Vec<Client> = (0..10).map(|n| test_gateway.client(&[["a", "b"][n % 2]])).collect();
            clients.iter_mut().for_each(Client::echo);
            clients
        };
        let clients = visit();
        test_gateway.expect_no_server();
        let starts = test_gateway.starts("a").len() + test_gateway.starts("b").len();
        let (before, begin) = (cpu_of(gateway.pid()), Instant::now());
        // Ten idle times, with all clients there.
        wait_until("time has passed", PATIENCE, || begin.elapsed() > Duration::from_secs(1));
        assert_eq!(test_gateway.starts("a").len() + test_gateway.starts("b").len(), starts);
        assert!(cpu_of(gateway.pid()) - before <= 5, "{} ticks", cpu_of(gateway.pid()) - before);
        clients.into_iter().for_each(Client::end);
        for _ in 0..5 {
            visit().into_iter().for_each(Client::end);
            test_gateway.expect_no_server();
        }
        wait_until("its descriptors are as many as before", PATIENCE, || files_of(gateway.pid()) <= base + 2);
        test_gateway.down_with(&mut gateway);
    }

    fn two_users_credentials_never_meet(stage) {
        let test_gateway = TestGateway::new(stage);
        let entry = test_gateway.stub("a", &[], &json!({ "env": { "T": "${MY_TOKEN}" }, "share": "all" }));
        test_gateway.configure(&[("a", entry)]);
        let with = |token: &str| {
            Client::start(test_gateway.connect_command(&["a"]).env("MY_TOKEN", token))
        };
        let mut clients = [with("one"), with("one"), with("two")];
        clients.iter_mut().for_each(Client::echo);
        let pids: BTreeSet<u32> = test_gateway.starts("a").into_iter().collect();
        let tokens: BTreeSet<String> = pids.iter().map(|pid| variable(*pid, "T=")).collect();
        assert_eq!((pids.len(), tokens), (2, BTreeSet::from(["one".into(), "two".into()])));
        clients.into_iter().for_each(Client::end);
        test_gateway.down();
    }
}

fn files_of(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// Processor time, in ticks.
fn cpu_of(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields = stat.rsplit(')').next().unwrap().split_whitespace();
    fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

fn variable(pid: u32, name: &str) -> String {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
    let text = String::from_utf8_lossy(&environment).into_owned();
    text.split('\0').find_map(|one| one.strip_prefix(name)).unwrap().to_owned()
}
