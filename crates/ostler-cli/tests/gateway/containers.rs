//! Servers that are containers, shared by agents.

/// On the engine that the test command starts.
mod engine {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use ostler_testkit::{Dock, IMAGE, Stage, dock_rows, wait_until};
    use rustix::process::Signal;
    use serde_json::{Value, json};

    use crate::test_gateway::{Client, PATIENCE, TestGateway};

    /// An MCP server as a shell script.
    const SERVER: &str = r#"while read -r line; do
        id=${line#*'"id":'}; id=${id%%[,\}]*}
        case $line in
        *'"initialize"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"box","version":"1"}}}';;
        *'"never"'*) ;;
        *'"tools/call"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"content":[]}}';;
        esac
    done"#;

    /// A gateway whose only server is a container, with these keys.
    fn test_gateway<'d>(dock: &'d Dock, keys: &Value, caps: &Value) -> TestGateway<&'d Stage> {
        let test_gateway = TestGateway::new(dock.stage());
        // Shell variables are escaped from the configuration's templates.
        let script = SERVER.replace("${", "$${");
        let args = ["run", "-i", "--rm", IMAGE, "sh", "-c", &script];
        let mut entry = json!({ "command": "docker", "args": args, "grace": "300ms" });
        entry.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        test_gateway.write(&json!({ "mcpServers": { "box": entry }, "caps": caps }).to_string());
        test_gateway
    }

    fn agent(test_gateway: &TestGateway<&Stage>, dock: &Dock, name: &str) -> Client {
        let mut command = test_gateway.connect_command(&["box", "--agent", name]);
        Client::start(command.env("DOCKER_HOST", dock.docker().host()))
    }

    fn down(test_gateway: &TestGateway<&Stage>, dock: &Dock) {
        let ended = dock.ostler(&["down"]);
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        assert_eq!(dock.containers(), [""; 0], "none is left when it says so");
        test_gateway.expect_no_process();
    }

    dock_rows! {
        shared:

        fn s09_ten_agents_and_many_calls_are_one_container(dock) {
            let test_gateway = test_gateway(dock, &json!({ "share": "all" }), &json!({}));
            let mut seen = BTreeSet::new();
            let mut agents: Vec<Client> =
                (0..10).map(|n| agent(&test_gateway, dock, &format!("agent{n}"))).collect();
            for _ in 0..10 {
                for agent in &mut agents {
                    (0..10).for_each(|_| agent.echo());
                }
                seen.extend(dock.containers());
            }
            assert_eq!(seen.len(), 1);
            agents.into_iter().for_each(Client::end);
            down(&test_gateway, dock);
        }

        fn s11_the_number_of_containers_never_exceeds_the_cap(dock) {
            let caps = json!({ "containers": 2, "queueTimeout": "5s" });
            let test_gateway = test_gateway(dock, &json!({ "share": "session" }), &caps);
            let mut agents: Vec<Client> =
                (0..6).map(|n| agent(&test_gateway, dock, &format!("agent{n}"))).collect();
            for agent in &mut agents {
                agent.begin(7, "never", &json!({}));
            }
            test_gateway.expect_calls(2);
            assert_eq!(dock.containers().len(), 2);
            // The first response is the refusal of a caller that waited too long.
            let text = wait_until("a caller is refused", PATIENCE, || {
                let refused = agents.iter_mut().find_map(|agent| agent.0.line(Duration::ZERO).ok());
                refused.flatten().map(|line| String::from_utf8_lossy(&line).into_owned())
            });
            assert!(text.contains("the cap on containers is reached"), "{text}");
            assert_eq!(dock.containers().len(), 2);
            drop(agents);
            down(&test_gateway, dock);
        }

        fn s12_a_container_ends_with_the_last_session_of_its_agent(dock) {
            let test_gateway = test_gateway(dock, &json!({ "share": "session" }), &json!({}));
            let mut agents = [agent(&test_gateway, dock, "one"), agent(&test_gateway, dock, "other")];
            agents.iter_mut().for_each(Client::echo);
            assert_eq!(dock.containers().len(), 2);
            let [one, other] = agents;
            one.end();
            wait_until("its container is gone", PATIENCE, || dock.containers().len() == 1);
            other.end();
            dock.expect_no_containers();
            down(&test_gateway, dock);
        }

        fn s16_a_gateway_that_ends_or_is_killed_leaves_no_container(dock) {
            for signal in [Signal::TERM, Signal::KILL] {
                let test_gateway = test_gateway(dock, &json!({ "share": "agent" }), &json!({}));
                let mut agents: Vec<Client> =
                    (0..3).map(|n| agent(&test_gateway, dock, &format!("agent{n}"))).collect();
                agents.iter_mut().for_each(Client::echo);
                assert_eq!(dock.containers().len(), 3);
                test_gateway.signal(test_gateway.gateways()[0], signal);
                dock.expect_no_containers();
                drop(agents);
                test_gateway.expect_no_process();
            }
        }
    }

    dock_rows! {
        private:

        fn down_names_the_containers_that_are_left(dock) {
            let test_gateway = test_gateway(dock, &json!({ "share": "all" }), &json!({}));
            let mut agent = agent(&test_gateway, dock, "agent");
            agent.echo();
            dock.freeze_engine();
            let ended = dock.ostler(&["down"]);
            assert_eq!(ended.status.code(), Some(4), "{ended:?}");
            let said = String::from_utf8_lossy(&ended.stderr);
            assert!(said.starts_with("ostler: box: not all of it is gone ("), "{said}");
            drop(agent);
            dock.thaw_engine();
            dock.expect_no_containers();
            test_gateway.expect_no_process();
        }
    }
}
