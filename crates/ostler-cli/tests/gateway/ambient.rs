//! Variables that differ from terminal to terminal: they split no pool, and each instance has those of the client that started it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use ostler_testkit::{Launched, Stage, binary, rows};
use serde_json::json;

use crate::test_gateway::{Client, PATIENCE, TestGateway};

/// A directory with a program of this name, which is the stub.
fn place_for(stage: &Stage, directory: &str, program: &str) -> PathBuf {
    let place = stage.sandbox.file(directory);
    fs::create_dir_all(&place).unwrap();
    let stub = stage.sandbox.reachable(&binary("ostler-stub"));
    symlink(stub, place.join(program)).unwrap();
    place
}

fn client_with_path(test_gateway: &TestGateway<&Stage>, path: &str) -> Launched {
    let mut command = test_gateway.connect_command(&["a"]);
    Launched::start(command.env("PATH", path))
}

/// `PATH` of the process at its start, without the directory of podman's wrapper.
fn path_of(pid: u32) -> String {
    let environment = fs::read_to_string(format!("/proc/{pid}/environ")).unwrap();
    let path = environment.split('\0').find_map(|one| one.strip_prefix("PATH=")).unwrap();
    // Podman's wrapper comes first.
    let parts = path.split(':').filter(|part| !part.contains("/ostler/doors/"));
    parts.collect::<Vec<_>>().join(":")
}

rows! {
    fn r12_variables_of_a_terminal_do_not_split_a_pool(stage) {
        let test_gateway = TestGateway::new(&stage);
        let more = json!({ "share": "all", "maxInstances": 1 });
        test_gateway.configure(&[("a", test_gateway.stub("a", &[], &more))]);
        let path = std::env::var("PATH").unwrap();
        let client = |number: usize| {
            let per_run = format!("/home/me/.codex/tmp/path/codex-arg0{number}:/opt/{number}:{path}");
            let mut command = test_gateway.connect_command(&["a"]);
            command.env("PATH", per_run).env("TERM", format!("term{number}")).env("SHELL", format!("/bin/{number}"));
            command.env("LC_ALL", format!("C.{number}")).env("LANG", format!("{number}")).env("TZ", format!("UTC{number}"));
            command.env("TMPDIR", if number.is_multiple_of(2) { "/tmp" } else { "/var/tmp" });
            let mut client = Client::start(&mut command);
            client.echo();
            client
        };
        let clients: Vec<Client> = (0..7).map(client).collect();
        assert_eq!((test_gateway.starts("a").len(), test_gateway.named("ostler-stub").len()), (1, 1));
        assert_eq!(path_of(test_gateway.starts("a")[0]), format!("/opt/0:{path}"));
        clients.into_iter().for_each(Client::end);
        let mut command = test_gateway.connect_command(&["a"]);
        let mut other = Client::start(command.env("HTTP_PROXY", "http://127.0.0.1:9"));
        other.echo();
        assert_eq!(test_gateway.starts("a").len(), 2, "a proxy still tells two runs apart");
        other.end();
        test_gateway.down();
    }

    fn r12_a_program_that_only_one_of_them_has(stage) {
        let test_gateway = TestGateway::new(&stage);
        let entry = |program: &str| {
            let mut entry = test_gateway.stub("a", &[], &json!({ "share": "all" }));
            entry["command"] = json!(program);
            entry
        };
        let of_client = place_for(&stage, "of-client", "client-server");
        let of_gateway = place_for(&stage, "of-gateway", "gateway-server");
        test_gateway.configure(&[("a", entry("client-server"))]);
        let mut command = test_gateway.command(test_gateway.program());
        command.arg("serve").arg("--config").arg(test_gateway.config());
        let gateways_path = format!("/usr/bin:/bin:{}", of_gateway.display());
        let mut gateway = Launched::start(command.env("PATH", &gateways_path));
        ostler_testkit::wait_until("it serves", PATIENCE, || gateway.stderr().contains("serves"));
        let clients_path = format!("{}:/usr/bin:/bin", of_client.display());
        let mut client = client_with_path(&test_gateway, &clients_path);
        client.initialize();
        let echo = json!({ "name": "echo", "arguments": {} });
        assert!(client.call("tools/call", &echo)["result"].is_object());
        assert_eq!(path_of(test_gateway.starts("a")[0]), clients_path);
        client.close_stdin();
        test_gateway.wait_exit(&mut client);

        test_gateway.configure(&[("a", entry("gateway-server"))]);
        test_gateway.ostler(&["reload"]);
        let mut client = client_with_path(&test_gateway, &clients_path);
        client.initialize();
        assert!(client.call("tools/call", &echo)["result"].is_object());
        client.close_stdin();
        test_gateway.wait_exit(&mut client);

        test_gateway.configure(&[("a", entry("nobodys-server"))]);
        test_gateway.ostler(&["reload"]);
        let mut client = client_with_path(&test_gateway, &clients_path);
        let said = client.initialize().to_string();
        assert!(said.contains("nobodys-server: command not found"), "{said}");
        assert!(said.contains(&clients_path) && said.contains(&gateways_path), "{said}");
        client.close_stdin();
        test_gateway.wait_exit(&mut client);
        test_gateway.down_with(&mut gateway);
    }
}
