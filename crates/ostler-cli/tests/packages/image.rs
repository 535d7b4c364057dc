//! The image recipe, on the engine that the test command starts.

mod engine {
    use std::fs;
    use std::path::PathBuf;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use ostler_testkit::{Docker, Launched, Stage, binary, wait_until};
    use rustix::process::Signal;
    use serde_json::json;

    const PATIENCE: Duration = Duration::from_secs(30);
    const IMAGE: &str = "ostler-test-package";

    fn build(docker: &Docker, stage: &Stage) {
        let context = stage.sandbox.file("context");
        fs::create_dir(&context).unwrap();
        let recipe =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../packaging/Containerfile");
        fs::copy(recipe, context.join("Dockerfile")).unwrap();
        fs::copy(binary("ostler"), context.join("ostler")).unwrap();
        docker.expect(&["build", "--quiet", "--tag", IMAGE, context.to_str().unwrap()]);
    }

    /// A server of the image, with ostler as process 1.
    fn start(docker: &Docker, label: &str) -> Launched {
        let mut command: Command = docker.command();
        command.args(["run", "--interactive", "--rm", "--label", label, IMAGE]);
        command.args(["run", "--", "ostler", "example-server"]).stdin(Stdio::piped());
        let mut run = Launched::start(&mut command);
        run.initialize();
        run
    }

    #[test]
    fn a_container_with_ostler_as_its_first_process_leaves_nothing() {
        let (docker, stage) = (Docker::shared(), Stage::leaf());
        build(&docker, &stage);
        let label = format!("ostler-test-package={}", std::process::id());
        let mut run = start(&docker, &label);
        let answer =
            run.call("tools/call", &json!({ "name": "echo", "arguments": { "message": "hi" } }));
        assert!(answer["result"].to_string().contains("hi"), "{answer}");
        assert_eq!(docker.running(&label).len(), 1);
        run.close_stdin();
        assert!(run.wait_exit(PATIENCE).success());
        wait_until("the container is gone", PATIENCE, || docker.containers(&label).is_empty());

        let mut run = start(&docker, &label);
        run.signal(Signal::KILL);
        wait_until("the container is gone", PATIENCE, || docker.containers(&label).is_empty());
    }
}
