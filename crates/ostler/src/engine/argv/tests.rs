use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::*;
use crate::id::{InstanceId, OwnerId};

fn spec(line: &str) -> ServerSpec {
    let mut words = line.split(' ').map(OsString::from);
    ServerSpec {
        name: "server".into(),
        program: words.next().unwrap(),
        args: words.collect(),
        env: Vec::new(),
        cwd: None,
    }
}

fn labels() -> Labels {
    let zeros = "0".repeat(32);
    let (instance, owner): (InstanceId, OwnerId) = (zeros.parse().unwrap(), zeros.parse().unwrap());
    Labels { instance, owner, server: "a b".into() }
}

/// The edited command line, with `<L>` for the labels.
fn with_labels(line: &str) -> Option<String> {
    let mut spec = spec(line);
    CreateCommand::of(&spec)?.add_labels_and_init(&mut spec, &labels());
    let mut words = vec![spec.program];
    words.extend(spec.args);
    let line = words.join(OsStr::new(" ")).into_string().unwrap();
    let zeros = "0".repeat(32);
    let all = format!(
        "--label=ostler.instance={zeros} --label=ostler.owner={zeros} --label=ostler.server=a b"
    );
    Some(line.replace(&all, "<L>"))
}

#[test]
fn labels_and_an_init_stand_right_after_the_subcommand() {
    for (given, expected) in [
        ("docker run image", "docker run <L> --init image"),
        ("docker run", "docker run <L> --init"),
        (
            "/usr/bin/docker run -i --rm image cmd",
            "/usr/bin/docker run <L> --init -i --rm image cmd",
        ),
        ("docker create image", "docker create <L> --init image"),
        ("docker container run image", "docker container run <L> --init image"),
        ("docker container create image", "docker container create <L> --init image"),
        ("docker --config c run image", "docker --config c run <L> --init image"),
        (
            "docker -H h --log-level x -c y run image",
            "docker -H h --log-level x -c y run <L> --init image",
        ),
        (
            "docker -l run --context=run run image",
            "docker -l run --context=run run <L> --init image",
        ),
        ("docker -D --tls run image", "docker -D --tls run <L> --init image"),
        ("docker run -- image", "docker run <L> --init -- image"),
        ("docker run --what-is-this image", "docker run <L> --init --what-is-this image"),
        ("podman run image", "podman run <L> --init image"),
        ("podman --log-level debug run image", "podman --log-level debug run <L> --init image"),
        ("podman container create image", "podman container create <L> --init image"),
        ("podman --remote --url u run image", "podman --remote --url u run <L> --init image"),
    ] {
        assert_eq!(with_labels(given).as_deref(), Some(expected), "{given}");
    }
}

#[test]
fn flags_of_the_user_stay() {
    for (given, expected) in [
        ("docker run --init image", "docker run <L> --init image"),
        ("docker run --init=false image", "docker run <L> --init=false image"),
        ("docker run -it --init image", "docker run <L> -it --init image"),
        // Arguments of the container's own command, or values of other flags.
        ("docker run image --init", "docker run <L> --init image --init"),
        ("docker run -e --init image", "docker run <L> --init -e --init image"),
        ("docker run -ite --init image", "docker run <L> --init -ite --init image"),
        ("docker run --name --init image", "docker run <L> --init --name --init image"),
        ("docker run -- image --init", "docker run <L> --init -- image --init"),
        ("docker run --pid host image", "docker run <L> --init --pid host image"),
        ("podman run --pid host image", "podman run <L> --pid host image"),
        ("podman run --pod p image", "podman run <L> --pod p image"),
    ] {
        assert_eq!(with_labels(given).as_deref(), Some(expected), "{given}");
    }
}

#[test]
fn a_command_that_sets_a_reserved_label_is_refused() {
    let zeros = "0".repeat(32);
    let check = |line: &str| CreateCommand::of(&spec(line)).unwrap().check_labels(&labels());
    for line in [
        "podman run --label ostler.instance=x image",
        "podman run -lostler.instance=x image",
        "podman create -dl=ostler.call=x image",
        "podman pod create --label ostler.owner=x pod",
        "podman network create --label=a=b --label ostler.new=x net",
    ] {
        assert!(check(line).is_err(), "{line}");
    }
    for line in [
        "podman run -l a=ostler.instance=x image",
        "podman run image -l ostler.instance=x",
        &format!("podman run -l ostler.instance={zeros} image"),
        "podman run -l ostler.instance= image",
    ] {
        assert_eq!(check(line), Ok(()), "{line}");
    }
}

/// The wrapper adds no init.
#[test]
fn podmans_pods_and_networks_get_labels_and_restart_policies_become_no() {
    let marked = |line: &str| {
        let mut spec = spec(line);
        CreateCommand::of(&spec).unwrap().add_labels(
            &mut spec,
            &labels(),
            Some(("call", "1".into())),
        );
        let line = spec.args.join(OsStr::new(" ")).into_string().unwrap();
        let zeros = "0".repeat(32);
        line.replace(&format!("--label=ostler.instance={zeros}"), "<L>")
            .replace(&format!(" --label=ostler.owner={zeros} --label=ostler.server=a b"), "")
            .replace(" --label=call=1", "")
    };
    for (given, expected) in [
        ("podman run -d image", "run <L> -d image"),
        ("podman pod create --infra name", "pod create <L> --infra name"),
        ("podman --root r network create net", "--root r network create <L> net"),
        (
            "podman run --restart always -d image sh --restart x",
            "run <L> --restart always -d --restart=no image sh --restart x",
        ),
        (
            "podman run --restart=on-failure:3 -- image",
            "run <L> --restart=on-failure:3 --restart=no -- image",
        ),
        ("podman run --restart=what image", "run <L> --restart=what image"),
        ("podman run --restart no image", "run <L> --restart no image"),
    ] {
        assert_eq!(marked(given), expected, "{given}");
    }
}

#[test]
fn a_command_line_shows_whether_its_container_is_detached() {
    let read = |line: &str| detaches(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
    for line in ["podman run -d i", "podman run -itd i", "podman create i", "podman run --detach i"]
    {
        assert_eq!(read(line), Some(true), "{line}");
    }
    for line in ["podman run i -d", "podman run --detach=false i", "podman container run -it i"] {
        assert_eq!(read(line), Some(false), "{line}");
    }
    assert_eq!(read("podman system service"), None);
}

#[test]
fn a_command_line_shows_whether_podman_uses_a_service() {
    for (line, env, expected) in [
        ("podman ps", "", false),
        ("podman ps", "CONTAINER_HOST", true),
        ("podman --remote=false ps", "CONTAINER_HOST", false),
        ("podman --remote ps", "", true),
        ("podman -r ps", "", true),
        ("podman --url u ps", "", true),
        ("podman -c far ps", "", true),
    ] {
        let mut spec = spec(line);
        spec.env.push((env.into(), "unix:///x".into()));
        assert_eq!(is_remote(&spec), expected, "{line} {env}");
    }
}

#[test]
fn other_and_unknown_commands_are_left_alone() {
    for line in [
        "docker",
        "docker ps",
        "docker exec -i box run",
        "docker start run",
        "docker compose run service",
        "docker -- run image",
        "docker --what run image",
        "docker -x run image",
        "docker --config",
        "docker container ls",
        "docker container --what run image",
        "podman --what run image",
        "podman kube play x",
        "npx docker run image",
        "dockerd run image",
        "sh -c docker",
    ] {
        assert_eq!(with_labels(line), None, "{line}");
    }
}

#[test]
fn an_argument_that_is_not_utf8_stays() {
    let mut spec = spec("docker run image");
    let odd = OsStr::from_bytes(b"-e\xff=\xfe").to_owned();
    spec.args.insert(1, odd.clone());
    spec.args.push(odd.clone());
    CreateCommand::of(&spec).unwrap().add_labels_and_init(&mut spec, &labels());
    assert_eq!(spec.args.iter().filter(|word| **word == odd).count(), 2);
}

#[test]
fn flags_that_name_an_engine_can_be_removed() {
    for (given, expected) in [
        ("docker -H h --log-level x run image", "docker --log-level=x run image"),
        ("docker -DHh -l x --tls --tlscacert=c exec -H x", "docker -D -l=x exec -H x"),
        ("docker --config c --context y compose up", "docker --config=c compose up"),
        ("docker --debug=false -c y ps", "docker --debug=false ps"),
        ("podman --url u --log-level x -r run image", "podman --log-level=x -r run image"),
        ("docker --log-level x run -H h image", "docker --log-level x run -H h image"),
        ("docker --what-is-this -H h run image", "docker --what-is-this -H h run image"),
        ("sh -c docker", "sh -c docker"),
    ] {
        let mut spec = spec(given);
        remove_engine_flags(&mut spec);
        let mut words = vec![spec.program];
        words.extend(spec.args);
        assert_eq!(words.join(OsStr::new(" ")), expected, "{given}");
    }
}
