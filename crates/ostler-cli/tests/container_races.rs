//! Races in which ostler could report too early that no container is left, each of them forced by a tracer.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use std::fs;
use std::process::Command;
use std::time::Duration;

use ostler_testkit::{
    Act, FakeEngine, Host, Launched, Process, Stage, binary, dock_rows, wait_until,
};
use rustix::process::Signal;

const PATIENCE: Duration = Duration::from_secs(30);
const CREATE: &str = "POST /containers/create";

/// A server that connects to its Door on SIGTERM, and dies before the connection is accepted.
const LAST_WORDS: &str = r"
    const door = process.env.DOCKER_HOST.slice('unix://'.length);
    const body = JSON.stringify({ Image: 'image' });
    const head = 'POST /v1.41/containers/create HTTP/1.1\r\nHost: docker\r\n' +
        `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`;
    process.on('SIGTERM', () => {
        const client = require('net').connect(door, () => client.write(head + body, () => {
            require('fs').writeFileSync(__filename + '.knocked', '');
            process.kill(process.pid, 'SIGKILL');
        }));
    });
    setInterval(() => {}, 100000);
";
/// A server that ignores SIGTERM.
const DEAF: &str = "process.on('SIGTERM', () => {}); setInterval(() => {}, 100000);";

/// Starts a tracer that delays these system calls of a process. It exits with the process.
fn slow_down(stage: &Stage, pid: u32, delays: [&str; 2]) -> Launched {
    let mut command = Command::new("strace");
    command.args(["-p", &pid.to_string(), "-o"]).arg(stage.sandbox.file("trace"));
    for delay in delays {
        command.args(["-e", &format!("inject={delay}")]);
    }
    let tracer = Launched::start(&mut command);
    wait_until("it is traced", PATIENCE, || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        status.lines().any(|line| line.starts_with("TracerPid:") && !line.ends_with("\t0"))
    });
    tracer
}

/// The guardian has polled the Door for the last time and is about to see that no process is left. Its orders to a
/// porter, if it starts one, are delayed, so the porter would have time to serve the pending connection. Another server
/// keeps the ledger's directory in place, without which no create can be recorded.
#[test]
fn r06_no_request_of_a_dead_process_is_served_after_the_proof() {
    let (stage, engine) = (Stage::leaf(), FakeEngine::start());
    engine.script(CREATE, &[Act::Slow(Duration::from_secs(2))]);
    let mut command = stage.command(stage.sandbox.reachable(&binary("ostler-host")));
    command.args(["--program", "node", "--count", "2", "--grace-ms", "3000"]);
    let files = [("last-words.js", LAST_WORDS), ("deaf.js", DEAF)].map(|(name, script)| {
        fs::write(stage.sandbox.file(name), script).unwrap();
        stage.sandbox.file(name).into_os_string().into_string().unwrap()
    });
    command.args(["--server", &files[0], "--server", &files[1]]);
    command.env("DOCKER_HOST", engine.host());
    let mut host = Host(Launched::start(&mut command));
    let guardian = wait_until("it runs", PATIENCE, || {
        let all = stage.sandbox.cgroup().pids().into_iter().filter_map(Process::read);
        let mut servers = all.filter(|one| one.cmdline() == format!("node {}", files[0]));
        servers.next().map(|server| server.ppid)
    });
    // The guardian's two reports to the owner are not delayed.
    let delays = ["wait4:delay_enter=100000", "sendmsg:delay_enter=300000:when=3+"];
    let _tracer = slow_down(&stage, guardian, delays);
    assert!(host.obey("stop").contains("gone: 2"));
    assert!(fs::exists(format!("{}.knocked", files[0])).unwrap());
    // A create that was forwarded before the proof was removed by then.
    assert_eq!(engine.asked(CREATE).len(), engine.asked("DELETE /containers/").len());
    host.0.close_stdin();
    stage.wait_exit(&mut host.0);
    stage.expect_empty();
}

/// Tests on the shared engine of the test run.
mod engine {
    use super::*;

    dock_rows! {
        shared:

        /// A stopped porter can't report that nothing is left, and no other process may do so in its place.
        fn s02_nothing_is_proven_while_the_porter_is_stopped(dock) {
            let mut run = dock.script(&[], "docker run -i $IMAGE sleep 100000; true");
            dock.await_running(1);
            let stage = dock.stage();
            let (guardian, porter) = (stage.guardians()[0], stage.named("ostler-porter")[0]);
            stage.signal(porter, Signal::STOP);
            run.signal(Signal::TERM);
            stage.wait_exit(&mut run);
            assert!(run.stderr().contains("continues"), "{}", run.stderr());
            // Both processes that could report it have checked: the guardian, whose server is gone, and a sweep.
            wait_until("only the porter is left", PATIENCE, || {
                Process::all().iter().filter(|one| one.ppid == guardian).all(|one| one.pid == porter)
            });
            dock.ostler(&["reap", "--yes"]);
            assert_eq!((stage.guardians(), dock.notes().len()), (vec![guardian], 1));
            assert_eq!(dock.containers().len(), 1);
            stage.signal(porter, Signal::CONT);
            dock.expect_empty();
        }
    }
}
