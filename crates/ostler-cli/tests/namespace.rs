//! Level `strict`: what a server sees in its namespaces, and machines where they are not available.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Stdio;

use ostler_testkit::{Process, Stage, User, strict_rows};

/// Standard output of a command that runs as a server.
fn output_of(stage: &Stage, words: &[&str]) -> String {
    let output = stage.run(words).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

strict_rows! {
    fn only_the_pid_differs_for_the_server(stage) {
        let direct = stage.dump_of(&[]);
        let mut fenced = stage.dump_of(&stage.run_words_with(&["--engine", "off"]));
        assert!(fenced["env"].as_object_mut().unwrap().remove("OSTLER_INSTANCE").is_some());
        for field in ["argv", "cwd", "env", "umask", "sigign", "sigblk", "uid"] {
            assert_eq!(direct[field], fenced[field], "{field}");
        }
        // SIGTERM would have no effect on pid 1.
        assert_eq!(fenced["ppid"], 1);
        assert_ne!(fenced["pid"], 1);
        stage.assert_empty_now();
    }

    fn the_server_sees_its_own_namespace_only(stage) {
        assert_eq!(output_of(&stage, &["cat", "/proc/1/comm"]), "ostler-init\n");
        let all = output_of(&stage, &["sh", "-c", "echo /proc/[0-9]*"]);
        assert_eq!(all.split_whitespace().count(), 2, "{all}");
        let groups = output_of(&stage, &["grep", "Groups", "/proc/self/status"]);
        assert!(!groups.contains("65534"), "{groups}");
        stage.assert_empty_now();
    }

    // Ledgers, sockets and configuration are hidden, and what the server writes there is not visible outside.
    fn the_server_does_not_see_ostlers_directories(stage) {
        let configuration = stage.sandbox.home().join(".config/ostler");
        fs::create_dir_all(&configuration).unwrap();
        fs::write(configuration.join("ostler.json"), "secret").unwrap();
        let (state, runtime) = (stage.sandbox.state(), stage.sandbox.runtime());
        let look = format!(
            "cat {configuration}/* {state}/ostler/owners/*/ledger 2> /dev/null; ls {runtime}/ostler 2> /dev/null; \
             mkdir -p {state}/ostler/owners/forged && echo forged",
            configuration = configuration.display(),
            state = state.display(),
            runtime = runtime.display()
        );
        assert_eq!(output_of(&stage, &["sh", "-c", &look]), "doors\nforged\n");
        assert!(!state.join("ostler/owners/forged").exists());
        fs::remove_dir_all(stage.sandbox.home().join(".config")).unwrap();
        stage.assert_empty_now();
    }

    // A gateway of this user may have its socket in any of them, with any environment.
    fn the_server_does_not_see_any_socket_directory(stage) {
        let uid = if let User::Nobody(uid) = stage.user { uid } else { 0 };
        let system = stage.sandbox.system();
        let places =
            [system.tmp().join(format!("ostler-{uid}")), system.log_in(uid).join("ostler")];
        for place in &places {
            fs::create_dir(place).unwrap();
            fs::write(place.join("configuration"), "/secret").unwrap();
            chown(place, Some(uid), None).unwrap();
            fs::set_permissions(place, Permissions::from_mode(0o700)).unwrap();
        }
        for named in [None, Some(stage.sandbox.runtime())] {
            let own = stage.run_words();
            let mut command = stage.sandbox.command_on_own_system(stage.user, &own[0]);
            let look = format!("cat /tmp/ostler-{uid}/conf* /run/user/{uid}/ostler/conf*; echo seen");
            command.args(&own[1..]).args(["sh", "-c", &look]).stdin(Stdio::null());
            command.envs(named.map(|path| ("OSTLER_RUNTIME_DIR", path)));
            let output = command.output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), "seen\n");
        }
        stage.assert_empty_now();
    }

    fn the_reported_pid_is_the_servers_pid_outside(stage) {
        let mut run = stage.wrap(&[]);
        let said = run.stderr();
        let pid = said.split("started as process ").nth(1).unwrap().split(',').next().unwrap();
        let process = Process::read(pid.parse().unwrap()).unwrap();
        assert_eq!((process.comm.as_str(), process.ppid), ("ostler-stub", stage.named("ostler-init")[0]));
        run.close_stdin();
        assert!(stage.wait_exit(&mut run).success());
    }

    fn a_missing_command_or_directory_is_reported(stage) {
        for (words, code) in [(&["--", "no-such-command"][..], 127), (&["--cwd", "/no/such", "--", "true"], 126)] {
            let mut command = stage.command(&stage.run_words()[0]);
            command.args(["run", "--containment", "strict"]).args(words);
            assert_eq!(command.stdin(Stdio::null()).output().unwrap().status.code(), Some(code));
            stage.assert_empty_now();
        }
    }
}

#[test]
fn supplementary_groups_still_give_access_to_files() {
    let stage = Stage::strict_user();
    let uid = stage.sandbox.token().uid();
    let (group, file) = ((uid + 1).to_string(), stage.sandbox.file("of-the-group"));
    fs::write(&file, "readable").unwrap();
    let chown = |program: &str, what: &str| {
        assert!(
            std::process::Command::new(program).arg(what).arg(&file).status().unwrap().success()
        );
    };
    chown("chgrp", &group);
    chown("chmod", "0640");
    let uid = uid.to_string();
    let mut command = stage.sandbox.command("setpriv");
    command.args(["--reuid", &uid, "--regid", &uid, "--groups", &group, "--inh-caps=-all", "--"]);
    command.args(stage.run_words()).arg("cat").arg(&file).stdin(Stdio::null());
    assert_eq!(command.output().unwrap().stdout, b"readable");
    stage.assert_empty_now();
}

/// Runs in a private user namespace, so that the sysctl does not change for the machine.
#[test]
fn strict_is_refused_where_no_namespace_may_be_created() {
    let stage = Stage::strict_user();
    let forbid =
        r#"echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all "$@""#;
    let started = stage.sandbox.file("started");
    let mut command = stage.command("unshare");
    command.args(["--user", "--map-root-user", "sh", "-c", forbid, "sh"]);
    command.args(stage.run_words()).arg("touch").arg(&started).stdin(Stdio::null());
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), stderr.lines().count()), (Some(1), 1), "{stderr}");
    assert!(stderr.contains("containment 'strict' is not available here"), "{stderr}");
    assert!(stderr.contains("max_user_namespaces"), "{stderr}");
    assert!(!started.exists());
    stage.assert_empty_now();
}

/// The kernel refuses to mount /proc if the existing one has covered parts, as in many containers.
#[test]
fn strict_is_refused_where_proc_cannot_be_mounted() {
    let stage = Stage::strict_user();
    let started = stage.sandbox.file("started");
    let hide = r#"mount --bind /dev/null /proc/uptime && exec "$@""#;
    let uid = stage.sandbox.token().uid().to_string();
    let mut command = stage.sandbox.command("unshare");
    command.args(["--mount", "sh", "-c", hide, "sh", "setpriv", "--reuid", &uid, "--regid", &uid]);
    command.args(["--clear-groups", "--inh-caps=-all", "--"]);
    command.args(stage.run_words()).arg("touch").arg(&started).stdin(Stdio::null());
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), stderr.lines().count()), (Some(1), 1), "{stderr}");
    assert!(
        stderr.contains("containment 'strict' is not available here: a private /proc"),
        "{stderr}"
    );
    assert!(!started.exists());
    stage.assert_empty_now();
}
