//! Clients inside an instance: which gateway serves them, and when it ends.

use std::path::PathBuf;

use ostler_testkit::{Launched, Stage, rows, strict_rows, wait_until};
use rustix::process::Signal;
use serde_json::json;

use crate::test_gateway::{Client, PATIENCE, TestGateway};

/// The ways in which a fence ends.
const ENDS: [fn(&mut Launched); 3] =
    [Launched::close_stdin, |run| run.signal(Signal::TERM), |run| run.signal(Signal::KILL)];

/// `ostler connect` with the configuration, as words of a command line.
fn connect_words(test_gateway: &TestGateway, words: &[&str]) -> Vec<String> {
    let config = test_gateway.config().display().to_string();
    let all = [&["connect"], words, &["--config", &config]].concat();
    std::iter::once(test_gateway.program()).chain(all.into_iter().map(str::to_owned)).collect()
}

/// A client inside of a fence of its own, after its handshake.
fn client_in_fence(test_gateway: &TestGateway, prefix: &[&str]) -> Client {
    let prefix = prefix.iter().map(ToString::to_string).collect();
    Client::start(&mut test_gateway.run(&[prefix, connect_words(test_gateway, &["a"])].concat()))
}

/// The sockets of gateways that serve one instance only.
fn private_sockets(test_gateway: &TestGateway) -> Vec<PathBuf> {
    let places = std::fs::read_dir(test_gateway.sandbox.runtime().join("ostler/inside"));
    let paths = places.into_iter().flatten().flatten().map(|entry| entry.path());
    paths.filter(|path| path.extension().is_some_and(|end| end == "sock")).collect()
}

/// Ends a fence, and waits until exactly these gateways are left, each with nothing but what its own clients use.
fn end_fence(test_gateway: &TestGateway, mut fence: Client, end: fn(&mut Launched), left: &[u32]) {
    end(&mut fence.0);
    test_gateway.wait_exit(&mut fence.0);
    wait_until("its gateway has ended with it", PATIENCE, || test_gateway.gateways() == left);
}

/// A gateway inside the fence beside the shared one, ended in every way.
fn a_fence_and_a_client_outside(stage: Stage, prefix: &[&str]) {
    let test_gateway = TestGateway::with(stage, &["a"], &json!({ "share": "all" }));
    let mut starts = 0;
    for end in ENDS {
        let mut inside = client_in_fence(&test_gateway, prefix);
        inside.echo();
        let own = test_gateway.gateways();
        assert_eq!(own.len(), 1);
        let mut outside = test_gateway.client(&["a"]);
        outside.echo();
        let shared: Vec<u32> =
            test_gateway.gateways().into_iter().filter(|pid| !own.contains(pid)).collect();
        assert_eq!(shared.len(), 1, "the gateway of a fence serves that fence only");
        inside.echo();
        end_fence(&test_gateway, inside, end, &shared);
        outside.echo();
        starts += 2;
        assert_eq!(test_gateway.starts("a").len(), starts);
        // The gateway, its client, and its server with a guardian.
        wait_until("only the shared gateway's are left", PATIENCE, || {
            test_gateway.sandbox.survivors().pids().len() == 4
        });
        outside.end();
        test_gateway.down();
    }
}

rows! {
    fn a_gateway_inside_a_fence_ends_with_it_and_serves_no_other_client(stage) {
        a_fence_and_a_client_outside(stage, &[]);
    }

    fn a_client_with_an_empty_environment_is_recognised_inside_a_fence(stage) {
        // As most clients start their servers.
        a_fence_and_a_client_outside(stage, &["env", "-u", "OSTLER_INSTANCE"]);
    }

    fn a_client_in_a_fence_joins_a_gateway_that_runs(stage) {
        let test_gateway = TestGateway::with(stage, &["a"], &json!({ "share": "all" }));
        for end in ENDS {
            let mut outside = test_gateway.client(&["a"]);
            outside.echo();
            let shared = test_gateway.gateways();
            let mut inside = client_in_fence(&test_gateway, &[]);
            inside.echo();
            assert_eq!((test_gateway.gateways(), shared.len()), (shared.clone(), 1));
            end_fence(&test_gateway, inside, end, &shared);
            outside.echo();
            assert_eq!(private_sockets(&test_gateway), Vec::<PathBuf>::new());
            outside.end();
            test_gateway.down();
        }
    }

    fn clients_of_one_fence_share_its_gateway(stage) {
        let test_gateway = TestGateway::with(stage, &["a"], &json!({ "share": "all" }));
        let fifo = test_gateway.sandbox.file("fifo");
        let script = r#"mkfifo "$FIFO"; "$@" <>"$FIFO" >/dev/null & exec "$@""#;
        let words = ["sh", "-c", script, "sh"].map(str::to_owned).to_vec();
        let mut command = test_gateway.run(&[words, connect_words(&test_gateway, &["a"])].concat());
        let mut inside = Client::start(command.env("FIFO", fifo));
        inside.echo();
        let socket = private_sockets(&test_gateway).remove(0);
        let words = ["sessions", "--json", "--socket", socket.to_str().unwrap()];
        wait_until("both are connected", PATIENCE, || {
            test_gateway.ostler_json(&words).as_array().unwrap().len() == 2
        });
        assert_eq!(test_gateway.gateways().len(), 1);
        end_fence(&test_gateway, inside, ENDS[0], &[]);
        test_gateway.expect_no_process();
    }

    fn no_client_outside_joins_the_gateway_of_a_fence(stage) {
        let test_gateway = TestGateway::with(stage, &["a"], &json!({}));
        let mut inside = client_in_fence(&test_gateway, &[]);
        let socket = private_sockets(&test_gateway).remove(0);
        let mut outside = Launched::start(test_gateway.connect_command(&["a"]).arg("--socket").arg(&socket));
        assert_eq!(test_gateway.wait_exit(&mut outside).code(), Some(1));
        let said = outside.stderr();
        assert!(said.contains("serves only clients inside of instance"), "{said}");
        // A client of another fence does not join it either.
        let words = connect_words(&test_gateway, &["a", "--socket", socket.to_str().unwrap()]);
        let mut other = Launched::start(&mut test_gateway.run(&words));
        assert_eq!(test_gateway.wait_exit(&mut other).code(), Some(1));
        assert!(other.stderr().contains("serves only clients inside of instance"), "{}", other.stderr());
        inside.echo();
        end_fence(&test_gateway, inside, ENDS[2], &[]);
        test_gateway.expect_no_process();
    }

    fn a_server_may_itself_be_a_client_of_its_gateway(stage) {
        let test_gateway = TestGateway::new(stage);
        let entry = |server: &str| {
            let words = connect_words(&test_gateway, &[server]);
            // Ostler's own variables are not inherited.
            let env = json!({ "OSTLER_RUNTIME_DIR": test_gateway.sandbox.runtime() });
            json!({ "command": words[0], "args": words[1..], "env": env, "share": "all", "grace": "2s" })
        };
        let own = test_gateway.stub("a", &[], &json!({ "share": "all" }));
        test_gateway.configure(&[("a", own), ("b", entry("a")), ("c", entry("b"))]);
        // Outside, then below the gateway of a fence: each time there is one gateway and one server of each kind.
        for (is_inside, starts) in [(false, 1), (true, 2)] {
            let words = connect_words(&test_gateway, &["c"]);
            let mut client = if is_inside {
                Client::start(&mut test_gateway.run(&words))
            } else {
                test_gateway.client(&["c"])
            };
            client.echo();
            assert_eq!((test_gateway.gateways().len(), test_gateway.starts("a").len()), (1, starts));
            assert_eq!(test_gateway.guardians().len(), 3 + usize::from(is_inside));
            if is_inside {
                end_fence(&test_gateway, client, ENDS[2], &[]);
            } else {
                client.end();
                test_gateway.down();
            }
            test_gateway.expect_no_process();
        }
    }

    fn a_gateway_in_the_foreground_of_a_fence_serves_that_fence_only(stage) {
        let test_gateway = TestGateway::with(stage, &["a"], &json!({}));
        let config = test_gateway.config().display().to_string();
        // Started by a shell, so that a client can be started beside it.
        let script = r#""$0" serve --config "$1" & while [ -z "$(ls "$2"/ostler/inside/*.sock)" ]; do sleep 0.05; done
            exec "$0" connect a --config "$1""#;
        let runtime = test_gateway.sandbox.runtime().display().to_string();
        let words = ["sh", "-c", script, &test_gateway.program(), &config, &runtime];
        let mut inside = Client::start(&mut test_gateway.run(&words));
        inside.echo();
        assert_eq!(test_gateway.gateways(), [0; 0], "it is served by the one in the foreground");
        let mut outside = test_gateway.client(&["a"]);
        outside.echo();
        let shared = test_gateway.gateways();
        assert_eq!(shared.len(), 1);
        end_fence(&test_gateway, inside, ENDS[2], &shared);
        outside.echo();
        outside.end();
        test_gateway.down();
    }

    fn fences_and_clients_that_come_at_once_get_a_gateway_each(stage) {
        let test_gateway = TestGateway::with(stage, &["a"], &json!({ "share": "all" }));
        let words = connect_words(&test_gateway, &["a"]);
        let fences: Vec<Launched> = (0..4).map(|_| Launched::start(&mut test_gateway.run(&words))).collect();
        let clients: Vec<Launched> =
            (0..4).map(|_| Launched::start(&mut test_gateway.connect_command(&["a"]))).collect();
        let mut all: Vec<Client> = fences.into_iter().chain(clients).map(Client).collect();
        for client in &mut all {
            assert!(client.0.initialize()["result"].is_object());
            client.echo();
        }
        // Clients of a fence that started late have joined the shared gateway.
        let shared = test_gateway.gateways().len() - private_sockets(&test_gateway).len();
        assert_eq!(shared, 1);
        for mut fence in all.drain(..4) {
            fence.0.signal(Signal::KILL);
            test_gateway.wait_exit(&mut fence.0);
        }
        wait_until("only the shared one is left", PATIENCE, || test_gateway.gateways().len() == 1);
        for mut client in all {
            client.echo();
            client.end();
        }
        test_gateway.down();
    }
}

mod strict {
    use super::*;

    strict_rows! {
        fn a_gateway_inside_a_fence_ends_with_it_and_serves_no_other_client(stage) {
            a_fence_and_a_client_outside(stage, &[]);
        }
    }
}

/// A daemon has no parent in the fence but the guardian.
#[test]
fn a_client_of_a_daemon_is_recognised_inside_a_fence() {
    let test_gateway = TestGateway::with(Stage::tree(), &["a"], &json!({}));
    let script =
        r#"mkfifo "$FIFO"; (env -u OSTLER_INSTANCE setsid "$@" <>"$FIFO" >/dev/null &); exec cat"#;
    let words = ["sh", "-c", script, "sh"].map(str::to_owned).to_vec();
    let mut command = test_gateway.run(&[words, connect_words(&test_gateway, &["a"])].concat());
    let mut run = Launched::start(command.env("FIFO", test_gateway.sandbox.file("fifo")));
    wait_until("it has a gateway of its own", PATIENCE, || {
        private_sockets(&test_gateway).len() == 1
    });
    let environment =
        std::fs::read(format!("/proc/{}/environ", test_gateway.gateways()[0])).unwrap();
    let environment = String::from_utf8(environment).unwrap();
    assert!(environment.contains("OSTLER_INSTANCE="), "without the mark no sweep would find it");
    run.close_stdin();
    test_gateway.wait_exit(&mut run);
    test_gateway.expect_no_process();
}

/// The killed gateway could not remove its socket and its log.
#[test]
fn the_next_sweep_removes_the_files_of_a_killed_gateway_of_a_fence() {
    let test_gateway = TestGateway::with(Stage::leaf(), &["a"], &json!({}));
    let mut inside = client_in_fence(&test_gateway, &[]);
    test_gateway.signal(test_gateway.gateways()[0], Signal::KILL);
    test_gateway.wait_exit(&mut inside.0);
    test_gateway.expect_no_process();
    assert_eq!(private_sockets(&test_gateway).len(), 1);
    test_gateway.ostler(&["reap", "--yes"]);
    let directory = test_gateway.sandbox.runtime().join("ostler/inside");
    let left: Vec<_> = std::fs::read_dir(directory).unwrap().flatten().map(|e| e.path()).collect();
    assert_eq!(left, Vec::<PathBuf>::new());
}

/// The gateway's log is beside its socket, and the client prints it if the gateway does not start.
#[test]
fn a_client_is_told_why_the_gateway_of_its_fence_does_not_start() {
    let test_gateway = TestGateway::new(Stage::leaf());
    test_gateway.write("{ \"mcpServers\": { \"a\": { \"comand\": \"x\" } } }");
    let mut client = Launched::start(&mut test_gateway.run(&connect_words(&test_gateway, &["a"])));
    assert_eq!(test_gateway.wait_exit(&mut client).code(), Some(1));
    assert!(client.stderr().contains("ostler.json:1:"), "{}", client.stderr());
    test_gateway.expect_no_process();
}

#[test]
fn a_server_that_is_its_own_client_is_refused_in_time() {
    let test_gateway = TestGateway::new(Stage::leaf());
    let words = connect_words(&test_gateway, &["a"]);
    let own =
        json!({ "command": words[0], "args": words[1..], "startTimeout": "2s", "grace": "300ms" });
    test_gateway.configure(&[("a", own)]);
    let mut client = Launched::start(&mut test_gateway.connect_command(&["a"]));
    client.initialize();
    let answer = client.call("tools/call", &json!({ "name": "echo", "arguments": {} }));
    assert!(answer["error"].is_object(), "{answer}");
    client.close_stdin();
    test_gateway.wait_exit(&mut client);
    test_gateway.down();
}
