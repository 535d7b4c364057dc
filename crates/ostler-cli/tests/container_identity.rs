//! F20: engine clients have the same output and exit status with the Door and without it.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

/// Tests on the shared engine of the test run.
mod engine {
    use std::fs;
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use ostler_testkit::{Dock, IMAGE, Launched, Stage, wait_until};
    use serde_json::Value;

    const PATIENCE: Duration = Duration::from_secs(30);
    /// Long enough that no test ends because of the grace after the end of input.
    const GRACE: &str = "60s";
    const COMPOSE: &str = "
services:
  first: {image: IMAGE, command: sh -c 'echo first; sleep 100000', restart: always, init: true,
    networks: [net], volumes: ['kept:/kept']}
  second: {image: IMAGE, command: sleep 100000, restart: always, init: true, networks: [net], depends_on: [first]}
networks: {net: {}}
volumes: {kept: {}}
";

    /// Output and exit code of a client.
    #[derive(Debug)]
    struct Said {
        stdout: Vec<u8>,
        stderr: String,
        code: Option<i32>,
    }

    impl Said {
        /// Standard output without the ids that an engine generates.
        fn text(&self) -> String {
            without_ids(&String::from_utf8_lossy(&self.stdout))
        }

        /// Standard error likewise, without ostler's own lines.
        fn complaints(&self) -> String {
            let lines = self.stderr.lines().filter(|line| !line.starts_with("ostler: "));
            without_ids(&lines.collect::<Vec<_>>().join("\n"))
        }
    }

    /// Runs a client. End of input would stop a server, so without input stdin stays open.
    fn said(command: &mut Command, input: &[u8]) -> Said {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take();
        let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let (mut stdout, mut stderr) = (Vec::new(), String::new());
        std::thread::scope(|scope| {
            if !input.is_empty() {
                let mut stdin = stdin.take().unwrap();
                scope.spawn(move || stdin.write_all(input).unwrap());
            }
            scope.spawn(|| err.read_to_string(&mut stderr).unwrap());
            out.read_to_end(&mut stdout).unwrap();
        });
        Said { stdout, stderr, code: child.wait().unwrap().code() }
    }

    /// A command that runs through the Door.
    fn through(dock: &Dock, words: &[&str]) -> Command {
        let mut command = dock.stage().command(&dock.stage().run_words()[0]);
        command.args(["run", "--grace", GRACE, "--"]).args(words);
        command
    }

    fn direct(dock: &Dock, words: &[&str]) -> Command {
        let mut command = dock.stage().command(words[0]);
        command.args(&words[1..]);
        command
    }

    /// Runs a command with and without the Door, and expects equal results.
    fn both(dock: &Dock, words: &[&str], input: &[u8]) -> Said {
        let [direct, through] = [direct, through].map(|way| {
            let mut command = way(dock, words);
            command.env("DOCKER_HOST", dock.docker().host()).env("IMAGE", IMAGE);
            command.env("WORK", work(dock)).env("DOCKER_BUILDKIT", "0");
            said(&mut command, input)
        });
        if direct.stdout != through.stdout {
            assert_eq!(direct.text(), through.text(), "{words:?}");
        }
        assert_eq!(direct.complaints(), through.complaints(), "{words:?}");
        assert_eq!(direct.code, through.code, "{words:?}");
        dock.expect_empty();
        through
    }

    /// The same for a shell script; standard error is compared too.
    fn script(dock: &Dock, script: &str, input: &[u8]) -> String {
        both(dock, &["sh", "-c", &format!("exec 2>&1\n{script}")], input).text()
    }

    /// A private directory for the test.
    fn work(dock: &Dock) -> String {
        let work = dock.stage().sandbox.file("work");
        fs::create_dir_all(&work).unwrap();
        work.to_str().unwrap().to_owned()
    }

    /// Replaces ids: runs of at least twelve hexadecimal digits.
    fn without_ids(text: &str) -> String {
        let (mut clean, mut run) = (String::new(), String::new());
        for character in text.chars().chain(['\n']) {
            if character.is_ascii_hexdigit() {
                run.push(character);
                continue;
            }
            clean.push_str(if run.len() < 12 { &run } else { "ID" });
            run.clear();
            clean.push(character);
        }
        clean.pop();
        clean
    }

    fn dock() -> Dock {
        Dock::shared(Stage::leaf())
    }

    #[test]
    fn f20_five_megabytes_in_and_out() {
        let dock = &dock();
        let sent: Vec<u8> =
            (0..5_000_000u32).map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
        let words = ["docker", "run", "-i", "--rm", IMAGE, "cat"];
        let said = both(dock, &words, &sent);
        assert_eq!(said.code, Some(0));
        assert!(
            said.stdout == sent,
            "{} of {} bytes, or not the same",
            said.stdout.len(),
            sent.len()
        );
    }

    #[test]
    fn f20_output_after_the_end_of_input_and_exit_codes() {
        let dock = &dock();
        let late = "cat; sleep 1; echo late; echo error >&2; exit 42";
        let said =
            both(dock, &["docker", "run", "-i", "--rm", IMAGE, "sh", "-c", late], b"early\n");
        assert_eq!((said.text().as_str(), said.code), ("early\nlate\n", Some(42)));
        assert_eq!(said.complaints(), "error");
        let said = script(
            dock,
            "c=$(docker create -i $IMAGE sh -c 'read word; sleep 1; echo got $word; exit 3')
            echo word | docker start -a -i $c; echo $?
            docker wait $c; docker logs $c; docker rm $c; docker rm $c; docker attach $c; echo $?
            c=$(docker run -d $IMAGE sh -c 'sleep 2; echo attached; exit 4'); docker attach $c; echo $?; docker rm $c
            c=$(docker run -d $IMAGE sleep 100000)
            docker exec -i $c sh -c 'cat; sleep 1; echo late; exit 5' </etc/hostname; echo $?
            docker exec $c no-such-command; echo $?; docker rm -f $c
            docker run --rm $IMAGE no-such-command; echo $?",
            b"",
        );
        for line in ["got word\n3\n", "attached\n4\n", "late\n5\n", "\n127\n"] {
            assert!(said.contains(line), "{said}");
        }
    }

    #[test]
    fn f20_files_logs_and_images() {
        let dock = &dock();
        let said = script(
            dock,
            "cd $WORK; echo content >file; c=$(docker run -d $IMAGE sh -c 'for i in 1 2 3; do echo out $i; done; sleep 1; echo late')
            docker cp file $c:/tmp/copy; docker cp $c:/tmp/copy - | tar -xO; docker cp $c:/bin - | sha256sum | head -c 8
            docker cp $c:/bin/busybox out; cmp out /bin/busybox; docker cp $c:/nowhere .; echo $?
            docker logs -f $c; docker logs --tail 2 $c; docker diff $c; docker rm $c
            c=$(docker run -d $IMAGE sh -c 'echo out; echo err >&2'); docker wait $c
            docker logs $c 2>/dev/null; docker logs $c >/dev/null; docker rm $c
            docker image inspect $IMAGE; docker save $IMAGE | tar -t; docker version --format json; docker volume ls",
            b"",
        );
        for line in ["content\n", "out 3\nlate\n", "A /tmp/copy\n", "out\nerr\n"] {
            assert!(said.contains(line), "{line}: {said}");
        }
    }

    #[test]
    fn f20_events_as_they_come() {
        let dock = &dock();
        let said = script(
            dock,
            "c=$(docker create $IMAGE sh -c 'exit 7'); until=$(($(date +%s)+4))
            docker events --filter container=$c --since 1 --until $until --format '{{.Type}} {{.Action}}' &
            (docker start -a $c; docker rm $c) >/dev/null; wait",
            b"",
        );
        for event in ["create", "attach", "start", "die", "destroy"] {
            assert!(said.contains(&format!("container {event}\n")), "{said}");
        }
    }

    /// The Door adds an empty label, and this builder prints a step for each label.
    #[test]
    fn f20_a_build_without_buildkit() {
        let dock = &dock();
        let said = script(
            dock,
            r"cd $WORK; mkdir -p context; echo content >context/file
            printf 'FROM %s\nCOPY file /file\nRUN cat /file; echo built\nRUN exit 9\n' $IMAGE >context/Dockerfile
            docker build --label ostler.instance= --no-cache --network none -t same:failed context; echo $?
            printf 'FROM scratch\nCOPY file /file\nLABEL a=b\n' >context/Dockerfile
            tar -C context -c . | docker build --label ostler.instance= --no-cache -t same:built -
            docker image inspect --format '{{json .Config}}' same:built; docker rmi same:built >/dev/null",
            b"",
        );
        for line in ["content\nbuilt\n", "\n9\n", "Successfully tagged same:built"] {
            assert!(said.contains(line), "{said}");
        }
    }

    /// Through the Door, `inspect` shows additional labels and nothing else.
    #[test]
    fn f20_inspect_of_a_container() {
        let dock = &dock();
        let words = "c=$(docker run -d --name same --label own=label -e A=b $IMAGE sleep 100000); docker inspect $c; docker rm -f $c >/dev/null";
        let [mut direct, mut through] = [direct, through].map(|way| {
            let mut command = way(dock, &["sh", "-c", words]);
            command.env("DOCKER_HOST", dock.docker().host()).env("IMAGE", IMAGE);
            serde_json::from_str::<Value>(&said(&mut command, b"").text()).unwrap()
        });
        let labels = through[0]["Config"]["Labels"].as_object_mut().unwrap();
        for label in ["ostler.instance", "ostler.owner", "ostler.server"] {
            assert!(labels.remove(label).is_some(), "{label}");
        }
        for answer in [&mut direct[0], &mut through[0]] {
            for (part, name) in [("", "Created"), ("/State", "StartedAt"), ("/State", "Pid")] {
                assert!(answer.pointer_mut(part).unwrap()[name].take() != Value::Null, "{name}");
            }
        }
        assert_eq!(direct, through);
        dock.expect_empty();
        let said = script(
            dock,
            "c=$(docker run -d --name same $IMAGE sleep 100000)
            docker ps --filter name=same --format '{{.ID}} {{.Image}} {{.Command}} {{.State}} {{.Names}} {{.Mounts}}'
            docker ps --all --quiet --filter id=$c; docker top same -o args; docker port same
            docker rename same other; docker inspect same; docker inspect --format '{{.Name}}' other; docker kill other
            docker ps --all --filter name=other --format '{{.State}}'; docker rm other; docker ps --filter name=same",
            b"",
        );
        for line in ["\"sleep 100000\" running same", "/other\n", "\nexited\n"] {
            assert!(said.contains(line), "{line}: {said}");
        }
    }

    #[test]
    fn f20_the_python_sdk() {
        let program = r#"
import docker, os
client = docker.from_env()
image = os.environ["IMAGE"]
print(client.ping(), client.containers.run(image, ["echo", "hello"], remove=True))
try:
    client.containers.run(image, ["sh", "-c", "echo no >&2; exit 6"], remove=True)
except docker.errors.ContainerError as error:
    print(error.exit_status, error.stderr)
box = client.containers.create(image, ["sh", "-c", "cat; echo late; echo err >&2; exit 4"], stdin_open=True)
stream = box.attach_socket(params={"stdin": 1, "stdout": 1, "stream": 1})
box.start()
stream._sock.sendall(b"through a socket\n" * 1000)
stream._sock.shutdown(1)
received = b""
while True:
    piece = stream._sock.recv(65536)
    if not piece:
        break
    received += piece
print(len(received) > 17000, received.count(b"through a socket\n") > 990, received[-5:], box.wait()["StatusCode"])
print(box.logs(stdout=False, stderr=True), list(box.logs(stream=True, stdout=True, stderr=False))[-1])
box.remove()
box = client.containers.run(image, ["sleep", "100000"], detach=True)
print(box.exec_run(["sh", "-c", "echo in; echo err >&2; exit 8"], demux=True))
print(sum(len(piece) for piece in box.get_archive("/bin/busybox")[0]))
box.remove(force=True)
"#;
        let dock = &dock();
        let said = both(dock, &["/usr/bin/python3", "-c", program], b"");
        assert_eq!(said.code, Some(0));
        for part in ["hello", "6 b'no", "True True b'late\\n' 4", "exit_code=8"] {
            assert!(said.text().contains(part), "{}", said.text());
        }
    }

    #[test]
    fn f19_f20_compose() {
        let dock = &dock();
        let file = format!("{}/compose.yaml", work(dock));
        fs::write(&file, COMPOSE.replace("IMAGE", IMAGE)).unwrap();
        let compose = "docker-compose --ansi never -p same -f $WORK/compose.yaml";
        let up = format!("{compose} up -d");
        // Compose works on several containers at once, so the order of some lines is random.
        let words = [
            format!("{up} 2>&1 | sort; {compose} logs first; {compose} exec -T second echo inside"),
            format!("{compose} down --volumes 2>&1 | sort"),
        ];
        let said = script(dock, &words.join("\n"), b"");
        for part in ["first_1   | first", "inside\n", "Removing volume same_kept"] {
            assert!(said.contains(part), "{said}");
        }

        let mut command = through(dock, &["sh", "-c", &format!("{up}; exec cat")]);
        command.env("DOCKER_HOST", dock.docker().host()).env("WORK", work(dock));
        let mut run = Launched::start(&mut command);
        let containers = dock.await_running(2);
        for container in &containers {
            assert_eq!(dock.inspect(container)["HostConfig"]["RestartPolicy"]["Name"], "no");
        }
        wait_until("compose is done", PATIENCE, || dock.stage().named("docker-compose").is_empty());
        assert_eq!(dock.docker().networks("ostler.instance").len(), 1);
        run.close_stdin();
        assert!(dock.stage().wait_exit(&mut run).success());
        dock.expect_empty();
        assert_eq!(dock.docker().expect(&["volume", "rm", "same_kept"]), "same_kept");
    }
}
