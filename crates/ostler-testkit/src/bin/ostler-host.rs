//! A host that embeds the library and can end in every bad way. Executes one command per line of stdin.
#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test program: it talks on stdout, and ends in every way there is"
)]

use std::io::{self, PipeWriter};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use clap::Parser;
use ostler::{
    Event, Instance, Limits, Outcome, Owner, Places, ServerSpec, ServerStdio, Step, Terms, guardian,
};
use rustix::process::WaitOptions;

const PATIENCE: Duration = Duration::from_mins(1);

/// Hold servers in fences, and execute the commands on stdin
#[derive(Debug, Parser)]
struct Arguments {
    /// The server's program
    #[arg(long)]
    program: PathBuf,
    /// Its switches, separated by blanks; if repeated, assigned to the servers in turn
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    server: Vec<String>,
    /// How many servers
    #[arg(long, default_value_t = 1)]
    count: usize,
    /// How many owners; servers are assigned to them in turn
    #[arg(long, default_value_t = 1)]
    owners: usize,
    /// The grace in milliseconds
    #[arg(long, default_value_t = 300)]
    grace_ms: u64,
    /// Start each from a thread that ends at once
    #[arg(long)]
    from_thread: bool,
    /// Reap any child in a loop, as a careless host does
    #[arg(long)]
    steal_children: bool,
    /// Allocate and touch that much memory first
    #[arg(long, default_value_t = 0)]
    heap_mb: usize,
}

/// A server and our end of its input.
struct Server {
    instance: Instance,
    /// The number of its owner.
    owner: usize,
    input: Option<PipeWriter>,
}

fn main() {
    guardian::run_if_asked();
    let arguments = Arguments::parse();
    let heap = vec![1u8; arguments.heap_mb << 20];
    std::hint::black_box(&heap);
    let new_owner = |_| Owner::new(Places::of_user(), "ostler-host").expect("an owner");
    let mut owners: Vec<Owner> = (0..arguments.owners).map(new_owner).collect();
    let mut servers = start_all(&owners, &arguments);
    // After the servers, whose start must not depend on it.
    if arguments.steal_children {
        std::thread::Builder::new().spawn(steal_children).expect("a thread");
    }
    println!("ready");
    let mut leaked = Vec::new();
    for line in io::stdin().lines() {
        let line = line.expect("a command");
        match line.as_str() {
            "stop" => stop(std::mem::take(&mut servers)),
            "drop" => servers.clear(),
            "drop-first-owner" => {
                servers.retain(|server| server.owner != 0);
                owners.remove(0);
            }
            "learn" => servers.iter_mut().for_each(learn),
            "panic" => panic_with(std::mem::take(&mut servers)),
            "exit" => std::process::exit(0),
            "abort" => std::process::abort(),
            "oom" => use_up_memory(),
            "close-first-input" => servers[0].input = None,
            "leak-control" => leaked.push(leak_control(&servers)),
            "own-child" => println!("own child: {}", own_child()),
            "cycle" => stop(start_all(&owners, &arguments)),
            other => panic!("no such command: {other}"),
        }
        println!("done: {line}");
    }
    for child in &mut leaked {
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn start_all(owners: &[Owner], arguments: &Arguments) -> Vec<Server> {
    let start = |index: usize| {
        let switches = &arguments.server[index % arguments.server.len()];
        let owner = index % owners.len();
        let start = || Server { owner, ..start(&owners[owner], arguments, switches) };
        if arguments.from_thread {
            std::thread::scope(|scope| scope.spawn(start).join())
                .expect("a thread that starts a server")
        } else {
            start()
        }
    };
    let mut servers: Vec<Server> = (0..arguments.count).map(start).collect();
    servers.iter_mut().for_each(await_start);
    servers
}

fn start(owner: &Owner, arguments: &Arguments, switches: &str) -> Server {
    let (theirs, input) = io::pipe().expect("a pipe");
    let null = || OwnedFd::from(std::fs::File::create("/dev/null").expect("/dev/null"));
    let spec = ServerSpec {
        name: "stub".into(),
        program: arguments.program.clone().into(),
        args: switches.split_ascii_whitespace().map(Into::into).collect(),
        env: std::env::vars_os().collect(),
        cwd: None,
    };
    let stdio = ServerStdio { stdin: theirs.into(), stdout: null(), stderr: null() };
    let grace = Duration::from_millis(arguments.grace_ms);
    let terms = Terms { limits: Limits { grace, ..Limits::default() }, ..Terms::default() };
    let instance = owner.start(spec, stdio, &terms).expect("an instance");
    Server { instance, owner: 0, input: Some(input) }
}

fn await_start(server: &mut Server) {
    match server.instance.wait_event(PATIENCE) {
        Ok(Some(Event::Started { .. })) => {}
        other => panic!("the server did not start: {other:?}"),
    }
}

/// Waits for an end that another process requested.
fn learn(server: &mut Server) {
    loop {
        match server.instance.wait_event(PATIENCE) {
            Ok(Some(Event::Exited(status))) => println!("learned: {status}"),
            Ok(Some(Event::Empty(_))) => return println!("learned: empty"),
            other => panic!("unexpected event: {other:?}"),
        }
    }
}

/// Stops all at once, waits for each, and prints how many are proven gone and the time it took.
fn stop(servers: Vec<Server>) {
    let begin = Instant::now();
    let instances: Vec<Instance> = servers.into_iter().map(|server| server.instance).collect();
    for instance in &instances {
        instance.stop(Step::Closing);
    }
    let mut gone = 0;
    for instance in instances {
        if matches!(instance.close(Step::Closing), Ok(Outcome::Gone(_))) {
            gone += 1;
        }
    }
    println!("gone: {gone} in {} ms", begin.elapsed().as_millis());
}

fn panic_with(servers: Vec<Server>) {
    let owner = std::thread::Builder::new().spawn(move || {
        let _servers = servers;
        panic!("on purpose");
    });
    assert!(owner.expect("a thread").join().is_err());
}

/// A process outside of every fence that keeps our end of the control sockets open.
fn leak_control(servers: &[Server]) -> Child {
    // Without close-on-exec, unlike everything that the library opens.
    let copies: Vec<OwnedFd> =
        servers.iter().map(|s| rustix::io::dup(s.instance.as_fd()).expect("a copy")).collect();
    let child = Command::new("sleep").arg("600").spawn().expect("sleep");
    drop(copies);
    child
}

fn own_child() -> String {
    let status = Command::new("sh").args(["-c", "exit 7"]).status();
    status.map_or_else(|error| error.to_string(), |status| status.to_string())
}

fn steal_children() {
    loop {
        // Without children it fails at once.
        if rustix::process::wait(WaitOptions::empty()).is_err() {
            std::thread::yield_now();
        }
    }
}

fn use_up_memory() {
    let mut hoard = Vec::new();
    loop {
        hoard.push(std::hint::black_box(vec![1u8; 1 << 20]));
    }
}
