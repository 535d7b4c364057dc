//! Variables that differ from terminal to terminal: they split no pool, and each instance has those of the client that started it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use ostler_testkit::{Launched, Stage, binary, rows};
use serde_json::json;

use crate::house::{Client, House, PATIENCE};

/// A directory with a program of this name, which is the stub.
fn place_for(stage: &Stage, directory: &str, program: &str) -> PathBuf {
    let place = stage.sandbox.file(directory);
    fs::create_dir_all(&place).unwrap();
    let stub = stage.sandbox.reachable(&binary("ostler-stub"));
    symlink(stub, place.join(program)).unwrap();
    place
}

fn client_with_path(house: &House<&Stage>, path: &str) -> Launched {
    let mut command = house.connect_command(&["a"]);
    Launched::start(command.env("PATH", path))
}

/// What the process was started with.
fn path_of(pid: u32) -> String {
    let environment = fs::read_to_string(format!("/proc/{pid}/environ")).unwrap();
    let path = environment.split('\0').find_map(|one| one.strip_prefix("PATH=")).unwrap();
    // Podman's wrapper comes first.
    let parts = path.split(':').filter(|part| !part.contains("/ostler/doors/"));
    parts.collect::<Vec<_>>().join(":")
}

rows! {
    fn r12_what_a_terminal_sets_splits_no_pool(stage) {
        let house = House::new(&stage);
        let more = json!({ "share": "all", "maxInstances": 1 });
        house.configure(&[("a", house.stub("a", &[], &more))]);
        let path = std::env::var("PATH").unwrap();
        let client = |number: usize| {
            let per_run = format!("/home/me/.codex/tmp/path/codex-arg0{number}:/opt/{number}:{path}");
            let mut command = house.connect_command(&["a"]);
            command.env("PATH", per_run).env("TERM", format!("term{number}")).env("SHELL", format!("/bin/{number}"));
            command.env("LC_ALL", format!("C.{number}")).env("LANG", format!("{number}")).env("TZ", format!("UTC{number}"));
            command.env("TMPDIR", if number.is_multiple_of(2) { "/tmp" } else { "/var/tmp" });
            let mut client = Client::start(&mut command);
            client.echo();
            client
        };
        let clients: Vec<Client> = (0..7).map(client).collect();
        assert_eq!((house.starts("a").len(), house.named("ostler-stub").len()), (1, 1));
        assert_eq!(path_of(house.starts("a")[0]), format!("/opt/0:{path}"));
        clients.into_iter().for_each(Client::end);
        let mut command = house.connect_command(&["a"]);
        let mut other = Client::start(command.env("HTTP_PROXY", "http://127.0.0.1:9"));
        other.echo();
        assert_eq!(house.starts("a").len(), 2, "a proxy still tells two runs apart");
        other.end();
        house.down();
    }

    fn r12_a_program_that_only_one_of_them_has(stage) {
        let house = House::new(&stage);
        let entry = |program: &str| {
            let mut entry = house.stub("a", &[], &json!({ "share": "all" }));
            entry["command"] = json!(program);
            entry
        };
        let of_client = place_for(&stage, "of-client", "client-server");
        let of_gateway = place_for(&stage, "of-gateway", "gateway-server");
        house.configure(&[("a", entry("client-server"))]);
        let mut command = house.command(house.program());
        command.arg("serve").arg("--config").arg(house.config());
        let gateways_path = format!("/usr/bin:/bin:{}", of_gateway.display());
        let mut gateway = Launched::start(command.env("PATH", &gateways_path));
        ostler_testkit::wait_until("it serves", PATIENCE, || gateway.stderr().contains("serves"));
        let clients_path = format!("{}:/usr/bin:/bin", of_client.display());
        let mut client = client_with_path(&house, &clients_path);
        client.initialize();
        let echo = json!({ "name": "echo", "arguments": {} });
        assert!(client.call("tools/call", &echo)["result"].is_object());
        assert_eq!(path_of(house.starts("a")[0]), clients_path);
        client.close_stdin();
        house.wait_exit(&mut client);

        house.configure(&[("a", entry("gateway-server"))]);
        house.ostler(&["reload"]);
        let mut client = client_with_path(&house, &clients_path);
        client.initialize();
        assert!(client.call("tools/call", &echo)["result"].is_object());
        client.close_stdin();
        house.wait_exit(&mut client);

        house.configure(&[("a", entry("nobodys-server"))]);
        house.ostler(&["reload"]);
        let mut client = client_with_path(&house, &clients_path);
        let said = client.initialize().to_string();
        assert!(said.contains("nobodys-server: command not found"), "{said}");
        assert!(said.contains(&clients_path) && said.contains(&gateways_path), "{said}");
        client.close_stdin();
        house.wait_exit(&mut client);
        house.down_with(&mut gateway);
    }
}
