//! Points a server's environment and command line to its Doors.

use std::ffi::OsString;
use std::path::Path;

use super::Tool;
use super::argv::{CreateCommand, remove_engine_flags};
use crate::containers::{EngineDoor, Labels};
use crate::spec::ServerSpec;

/// Adds labels and an init to a server's own command if that creates a container.
pub(crate) fn label_own_container(spec: &mut ServerSpec, labels: &Labels) {
    if let Some(run) = CreateCommand::of(spec).filter(CreateCommand::is_container) {
        run.add_labels_and_init(spec, labels);
    }
}

/// Makes the environment name the Door's socket, and removes everything from environment and command line that would
/// lead past it.
pub(crate) fn route_to_door(spec: &mut ServerSpec, tool: Tool, socket: &Path) {
    remove_engine_flags(spec);
    // The other variables would select another engine, or TLS, which a unix socket does not have.
    let (host, others): (_, &[&str]) = match tool {
        Tool::Docker => (
            "DOCKER_HOST",
            &["DOCKER_CONTEXT", "DOCKER_TLS", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"],
        ),
        Tool::Podman => ("CONTAINER_HOST", &["CONTAINER_CONNECTION", "CONTAINER_SSHKEY"]),
    };
    spec.env.retain(|(name, _)| name != host && !others.iter().any(|other| name == other));
    spec.env.push((host.into(), address(socket)));
}

/// Removes `CONTAINER_HOST` if it names one of these Doors, so that podman works without a service again.
pub(crate) fn remove_door_address(spec: &mut ServerSpec, ways: &[EngineDoor]) {
    let is_ours = |value: &OsString| ways.iter().any(|way| *value == address(&way.socket));
    spec.env.retain(|(name, value)| name != "CONTAINER_HOST" || !is_ours(value));
}

fn address(socket: &Path) -> OsString {
    let mut address = OsString::from("unix://");
    address.push(socket);
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    fn led(tool: Tool, program: &str, args: &[&str]) -> ServerSpec {
        let env = ["DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY", "CONTAINER_HOST", "PATH"];
        let mut spec = ServerSpec {
            name: "server".into(),
            program: program.into(),
            args: args.iter().map(Into::into).collect(),
            env: env.iter().map(|name| (name.into(), "x".into())).collect(),
            cwd: None,
        };
        let zeros = "0".repeat(32);
        let (instance, owner) = (zeros.parse().unwrap(), zeros.parse().unwrap());
        let labels = Labels { instance, owner, server: "server".into() };
        label_own_container(&mut spec, &labels);
        route_to_door(&mut spec, tool, Path::new("/d.sock"));
        spec
    }

    fn env(spec: &ServerSpec) -> Vec<String> {
        let text = |(name, value): &(OsString, OsString)| format!("{name:?}={value:?}");
        spec.env.iter().map(text).map(|text| text.replace('"', "")).collect()
    }

    #[test]
    fn the_environment_names_only_the_door() {
        let spec = led(Tool::Docker, "sh", &["-c", "docker -H x ps"]);
        assert_eq!(env(&spec), ["CONTAINER_HOST=x", "PATH=x", "DOCKER_HOST=unix:///d.sock"]);
        assert_eq!(spec.args, ["-c", "docker -H x ps"]);
        let spec = led(Tool::Podman, "sh", &[]);
        assert_eq!(env(&spec).last().unwrap(), "CONTAINER_HOST=unix:///d.sock");
        assert!(env(&spec).contains(&"DOCKER_HOST=x".into()));
    }

    #[test]
    fn the_address_of_a_door_can_be_removed_again() {
        let mut spec = led(Tool::Podman, "podman", &["ps"]);
        let way = |socket: &str| EngineDoor {
            endpoint: "unix:///engine.sock".parse().unwrap(),
            socket: socket.into(),
        };
        remove_door_address(&mut spec, &[way("/other.sock")]);
        assert!(env(&spec).contains(&"CONTAINER_HOST=unix:///d.sock".into()));
        remove_door_address(&mut spec, &[way("/other.sock"), way("/d.sock")]);
        assert!(!env(&spec).iter().any(|one| one.starts_with("CONTAINER_HOST")));
    }

    #[test]
    fn flags_that_name_an_engine_are_removed() {
        let spec = led(Tool::Docker, "docker", &["-H", "x", "run", "image"]);
        assert_eq!((&spec.args[0], &spec.args[4]), (&"run".into(), &"--init".into()));
    }
}
