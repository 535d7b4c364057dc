//! Podman images that carry a server's labels, with and without a service: the user's containers from them stay.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

/// These tests run one at a time, because podman's locks are machine-wide.
mod engine {
    use std::time::Duration;

    use ostler_testkit::{IMAGE, Launched, Podman, Stage, rows, wait_until};

    /// Podman starts slowly on a loaded machine, and every query starts it.
    const PATIENCE: Duration = Duration::from_mins(1);
    /// A server with a container called `own` that executes each line of its input.
    const SHELL: &str = "podman run -d --name own $IMAGE sleep 100000 >/dev/null; echo up
        while read -r line; do eval \"$line\" >&2; echo $?; done";

    fn start(stage: &Stage, podman: &Podman, service: Option<&str>) -> (Launched, String) {
        let script = format!("{}{SHELL}", podman.exports());
        let mut command = stage.run(&["sh", "-c", &script]);
        command.env("IMAGE", IMAGE).envs(service.map(|url| ("CONTAINER_HOST", url)));
        let mut run = Launched::start(&mut command);
        assert_eq!(run.line(PATIENCE).unwrap().unwrap(), b"up");
        let own = podman.await_running(1).pop().unwrap();
        let instance = podman.inspect(&own)["Config"]["Labels"]["ostler.instance"].clone();
        (run, instance.as_str().unwrap().to_owned())
    }

    /// Makes the server execute a line, and returns the exit code.
    fn tell(run: &mut Launched, line: &str) -> i32 {
        run.write(format!("{line}\n").as_bytes(), PATIENCE).unwrap();
        let answer = run.line(PATIENCE).unwrap().unwrap();
        String::from_utf8(answer).unwrap().parse().unwrap()
    }

    /// The value of an image's instance label; empty if it has none.
    fn label_of(podman: &Podman, image: &str) -> String {
        let format = "{{index .Config.Labels \"ostler.instance\"}}";
        podman.expect(&["image", "inspect", "--format", format, image])
    }

    fn end_and_expect_the_users(stage: &Stage, podman: &Podman, run: &mut Launched) {
        run.close_stdin();
        stage.wait_exit(run);
        podman.expect_nothing_left();
        stage.expect_empty();
    }

    /// A directory with a Dockerfile that begins with this image.
    fn context(stage: &Stage, from: &str) -> String {
        let context = stage.sandbox.file("context");
        std::fs::create_dir_all(&context).unwrap();
        std::fs::write(context.join("Dockerfile"), format!("FROM {from}\n")).unwrap();
        context.to_str().unwrap().to_owned()
    }

    /// Runs a test with a service and without.
    fn both(stage: &Stage, play: impl Fn(&mut Podman, &mut Launched, &str)) {
        for is_served in [false, true] {
            let mut podman = Podman::of(stage);
            let service = is_served.then(|| podman.serve());
            let (mut run, instance) = start(stage, &podman, service.as_deref());
            play(&mut podman, &mut run, &instance);
            end_and_expect_the_users(stage, &podman, &mut run);
        }
    }

    rows! {
        fn r01_images_that_the_server_made(stage) {
            both(&stage, |podman, run, instance| {
                assert_eq!(tell(run, "podman commit own committed"), 0);
                assert_eq!(label_of(podman, "committed"), "");
                podman.adopt("committed");
                let context = context(&stage, &format!("{IMAGE}\nLABEL ostler.instance={instance}"));
                assert_eq!(tell(run, &format!("podman build -t built {context}")), 0);
                assert_eq!(label_of(podman, "built"), "");
                podman.adopt("built");
            });
        }

        /// The image was made without ostler, so it carries the labels; the server has a container of it too.
        fn r01_an_image_that_carries_the_labels(stage) {
            both(&stage, |podman, run, instance| {
                podman.expect(&["commit", "own", "marked"]);
                assert_eq!(label_of(podman, "marked"), instance);
                podman.adopt("marked");
                assert_eq!(tell(run, "podman run -d marked sleep 100000"), 0);
            });
        }

        fn a_command_that_sets_our_labels_is_refused(stage) {
            let context = context(&stage, IMAGE);
            both(&stage, |_, run, instance| {
                for line in [
                    format!("podman create --label ostler.instance={instance}0 {IMAGE} true"),
                    format!("podman pod create --label ostler.instance={instance}0"),
                    format!("podman network create --label ostler.instance={instance}0 refused"),
                    format!("podman commit --change 'LABEL ostler.instance={instance}' own refused"),
                    format!("podman build --label ostler.instance={instance} {context}"),
                ] {
                    let count = |run: &Launched| run.stderr().matches("are ostler's own").count();
                    let before = count(run);
                    assert_ne!(tell(run, &line), 0, "{line}");
                    wait_until("the refusal is printed", PATIENCE, || count(run) > before);
                }
            });
        }
    }
}
