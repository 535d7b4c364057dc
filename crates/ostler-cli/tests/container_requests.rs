//! Engine requests in forms that the docker command does not use but other clients do.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

/// Tests on the shared engine of the test run.
mod engine {
    use std::time::Duration;

    use ostler_testkit::{Dock, IMAGE, Launched, Stage, dock_rows, wait_until};
    use serde_json::{Value, json};

    const PATIENCE: Duration = Duration::from_secs(30);

    /// A server that sends each line of its input as the body of a request, and prints status and response.
    const CREATOR: &str = r"
        const socketPath = process.env.DOCKER_HOST.slice('unix://'.length);
        const ask = (path, body) => {
            const headers = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) };
            const options = { socketPath, path: '/v1.41' + path, method: 'POST', headers };
            const request = require('http').request(options, answer => {
                let text = '';
                answer.setEncoding('utf8').on('data', part => text += part);
                answer.on('end', () => console.log(JSON.stringify([answer.statusCode, text])));
            });
            request.end(body);
        };
        require('readline').createInterface({ input: process.stdin })
            .on('line', line => ask(...line.split(' ', 1).concat(line.slice(line.indexOf(' ') + 1))))
            .on('close', () => process.exit());
    ";

    /// Sends a request, and returns status and body of the response.
    fn ask(run: &mut Launched, path: &str, body: &str) -> (u64, Value) {
        run.write(format!("{path} {body}\n").as_bytes(), PATIENCE).unwrap();
        let line = run.line(PATIENCE).unwrap().unwrap();
        let answer: (u64, String) = serde_json::from_slice(&line).unwrap();
        (answer.0, serde_json::from_str(&answer.1).unwrap())
    }

    fn creator(dock: &Dock) -> Launched {
        Launched::start(&mut dock.run_with(&[], &["node", "-e", CREATOR]))
    }

    dock_rows! {
        shared:

        /// Docker up to 20.10 reads them as members of a missing `HostConfig`.
        fn r12_host_config_members_at_the_top_level_are_edited_too(dock) {
            let mut run = creator(dock);
            let socket = dock.docker().socket().to_str().unwrap();
            let config = json!({
                "RestartPolicy": {"Name": "always"},
                "Binds": [format!("{socket}:/bound.sock")],
                "Mounts": [{"Type": "bind", "Source": socket, "Target": "/mounted.sock"}],
            });
            let beside = config.to_string();
            // In another case, and with escaped letters.
            let odd = beside.replace("RestartPolicy", "restartPOLICY");
            let odd = odd.replace("Binds", "\\u0042inds").replace("Mounts", "mount\u{17F}");
            let with_null = beside.replacen('{', "{\"hostConfig\":null,", 1);
            let inside = json!({"HostConfig": config}).to_string();
            for config in [beside, odd, with_null, inside] {
                let body = format!(r#"{{"Image":"{IMAGE}","Cmd":["true"],{}"#, &config[1..]);
                let body = body.as_str();
                let (status, answer) = ask(&mut run, "/containers/create", body);
                assert_eq!(status, 201, "{answer}");
                let found = dock.inspect(answer["Id"].as_str().unwrap());
                assert_eq!(found["HostConfig"]["RestartPolicy"]["Name"], "no", "{body}");
                let text = found["HostConfig"].to_string();
                assert!(!text.contains(socket), "{body}: {text}");
                assert_eq!(text.matches("/doors/").count(), 2, "{body}: {text}");
            }
            run.close_stdin();
            dock.stage().wait_exit(&mut run);
            dock.expect_empty();
        }

        /// The engine would use the first member, because `null` changes nothing.
        fn r12_duplicate_members_are_refused(dock) {
            let mut run = creator(dock);
            let policy = r#"{"Name":"always","Name":null}"#;
            for body in [
                format!(r#"{{"Image":"{IMAGE}","Cmd":["true"],"HostConfig":{{"RestartPolicy":{policy}}}}}"#),
                format!(r#"{{"Image":"{IMAGE}","Cmd":["true"],"RestartPolicy":{{"Name":"always"}},"restartPolicy":null}}"#),
                format!(r#"{{"Image":"{IMAGE}","Cmd":["true"],"Labels":{{}},"labels":{{"ostler.instance":null}}}}"#),
            ] {
                let (status, answer) = ask(&mut run, "/containers/create", &body);
                assert_eq!(status, 400, "{body}: {answer}");
            }
            assert_eq!(dock.containers(), Vec::<String>::new());
            run.close_stdin();
            dock.stage().wait_exit(&mut run);
            dock.expect_empty();
        }

        fn an_engine_plugin_is_not_enabled(dock) {
            let mut run = creator(dock);
            let (status, answer) = ask(&mut run, "/plugins/some/plugin/enable?timeout=0", "{}");
            assert_eq!(status, 403);
            assert!(answer["message"].as_str().unwrap().contains("an enabled plugin of the engine"), "{answer}");
            run.close_stdin();
            dock.stage().wait_exit(&mut run);
            dock.expect_empty();
        }
    }

    /// The inner ostler reports that the outer one tracks its containers, and they end with the outer server.
    #[test]
    fn an_ostler_inside_a_server_leaves_containers_to_the_outer_one() {
        let dock = &Dock::shared(Stage::leaf());
        let inner = dock.stage().run_words();
        let script = format!("docker run -d {IMAGE} sleep 100000; exec cat");
        let words: Vec<&str> =
            inner.iter().map(String::as_str).chain(["sh", "-c", &script]).collect();
        let mut run = Launched::start(&mut dock.run_with(&[], &words));
        dock.await_running(1);
        let said = "its containers, if any, are not followed: they end with the server that this ostler runs in";
        wait_until("the reason is printed", PATIENCE, || run.stderr().contains(said));
        run.close_stdin();
        dock.stage().wait_exit(&mut run);
        dock.expect_empty();
    }
}
