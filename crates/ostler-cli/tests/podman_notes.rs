//! Neither a forged podman note nor podman's own files make ostler execute a program outside of the server's fence.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

/// These tests run one at a time, because podman's locks are machine-wide.
mod engine {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    use ostler_testkit::{IMAGE, Launched, Podman, Stage, rows, wait_until};
    use rustix::process::Signal;

    /// Podman starts slowly on a loaded machine, and every query starts it.
    const PATIENCE: Duration = Duration::from_mins(1);

    /// A program that logs its environment each time it runs, and leaves a process behind.
    struct Trap {
        program: PathBuf,
        log: PathBuf,
    }

    impl Trap {
        fn set(stage: &Stage) -> Self {
            let (program, log) = (stage.sandbox.file("trap"), stage.sandbox.file("trap.log"));
            let text = format!(
                "#!/bin/sh\necho $(readlink /proc/self/ns/pid) $(cat /proc/self/cgroup) >> {}\n\
                 env -i setsid sleep 100000 < /dev/null > /dev/null 2>&1 &\nexec runc \"$@\"\n",
                log.display()
            );
            fs::write(&program, text).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
            Self { program, log }
        }

        fn lines(&self) -> Vec<String> {
            let text = fs::read_to_string(&self.log).unwrap_or_default();
            text.lines().map(str::to_owned).collect()
        }
    }

    fn start(stage: &Stage, podman: &Podman, script: &str) -> Launched {
        let script = format!("{}{script}", podman.exports());
        let mut command = stage.run(&["sh", "-c", &script]);
        // As on a user's machine: the default store is the server's store.
        let mut run = Launched::start(command.env("IMAGE", IMAGE).envs(podman.env()));
        assert_eq!(run.line(PATIENCE).unwrap().unwrap(), b"up");
        run
    }

    /// Lines of a note that name the trap in every way that podman, or an older ostler, would execute.
    fn hostile_lines(trap: &Path, podman: &Podman) -> Vec<String> {
        let (program, [(_, home), ..]) = (trap.display(), podman.env());
        let (store, home) = (home.with_file_name("store"), home.display());
        let store = store.display();
        let old = |program: &str, globals: &str, env: &str| {
            format!(r#"{{"program":"{program}","globals":[{globals}],"env":[{env}],"cwd":"/"}}"#)
        };
        let runtime = format!(r#""--root={store}","--runtime={program}""#);
        let env = format!(r#"["PATH","/usr/bin:/bin"],["HOME","{home}"]"#);
        let stores = [
            old(&program.to_string(), "", ""),
            old("/usr/bin/podman", &runtime, &env),
            format!(r#"{{"root":"{store}","runroot":"--runtime={program}","driver":"vfs"}}"#),
            format!(r#"{{"root":"{store}","runroot":"/r","driver":"vfs --runtime={program}"}}"#),
            format!(r#"{{"service":"ssh://-oProxyCommand={program}"}}"#),
        ];
        stores.iter().map(|store| format!(r#"{{"thing":"container","store":{store}}}"#)).collect()
    }

    /// Starts a server with a container that adds hostile lines to the note.
    fn write_hostile_note(stage: &Stage, podman: &Podman, trap: &Trap) -> Launched {
        let lines = stage.sandbox.file("lines");
        fs::write(&lines, hostile_lines(&trap.program, podman).join("\n") + "\n").unwrap();
        let script = format!(
            "podman run -d $IMAGE sleep 100000 >&2
            for note in {1}/ostler/owners/*/*.podman; do cat {0} >> $note && echo up; done; exec cat",
            lines.display(),
            stage.sandbox.state().display()
        );
        let run = start(stage, podman, &script);
        podman.await_running(1);
        run
    }

    fn expect_unsprung(stage: &Stage, podman: &Podman, trap: &Trap) {
        podman.expect_nothing_left();
        stage.expect_empty();
        assert_eq!(trap.lines(), Vec::<String>::new(), "the program of the note has run");
    }

    fn note_is_cleared(stage: &Stage) {
        let (podman, trap) = (Podman::of(stage), Trap::set(stage));
        for signal in [Signal::TERM, Signal::KILL] {
            let mut run = write_hostile_note(stage, &podman, &trap);
            run.signal(signal);
            stage.wait_exit(&mut run);
            expect_unsprung(stage, &podman, &trap);
        }
        let mut run = write_hostile_note(stage, &podman, &trap);
        stage.abandon(&mut run);
        let ostler = |words: &[&str]| {
            let mut command = stage.command(&stage.run_words()[0]);
            command.args(words).envs(podman.env()).output().unwrap();
        };
        ostler(&["ps"]);
        wait_until("reap has cleared it", PATIENCE, || {
            ostler(&["reap", "--yes"]);
            podman.containers().is_empty()
        });
        expect_unsprung(stage, &podman, &trap);
    }

    /// Podman's database names the runtime of each container, and podman executes it to remove the container if the
    /// container's monitor is dead.
    fn runtime_stays_inside(stage: &Stage) {
        let (podman, trap) = (Podman::of(stage), Trap::set(stage));
        let made = format!(
            "podman --runtime {0} create --name own $IMAGE sleep 100000 >&2
            podman --runtime {0} init own >&2
            kill -9 $(podman inspect --format '{{{{.State.ConmonPid}}}}' own); echo up; exec cat",
            trap.program.display()
        );
        let mut run = start(stage, &podman, &made);
        assert_eq!(podman.containers().len(), 1);
        let before = trap.lines().len();
        run.signal(Signal::TERM);
        stage.wait_exit(&mut run);
        podman.expect_nothing_left();
        stage.expect_empty();
        let after = &trap.lines()[before..];
        assert!(!after.is_empty(), "podman no longer executes the runtime: {:?}", trap.lines());
        let outside = fs::read_link("/proc/self/ns/pid").unwrap().display().to_string();
        for line in after {
            match stage.level() {
                "strict" => assert!(!line.starts_with(&outside), "outside of a namespace: {line}"),
                // The first line comes from the test itself.
                "leaf" => {
                    assert_eq!(line.matches("/ostler-").count(), 2, "outside of a leaf: {line}");
                }
                // This level only promises that its process is gone.
                _ => {}
            }
        }
    }

    rows! {
        fn r11_a_note_names_a_program(stage) {
            note_is_cleared(&stage);
        }

        fn r11_a_container_names_its_runtime(stage) {
            runtime_stays_inside(&stage);
        }
    }

    #[test]
    fn r11_a_note_names_a_program_at_strict() {
        note_is_cleared(&Stage::strict());
    }

    #[test]
    fn r11_a_container_names_its_runtime_at_strict() {
        runtime_stays_inside(&Stage::strict());
    }
}
