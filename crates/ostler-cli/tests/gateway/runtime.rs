//! The directory of sockets: clients find their gateway without their environment, and refuse a directory of another user.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Output};

use ostler_testkit::{Launched, Stage, User, is_alive, rows, wait_until};
use serde_json::json;

use crate::test_gateway::{Client, PATIENCE, TestGateway};

/// Variables that Codex, for example, does not pass to its servers. The mark of the test is none of them.
const STRIPPED: [&str; 8] = [
    "XDG_CONFIG_HOME",
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "OSTLER_RUNTIME_DIR",
    "OSTLER_CONFIG",
    "OSTLER_SOCKET",
];

fn uid_of(stage: &Stage) -> u32 {
    if let User::Nobody(uid) = stage.user { uid } else { 0 }
}

/// A gateway whose configuration is at its default path.
fn gateway_with_usual_configuration(stage: &Stage) -> TestGateway<&Stage> {
    let test_gateway = TestGateway::with(stage, &["a"], &json!({ "share": "all" }));
    let place = test_gateway.sandbox.home().join(".config/ostler");
    fs::create_dir_all(&place).unwrap();
    fs::copy(test_gateway.config(), place.join("ostler.json")).unwrap();
    for place in
        [place.clone(), place.join("ostler.json"), test_gateway.sandbox.home().join(".config")]
    {
        chown(place, Some(uid_of(stage)), None).unwrap();
    }
    test_gateway
}

/// A command of ostler on a system of the test's own.
fn ostler_on_system(test_gateway: &TestGateway<&Stage>, words: &[&str]) -> Command {
    let mut command =
        test_gateway.sandbox.command_on_own_system(test_gateway.user, test_gateway.program());
    command.args(words);
    command
}

/// The same as a host starts it that strips the environment.
fn stripped(test_gateway: &TestGateway<&Stage>, words: &[&str]) -> Command {
    let mut command = ostler_on_system(test_gateway, words);
    for name in STRIPPED {
        command.env_remove(name);
    }
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Two clients, of which the first one starts the gateway, share it and the server.
fn assert_shared(test_gateway: &TestGateway<&Stage>, first: &mut Command, second: &mut Command) {
    let before = test_gateway.starts("a").len();
    let mut clients = [Client::start(first), Client::start(second)];
    clients.iter_mut().for_each(Client::echo);
    assert_eq!(test_gateway.gateways().len(), 1);
    assert_eq!(
        (test_gateway.starts("a").len(), test_gateway.named("ostler-stub").len()),
        (before + 1, 1)
    );
    clients.into_iter().for_each(Client::end);
    let down = ostler_on_system(test_gateway, &["down"]).output().unwrap();
    assert!(down.status.success(), "{}", said(&down));
    test_gateway.expect_no_process();
}

rows! {
    fn r14_a_client_without_its_environment_reaches_the_same_gateway_and_instance(stage) {
        let test_gateway = gateway_with_usual_configuration(&stage);
        let full = || {
            let mut command = ostler_on_system(&test_gateway, &["connect", "a"]);
            command.env("XDG_CONFIG_HOME", test_gateway.sandbox.home().join(".config"));
            command.env("XDG_RUNTIME_DIR", test_gateway.sandbox.runtime());
            command.env("TMPDIR", "/var/tmp");
            command
        };
        assert_shared(&test_gateway, &mut full(), &mut stripped(&test_gateway, &["connect", "a"]));
        let used = fs::read_dir(test_gateway.sandbox.runtime()).unwrap().count();
        assert_eq!(used, 0, "the directory depends on the uid alone");

        // After a login, which sets the runtime directory.
        let uid = uid_of(&stage);
        test_gateway.sandbox.system().log_in(uid);
        let logged_in = || {
            let mut command = stripped(&test_gateway, &["connect", "a"]);
            command.env("XDG_RUNTIME_DIR", format!("/run/user/{uid}"));
            command
        };
        assert_shared(&test_gateway, &mut logged_in(), &mut stripped(&test_gateway, &["connect", "a"]));
        assert_shared(&test_gateway, &mut stripped(&test_gateway, &["connect", "a"]), &mut logged_in());
    }

    fn a_gateway_that_was_started_before_the_login_is_still_found(stage) {
        let test_gateway = gateway_with_usual_configuration(&stage);
        let mut before = Client::start(&mut stripped(&test_gateway, &["connect", "a"]));
        before.echo();
        test_gateway.sandbox.system().log_in(uid_of(&stage));
        let mut after = Client::start(&mut stripped(&test_gateway, &["connect", "a"]));
        after.echo();
        assert_eq!((test_gateway.gateways().len(), test_gateway.starts("a").len()), (1, 1));
        before.end();
        after.end();
        assert!(ostler_on_system(&test_gateway, &["down"]).output().unwrap().status.success());
        test_gateway.expect_no_process();
    }

    fn a_prepared_directory_is_refused(stage) {
        let test_gateway = gateway_with_usual_configuration(&stage);
        let uid = uid_of(&stage);
        let seen = PathBuf::from(format!("/tmp/ostler-{uid}"));
        let real = test_gateway.sandbox.system().tmp().join(format!("ostler-{uid}"));
        let target = test_gateway.sandbox.file("target");
        fs::create_dir(&target).unwrap();
        chown(&target, Some(uid), Some(uid)).unwrap();
        let make = |owner: u32, mode: u32| {
            fs::create_dir(&real).unwrap();
            chown(&real, Some(owner), Some(owner)).unwrap();
            fs::set_permissions(&real, Permissions::from_mode(mode)).unwrap();
        };
        let assert_refused = |reason: &str| {
            for words in [&["connect", "a"][..], &["serve"]] {
                let output = stripped(&test_gateway, words).output().unwrap();
                let said = said(&output);
                assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
                let expected = format!("{} {reason}", seen.display());
                assert!(said.contains(&expected) && said.contains("OSTLER_RUNTIME_DIR"), "{said}");
            }
            test_gateway.expect_no_process();
        };
        make(12345, 0o777);
        assert_refused("belongs to another user");
        assert_eq!(fs::read_dir(&real).unwrap().count(), 0);
        fs::remove_dir(&real).unwrap();

        symlink(&target, &real).unwrap();
        assert_refused("is a symbolic link");
        assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
        fs::remove_file(&real).unwrap();

        // Files that other users could write are not trusted after the permissions changed.
        make(uid, 0o777);
        assert_refused("and its parent directory are writable by other users");
        assert_eq!(fs::metadata(&real).unwrap().mode() & 0o777, 0o777);
        assert_eq!(fs::read_dir(&real).unwrap().count(), 0);
    }

    fn r14_a_client_without_a_configuration_follows_the_gateway_that_runs(stage) {
        let test_gateway = TestGateway::with(stage, &["a"], &json!({ "share": "all" }));
        let mut gateway = test_gateway.serve(&[]);
        test_gateway.client(&["a"]).echo();
        let mut bare = Client::start(test_gateway.command(test_gateway.program()).args(["connect", "a"]));
        bare.echo();
        assert_eq!((test_gateway.gateways().len(), test_gateway.starts("a").len()), (0, 1));
        let said = bare.0.stderr();
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains(&format!("using {}", test_gateway.config().display())), "{said}");
        bare.end();
        test_gateway.down_with(&mut gateway);

        // The one that it starts later has the same configuration.
        let mut next = Client::start(test_gateway.command(test_gateway.program()).args(["connect", "a"]));
        next.echo();
        assert_eq!((test_gateway.gateways().len(), test_gateway.starts("a").len()), (1, 2));
        next.end();
        test_gateway.down();
    }
}

/// A client without a configuration gets the example server, and says why.
fn assert_not_followed(test_gateway: &TestGateway, reason: &str) {
    let mut client = Client::start(test_gateway.command(test_gateway.program()).arg("connect"));
    let said = client.0.stderr();
    assert!(said.contains(reason) && said.contains("offering an example server"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    let tools = client.0.call("tools/list", &json!({}));
    assert!(tools.to_string().contains("example__echo"), "{tools}");
    client.end();
    test_gateway.down();
}

#[test]
fn a_path_that_can_not_be_trusted_is_not_followed() {
    let test_gateway = TestGateway::with(Stage::leaf(), &["a"], &json!({}));
    let mut gateway = test_gateway.serve(&[]);
    test_gateway.down_with(&mut gateway);
    let note = test_gateway.sandbox.runtime().join("ostler/configuration");
    let found = fs::symlink_metadata(&note).unwrap();
    assert_eq!((found.is_file(), found.mode() & 0o777), (true, 0o600));

    fs::set_permissions(&note, Permissions::from_mode(0o620)).unwrap();
    assert_not_followed(&test_gateway, "can be read or written by others");
    fs::set_permissions(&note, Permissions::from_mode(0o600)).unwrap();

    chown(&note, Some(12345), None).unwrap();
    assert_not_followed(&test_gateway, "belongs to another user");
    chown(&note, Some(0), None).unwrap();

    let other = test_gateway.sandbox.file("other");
    fs::rename(&note, &other).unwrap();
    symlink(&other, &note).unwrap();
    assert_not_followed(&test_gateway, &note.display().to_string());
    fs::remove_file(&note).unwrap();

    for text in ["relative/ostler.json", "", "/a\0b", &"/x".repeat(5000)] {
        fs::write(&note, text).unwrap();
        fs::set_permissions(&note, Permissions::from_mode(0o600)).unwrap();
        assert_not_followed(&test_gateway, "does not name a configuration");
    }

    fs::rename(&other, &note).unwrap();
    fs::remove_file(test_gateway.config()).unwrap();
    assert_not_followed(
        &test_gateway,
        &format!("{} is not there any more", test_gateway.config().display()),
    );
}

#[test]
fn a_file_in_the_working_directory_of_a_gateway_is_not_followed() {
    let test_gateway = TestGateway::with(Stage::leaf(), &["a"], &json!({}));
    let mut command = test_gateway.command(test_gateway.program());
    let directory = test_gateway.config().parent().unwrap().to_owned();
    let mut gateway = Launched::start(command.arg("serve").current_dir(directory));
    wait_until("it serves", PATIENCE, || gateway.stderr().contains("serves"));
    let mut client = Client::start(test_gateway.command(test_gateway.program()).arg("connect"));
    let tools = client.0.call("tools/list", &json!({}));
    assert!(tools.to_string().contains("example__echo"), "{tools}");
    client.end();
    test_gateway.ostler(&["down", "--all"]);
    assert!(test_gateway.wait_exit(&mut gateway).success());
    test_gateway.expect_no_process();
}

#[test]
fn a_runtime_directory_that_can_not_be_used_is_refused() {
    let test_gateway = TestGateway::with(Stage::leaf(), &["a"], &json!({}));
    for (directory, reason) in
        [("relative", "not an absolute path"), ("/dev/null", "Not a directory")]
    {
        let mut connect = test_gateway.connect_command(&["a"]);
        let output = connect.env("OSTLER_RUNTIME_DIR", directory).output().unwrap();
        let said = said(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(directory) && said.contains(reason), "{said}");
    }
    test_gateway.expect_no_process();
}

/// A silent peer delays the exit of the gateway for a moment after its servers have ended.
#[test]
fn when_down_returns_the_next_gateway_can_begin() {
    let test_gateway = TestGateway::with(Stage::leaf(), &["a"], &json!({}));
    for words in [&["down"][..], &["down", "--all"]] {
        let mut gateway = test_gateway.serve(&["--listen", "127.0.0.1:0"]);
        let status = test_gateway.ostler_json(&["status", "--json"]);
        let socket = status["gateways"][0]["socket"].as_str().unwrap().to_owned();
        let silent = UnixStream::connect(socket).unwrap();
        test_gateway.ostler(words);
        assert!(!is_alive(gateway.pid()), "its process and its locks are gone");
        assert!(test_gateway.wait_exit(&mut gateway).success(), "{}", gateway.stderr());
        let mut next = test_gateway.serve(&[]);
        drop(silent);
        test_gateway.down_with(&mut next);
    }
}
