//! Tests of the lookup. Each case is compared with the real docker command.

use std::process::Command;

use tempfile::TempDir;

use super::*;

/// A configuration directory with two contexts, and optionally a current one.
fn config(current: Option<&str>) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, host) in [("plain", "unix:///run/plain.sock"), ("far", "tcp://far:2376")] {
        let mut create = docker(directory.path());
        let endpoint = format!("host={host}");
        create.args(["context", "create", name, "--docker", &endpoint]);
        assert!(create.output().unwrap().status.success());
    }
    if let Some(current) = current {
        let text = format!(r#"{{"currentContext": "{current}"}}"#);
        fs::write(directory.path().join("config.json"), text).unwrap();
    }
    directory
}

fn docker(config: &Path) -> Command {
    let mut command = Command::new("docker");
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    command.env("DOCKER_CONFIG", config);
    command
}

fn spec(program: &str, args: &[&str], env: &[(&str, &str)]) -> ServerSpec {
    ServerSpec {
        name: "server".into(),
        program: program.into(),
        args: args.iter().map(OsString::from).collect(),
        env: env.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        cwd: Some("/base".into()),
    }
}

/// The engine that the real docker command uses with these global flags and variables.
fn docker_says(config: &Path, args: &[&str], env: &[(&str, &str)]) -> Option<String> {
    let mut command = docker(config);
    command.envs(env.iter().copied()).args(args);
    command.args(["context", "inspect", "--format", "{{.Endpoints.docker.Host}}"]);
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    output.status.success().then_some(text)
}

struct Case {
    current: Option<&'static str>,
    args: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
    /// `None` if docker refuses.
    meaning: Option<&'static str>,
}

const PLAIN: Option<&str> = Some("unix:///run/plain.sock");
const FAR: Option<&str> = Some("tcp://far:2376");
const DEFAULT: Option<&str> = Some("unix:///var/run/docker.sock");

const CASES: &[Case] = &[
    Case { current: None, args: &[], env: &[], meaning: DEFAULT },
    Case { current: Some("plain"), args: &[], env: &[], meaning: PLAIN },
    Case { current: Some("default"), args: &[], env: &[], meaning: DEFAULT },
    Case { current: Some("gone"), args: &[], env: &[], meaning: None },
    Case { current: Some("plain"), args: &[], env: &[("DOCKER_CONTEXT", "far")], meaning: FAR },
    Case {
        current: Some("plain"),
        args: &[],
        env: &[("DOCKER_CONTEXT", "far"), ("DOCKER_HOST", "tcp://box:1")],
        meaning: Some("tcp://box:1"),
    },
    Case {
        current: Some("plain"),
        args: &["--context", "far"],
        env: &[("DOCKER_HOST", "tcp://box:1")],
        meaning: FAR,
    },
    Case {
        current: Some("plain"),
        args: &["--context=default"],
        env: &[("DOCKER_CONTEXT", "far")],
        meaning: DEFAULT,
    },
    Case {
        current: Some("plain"),
        args: &["-c", "default"],
        env: &[("DOCKER_HOST", "tcp://box:1")],
        meaning: Some("tcp://box:1"),
    },
    Case {
        current: Some("plain"),
        args: &["-D", "-H", "tcp://box:1"],
        env: &[("DOCKER_CONTEXT", "far"), ("DOCKER_HOST", "tcp://other:1")],
        meaning: Some("tcp://box:1"),
    },
    Case { current: None, args: &["-Hbox"], env: &[], meaning: Some("tcp://box:2375") },
    Case { current: None, args: &["-H=:1"], env: &[], meaning: Some("tcp://localhost:1") },
    Case { current: None, args: &["-H", "a", "-H", "b"], env: &[], meaning: None },
    Case { current: None, args: &["-H", "a", "-c", "far"], env: &[], meaning: None },
    Case { current: None, args: &["-H", "http://a"], env: &[], meaning: None },
    Case { current: None, args: &["--context", "gone"], env: &[], meaning: None },
    Case { current: Some("plain"), args: &["--config", "/nowhere"], env: &[], meaning: DEFAULT },
    Case {
        current: None,
        args: &["--log-level", "info", "--host", "ssh://me@box"],
        env: &[],
        meaning: Some("ssh://me@box"),
    },
];

#[test]
fn the_engine_is_the_one_that_docker_would_use() {
    for Case { current, args, env, meaning } in CASES {
        let what = format!("{current:?} {args:?} {env:?}");
        let config = config(*current);
        let directory = config.path().to_str().unwrap();
        let env: Vec<(&str, &str)> =
            [("DOCKER_CONFIG", directory)].into_iter().chain(env.iter().copied()).collect();
        let words: Vec<&str> = args.iter().copied().chain(["run", "image"]).collect();
        let found = Endpoint::of(&spec("docker", &words, &env), Tool::Docker).ok();
        assert_eq!(found.map(|found| found.to_string()).as_deref(), *meaning, "{what}");
        assert_eq!(docker_says(config.path(), args, &env).as_deref(), *meaning, "docker: {what}");
    }
}

#[test]
fn with_tls_the_default_address_is_another_one() {
    let config = config(None);
    let new = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority";
    let mut openssl = Command::new("openssl");
    openssl.args(new.split(' ')).args(["-keyout", "ca.key", "-out", "ca.pem"]);
    assert!(openssl.current_dir(config.path()).output().unwrap().status.success());
    let env = [("DOCKER_CONFIG", config.path().to_str().unwrap()), ("DOCKER_TLS", "1")];
    let found = Endpoint::of(&spec("npx", &[], &env), Tool::Docker).unwrap();
    assert_eq!(found.to_string(), "tcp://localhost:2376");
    assert_eq!(docker_says(config.path(), &[], &env), Some(found.to_string()));
}

/// This is the behaviour of newer docker commands; older ones differ.
#[test]
fn an_empty_variable_counts_as_unset() {
    let config = config(Some("plain"));
    let directory = config.path().to_str().unwrap();
    for name in ["DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_TLS"] {
        let env = [("DOCKER_CONFIG", directory), (name, "")];
        let found = Endpoint::of(&spec("npx", &[], &env), Tool::Docker).unwrap();
        assert_eq!(Some(found.to_string().as_str()), PLAIN, "{name}");
    }
}

#[test]
fn flags_of_another_command_are_ignored() {
    let env = [("DOCKER_HOST", "tcp://box:1"), ("HOME", "/nowhere")];
    let args = ["-H", "tcp://other:1", "run", "image"];
    for program in ["npx", "docker-compose", "./dockerish"] {
        let found = Endpoint::of(&spec(program, &args, &env), Tool::Docker).unwrap();
        assert_eq!(found.to_string(), "tcp://box:1", "{program}");
    }
    let found = Endpoint::of(&spec("/usr/bin/docker", &args, &env), Tool::Docker).unwrap();
    assert_eq!(found.to_string(), "tcp://other:1");
}

#[test]
fn tls_files_are_found_where_docker_looks_for_them() {
    let config = config(None);
    let at = |name| config.path().join(name);
    fs::write(at("ca.pem"), "").unwrap();
    fs::write(at("key.pem"), "").unwrap();
    let directory = config.path().to_str().unwrap();
    let tls =
        |verify, cert| Some(Tls { ca: Some(at("ca.pem")), cert, key: Some(at("key.pem")), verify });
    let cases = [
        (&[][..], &[][..], None),
        (&[], &[("DOCKER_TLS_VERIFY", "1")], tls(true, None)),
        (&[], &[("DOCKER_TLS", "1")], tls(false, None)),
        (&["--tlsverify"], &[], tls(true, None)),
        (&["--tlsverify=false"], &[], tls(false, None)),
        (&["--tls", "--tlscert", "c.pem"], &[], tls(false, Some("/base/c.pem".into()))),
        (&["--tls=false"], &[("DOCKER_TLS", "1")], None),
    ];
    for (args, env, expected) in cases {
        let what = format!("{args:?} {env:?}");
        let env: Vec<(&str, &str)> =
            [("DOCKER_HOST", "tcp://box:1"), ("DOCKER_CERT_PATH", directory)]
                .into_iter()
                .chain(env.iter().copied())
                .collect();
        let found = Endpoint::of(&spec("docker", args, &env), Tool::Docker).unwrap();
        let expected = Endpoint::Tcp { host: "box".into(), port: 1, tls: expected };
        assert_eq!(found, expected, "{what}");
    }
}

#[test]
fn a_context_has_its_own_tls_files() {
    let directory = config(None);
    // `docker context create` would parse the files, so the test puts them directly where docker stores them.
    for meta in fs::read_dir(directory.path().join("contexts/meta")).unwrap() {
        let name = meta.unwrap().file_name();
        let files = directory.path().join("contexts/tls").join(name).join("docker");
        fs::create_dir_all(&files).unwrap();
        for name in ["ca.pem", "cert.pem", "key.pem"] {
            fs::write(files.join(name), "text").unwrap();
        }
    }
    let config = directory.path().to_str().unwrap();
    let env = [("DOCKER_CONFIG", config), ("DOCKER_CONTEXT", "far")];
    let found = Endpoint::of(&spec("npx", &[], &env), Tool::Docker).unwrap();
    let Endpoint::Tcp { tls: Some(tls), .. } = found else { panic!("{found:?}") };
    assert!(tls.verify);
    for file in [tls.ca, tls.cert, tls.key] {
        assert_eq!(fs::read_to_string(file.unwrap()).unwrap(), "text");
    }
}

#[test]
fn relative_paths_are_relative_to_the_servers_directory() {
    let env = [("DOCKER_HOST", "unix://own.sock")];
    let found = Endpoint::of(&spec("npx", &[], &env), Tool::Docker).unwrap();
    assert_eq!(found, Endpoint::Unix("/base/own.sock".into()));
}

#[test]
fn podman_has_its_own_variables_and_sockets() {
    let service = [("CONTAINER_HOST", "unix:///run/p.sock"), ("DOCKER_HOST", "tcp://box:1")];
    let of = |program, args: &[&str], env: &[(&str, &str)], tool| {
        Endpoint::of(&spec(program, args, env), tool).map(|found| found.to_string())
    };
    assert_eq!(of("podman", &["run", "i"], &service, Tool::Podman).unwrap(), "unix:///run/p.sock");
    assert_eq!(of("npx", &[], &service, Tool::Podman).unwrap(), "unix:///run/p.sock");
    assert_eq!(of("podman", &["run", "i"], &service, Tool::Docker).unwrap(), "tcp://box:1");
    let flag = ["--url", "unix:///run/q.sock", "run", "i"];
    assert_eq!(of("podman", &flag, &service, Tool::Podman).unwrap(), "unix:///run/q.sock");
    let short = [("CONTAINER_HOST", "unix:/run/r.sock")];
    assert_eq!(of("podman", &["run", "i"], &short, Tool::Podman).unwrap(), "unix:///run/r.sock");
    assert!(of("podman", &["-c", "far", "run", "i"], &[], Tool::Podman).is_err());
    let default = of("podman", &[], &[("XDG_RUNTIME_DIR", "/run")], Tool::Podman).unwrap();
    assert_eq!(default, "unix:///run/podman/podman.sock");
}

#[test]
fn a_damaged_configuration_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("config.json"), "{").unwrap();
    let env = [("DOCKER_CONFIG", directory.path().to_str().unwrap())];
    assert!(Endpoint::of(&spec("npx", &[], &env), Tool::Docker).is_err());
}
