//! Containers of Docker's MCP gateway.

/// On the engine that the test command starts.
mod engine {
    use std::process::{Child, Command, Stdio};

    use ostler_testkit::{Dock, IMAGE, dock_rows, wait_until};
    use serde_json::{Value, json};

    use crate::PATIENCE;

    /// The labels that the gateway sets.
    fn labels(server: &str) -> [String; 8] {
        let name = format!("docker-mcp-name={server}");
        [
            "-l",
            "docker-mcp=true",
            "-l",
            "docker-mcp-tool-type=mcp",
            "-l",
            &name,
            "-l",
            "docker-mcp-transport=stdio",
        ]
        .map(str::to_owned)
    }

    /// A docker command, which ends with the test.
    struct Client(Child);

    impl Client {
        fn kill(&mut self) {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }

    impl Drop for Client {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// A container of the gateway with the docker command that is its client.
    fn plant(dock: &Dock, server: &str) -> (Client, String) {
        let file = dock.stage().sandbox.file(&format!("{server}.cid"));
        let mut command: Command = dock.docker().command();
        command.args(["run", "--rm", "-i", "--init", "--cidfile"]).arg(&file).args(labels(server));
        command.args([IMAGE, "sleep", "1000000"]).stdin(Stdio::piped()).stdout(Stdio::null());
        let client = Client(command.stderr(Stdio::null()).spawn().unwrap());
        let id = wait_until("the container runs", PATIENCE, || {
            let id = std::fs::read_to_string(&file).ok().filter(|id| id.len() == 64)?;
            (dock.docker().state(&id) == "running").then_some(id)
        });
        (client, id)
    }

    fn finds(dock: &Dock) -> Vec<Value> {
        let output = dock.ostler(&["doctor", "--json"]);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let finds = report["finds"].as_array().unwrap().iter();
        finds.filter(|find| find["kind"] == "orphaned_container").cloned().collect()
    }

    fn ids(finds: &[Value]) -> Vec<&str> {
        finds.iter().map(|find| find["container"]["id"].as_str().unwrap()).collect()
    }

    dock_rows! {
        shared:

        fn l15_a_container_whose_client_is_dead_is_found_and_ends_by_its_id(dock) {
            let (mut dead, orphan) = plant(dock, "time");
            let (mut alive, used) = plant(dock, "fetch");
            // One that a user runs without a client, with the labels of the gateway, and one without labels.
            let words = [&["run".to_owned(), "--detach".to_owned()][..], &labels("time")].concat();
            let words: Vec<&str> = words.iter().map(String::as_str).chain([IMAGE, "sleep", "1000000"]).collect();
            let detached = dock.docker().expect(&words);
            let plain = dock.adopt(IMAGE);
            assert_eq!(ids(&finds(dock)), Vec::<&str>::new());

            dead.kill();
            let found = finds(dock);
            assert_eq!(ids(&found), [orphan.as_str()], "{found:?}");
            let find = &found[0];
            assert_eq!((&find["server"], &find["host"]), (&json!("time"), &json!("Docker's MCP gateway")));
            assert!(find["evidence"].to_string().contains("docker-mcp-name=time"), "{find}");
            let id = find["id"].as_str().unwrap();
            assert_eq!(id, format!("c{}", &orphan[..12]));

            assert!(dock.ostler(&["reap", "--yes"]).status.success());
            assert!(dock.ostler(&["reap", id]).status.success());
            assert_eq!(dock.docker().state(&orphan), "running");
            for innocent in [&used, &detached, &plain] {
                let refused = dock.ostler(&["reap", &format!("c{}", &innocent[..12]), "--yes"]);
                assert_eq!(refused.status.code(), Some(3), "{refused:?}");
            }
            let ended = dock.ostler(&["reap", id, "--yes"]);
            let said = String::from_utf8(ended.stdout).unwrap();
            assert!(ended.status.success() && said.starts_with(&format!("{id} (time): gone")), "{said}");
            assert_eq!(dock.docker().state(&orphan), "");
            for innocent in [&used, &detached, &plain] {
                assert_eq!(dock.docker().state(innocent), "running");
            }
            alive.kill();
            dock.docker().expect(&["rm", "--force", &used, &detached]);
        }
    }
}
