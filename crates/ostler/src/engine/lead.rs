//! Leading a server to its Door.

use std::ffi::OsString;
use std::path::Path;

use super::Tool;
use super::argv::{Creation, forget_engine};
use crate::containers::{EngineDoor, Labels};
use crate::spec::ServerSpec;

/// If a server's own command makes a container, that has its labels from there on, and an init.
pub(crate) fn stamp(spec: &mut ServerSpec, labels: &Labels) {
    if let Some(run) = Creation::of(spec).filter(Creation::is_container) {
        run.stamp(spec, labels);
    }
}

/// Leaves a server no other way to its engine, as far as environment and command line say which.
pub(crate) fn lead(spec: &mut ServerSpec, tool: Tool, socket: &Path) {
    forget_engine(spec);
    // By the others a client would go elsewhere, or expect what a socket has not.
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

/// Lets a podman command do without a service again that was only led to one of these sockets.
pub(crate) fn release(spec: &mut ServerSpec, ways: &[EngineDoor]) {
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
        stamp(&mut spec, &labels);
        lead(&mut spec, tool, Path::new("/d.sock"));
        spec
    }

    fn env(spec: &ServerSpec) -> Vec<String> {
        let text = |(name, value): &(OsString, OsString)| format!("{name:?}={value:?}");
        spec.env.iter().map(text).map(|text| text.replace('"', "")).collect()
    }

    #[test]
    fn the_environment_leads_to_the_door_alone() {
        let spec = led(Tool::Docker, "sh", &["-c", "docker -H x ps"]);
        assert_eq!(env(&spec), ["CONTAINER_HOST=x", "PATH=x", "DOCKER_HOST=unix:///d.sock"]);
        assert_eq!(spec.args, ["-c", "docker -H x ps"]);
        let spec = led(Tool::Podman, "sh", &[]);
        assert_eq!(env(&spec).last().unwrap(), "CONTAINER_HOST=unix:///d.sock");
        assert!(env(&spec).contains(&"DOCKER_HOST=x".into()));
    }

    #[test]
    fn what_was_led_can_be_released() {
        let mut spec = led(Tool::Podman, "podman", &["ps"]);
        let way = |socket: &str| EngineDoor {
            endpoint: "unix:///engine.sock".parse().unwrap(),
            socket: socket.into(),
        };
        release(&mut spec, &[way("/other.sock")]);
        assert!(env(&spec).contains(&"CONTAINER_HOST=unix:///d.sock".into()));
        release(&mut spec, &[way("/other.sock"), way("/d.sock")]);
        assert!(!env(&spec).iter().any(|one| one.starts_with("CONTAINER_HOST")));
    }

    #[test]
    fn so_does_a_command_that_names_its_engine() {
        let spec = led(Tool::Docker, "docker", &["-H", "x", "run", "image"]);
        assert_eq!((&spec.args[0], &spec.args[4]), (&"run".into(), &"--init".into()));
    }
}
