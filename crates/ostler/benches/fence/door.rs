//! Overhead of the Door: on creating a container, and on a stream attached to one.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use ostler::{Instance, Owner, Terms};
use ostler_testkit::{Engine, IMAGE};
use serde_json::{Value, json};

use crate::Result;
use crate::args::Effort;
use crate::http::{attach, call};
use crate::sample::{Sample, milliseconds};
use crate::server::{Ends, proven_gone, shell};
use crate::table::{MILLISECONDS, Table};

/// Goals, as factors of the time without a Door.
const CREATE_GOAL: f64 = 1.03;
const STREAM_GOAL: f64 = 1.10;
/// Warm-up rounds. The first create of a server flushes a note to disk, once.
const WARM_UP: usize = 2;
/// Megabytes that pass a stream in each direction.
const MEGABYTES: u16 = 64;
const MEGABYTE: usize = 1_000_000;

/// An engine, and a server that prints the path of its Door.
struct Scene {
    engine: Engine,
    door: PathBuf,
    instance: Instance,
    ends: Ends,
}

impl Scene {
    fn new(owner: &Owner) -> Result<Self> {
        let engine = Engine::start();
        let mut spec = shell("echo \"$DOCKER_HOST\"; exec cat");
        spec.env.retain(|(name, _)| !name.to_string_lossy().starts_with("DOCKER_"));
        spec.env.push(("DOCKER_HOST".into(), engine.host().into()));
        let (mut ends, stdio) = Ends::open()?;
        let instance = owner.start(spec, stdio, &Terms::default())?;
        let line = ends.first_line()?;
        let door = line.trim().strip_prefix("unix://").ok_or("the server has no Door")?.into();
        if door == engine.socket() {
            return Err("the server uses the engine without a Door".into());
        }
        Ok(Self { engine, door, instance, ends })
    }

    /// Each round measures the plain socket and the Door, in alternating order.
    fn in_turns(
        &self,
        rounds: usize,
        take: fn(&Self, &Path) -> Result<f64>,
    ) -> Result<Vec<[f64; 2]>> {
        let ways = [self.engine.socket(), &self.door];
        let round = |number: usize| {
            let mut taken = [0.0; 2];
            for way in [number % 2, 1 - number % 2] {
                taken[way] = take(self, ways[way])?;
            }
            Ok(taken)
        };
        let all = (0..WARM_UP + rounds).map(round).collect::<Result<Vec<_>>>()?;
        Ok(all.into_iter().skip(WARM_UP).collect())
    }

    /// Removes a container, without the Door and not timed.
    fn remove(&self, container: &str) -> Result<()> {
        let path = format!("/containers/{container}?force=1&v=1");
        call(self.engine.socket(), "DELETE", &path, None)?;
        Ok(())
    }

    fn end(self) -> Result<()> {
        drop(self.ends);
        proven_gone(self.instance)
    }
}

pub(crate) fn against_the_plain_socket(owner: &Owner, effort: Effort) -> Result<Vec<Table>> {
    let (count, streams) = (effort.choose(200, 5), effort.choose(20, 2));
    let scene = Scene::new(owner)?;
    eprintln!("door: {count} creates each way");
    let created = scene.in_turns(count, create)?;
    eprintln!("door: {streams} streams each way");
    let streamed = scene.in_turns(streams, stream)?;
    scene.end()?;

    let what = format!(
        "A new connection and a container's create, from the call to the whole answer, on a private engine; \
         {count} rounds. The container is removed after each, which is not timed."
    );
    let mut create = Table::new("Door: a container's create", what, &MILLISECONDS);
    compare(&mut create, &created, "at most 3 % more than plain", CREATE_GOAL);
    let what = format!(
        "{MEGABYTES} MB into a container's `cat` and back through one attached connection, per MB, both \
         directions at once; {streams} rounds, each with a container of its own without logs."
    );
    let mut stream = Table::new("Door: an attached stream", what, &MILLISECONDS);
    compare(&mut stream, &streamed, "at most 10 % more than plain", STREAM_GOAL);
    Ok(vec![create, stream])
}

/// Adds a row for each path, and one for the ratio per round.
fn compare(table: &mut Table, rounds: &[[f64; 2]], goal: &str, limit: f64) {
    let plain = Sample::of(rounds.iter().map(|round| round[0]));
    let door = Sample::of(rounds.iter().map(|round| round[1]));
    table.quantiles("plain socket", &plain);
    table.quantiles("through the Door", &door);
    let ratios = Sample::of(rounds.iter().map(|round| round[1] / round[0]));
    table.quantiles("ratio, round by round", &ratios);
    table.goal(&format!("{goal}, p50 against p50"), door.p50() / plain.p50(), limit);
}

/// In milliseconds.
fn create(scene: &Scene, socket: &Path) -> Result<f64> {
    let container = json!({"Image": IMAGE, "Cmd": ["true"]});
    let begin = Instant::now();
    let made = make(socket, &container)?;
    let time = milliseconds(begin.elapsed());
    scene.remove(&made)?;
    Ok(time)
}

/// In milliseconds per MB.
fn stream(scene: &Scene, socket: &Path) -> Result<f64> {
    let container = json!({
        "Image": IMAGE, "Cmd": ["cat"], "OpenStdin": true, "StdinOnce": true, "AttachStdin": true,
        "AttachStdout": true, "HostConfig": {"LogConfig": {"Type": "none"}},
    });
    let made = make(socket, &container)?;
    let mut stream = attach(socket, &made)?;
    let path = format!("/containers/{made}/start");
    call(socket, "POST", &path, None)?;
    // When this returns, the container runs.
    let mut writer = stream.writer()?;
    writer.write_all(&[0])?;
    stream.read(1)?;
    let sent = vec![0x5a; MEGABYTE];
    let begin = Instant::now();
    let time = std::thread::scope(|scope| {
        let writing = scope.spawn(move || (0..MEGABYTES).try_for_each(|_| writer.write_all(&sent)));
        stream.read(usize::from(MEGABYTES) * MEGABYTE)?;
        let time = milliseconds(begin.elapsed());
        writing.join().map_err(|_| "the writer has panicked")??;
        Ok::<f64, Box<dyn std::error::Error>>(time)
    })?;
    stream.close()?;
    scene.remove(&made)?;
    Ok(time / f64::from(MEGABYTES))
}

/// Creates a container and returns its id.
fn make(socket: &Path, container: &Value) -> Result<String> {
    let answer = call(socket, "POST", "/containers/create", Some(container))?;
    let answer: Value = serde_json::from_slice(&answer)?;
    Ok(answer["Id"].as_str().ok_or("no id")?.to_owned())
}
