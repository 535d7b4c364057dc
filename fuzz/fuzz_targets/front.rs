//! Any bytes from an HTTP client get responses or end the connection, and no wait is endless.
#![no_main]

use std::cell::OnceCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use ostler_gateway::fuzzing::Front;
use tokio::io::{AsyncRead, AsyncWriteExt, DuplexStream, ReadBuf, duplex};
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;
use tokio::time::timeout;

/// Separates two parts of the input; the second is sent when the first was answered.
const PAUSE: &[u8] = b"\n~\n";
/// Stands in a request for the id of the session that was opened last.
const SESSION: &str = "$SESSION";
const SESSIONS: usize = 32;
/// Larger than any single response, in bytes.
const LINE: usize = 1 << 20;
/// Paused time after which all tasks have done their work.
const ROUNDS: usize = 64;
/// Paused time after which a connection without a client has ended.
const END: Duration = Duration::from_secs(3);
/// Bound on responses: bytes per byte of input, and bytes in any case.
const ANSWERED: usize = 256;
const ANSWERED_ANYWAY: usize = 64 << 10;

struct Scene {
    runtime: Runtime,
    front: Front,
}

thread_local! {
    static SCENE: OnceCell<Scene> = const { OnceCell::new() };
}

fn scene() -> Scene {
    let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
    let inside = runtime.enter();
    let front = Front::new(SESSIONS).expect("a front");
    drop(inside);
    Scene { runtime, front }
}

/// Splits the input at each separator.
fn parts(data: &[u8]) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    let mut rest = data;
    while let Some(at) = rest.windows(PAUSE.len()).position(|window| window == PAUSE) {
        parts.push(&rest[..at]);
        rest = &rest[at + PAUSE.len()..];
    }
    parts.push(rest);
    parts
}

/// The session id in the last response that has one.
fn session(answer: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(answer);
    let found = ["mcp-session-id: ", "?session="].into_iter();
    let found = found.filter_map(|word| text.rsplit_once(word)).map(|(_, rest)| rest);
    found.map(|rest| rest.chars().take(32).collect()).next()
}

fn filled(part: &[u8], session: Option<&str>) -> Vec<u8> {
    match (std::str::from_utf8(part), session) {
        (Ok(text), Some(session)) => text.replace(SESSION, session).into_bytes(),
        _ => part.to_vec(),
    }
}

/// Reads what has arrived, without waiting.
async fn hear(client: &mut DuplexStream, heard: &mut Vec<u8>) {
    let mut bytes = [0; 4096];
    let mut buffer = ReadBuf::new(&mut bytes);
    poll_fn(|cx| {
        let _ = Pin::new(&mut *client).poll_read(cx, &mut buffer);
        Poll::Ready(())
    })
    .await;
    heard.extend_from_slice(buffer.filled());
}

/// Responses to these parts of input.
async fn converse(mut client: DuplexStream, parts: &[&[u8]]) -> Vec<u8> {
    let mut heard = Vec::new();
    for part in parts {
        let _ = client.write_all(&filled(part, session(&heard).as_deref())).await;
        for _ in 0..ROUNDS {
            yield_now().await;
            hear(&mut client, &mut heard).await;
        }
    }
    heard
}

fuzz_target!(|data: &[u8]| {
    SCENE.with(|scene_of_thread| {
        let Scene { runtime, front } = scene_of_thread.get_or_init(scene);
        let (client, server) = duplex(LINE);
        let parts = parts(data);
        let heard = runtime.block_on(async {
            let both = async { tokio::join!(front.serve(server), converse(client, &parts)).1 };
            timeout(END, both).await.expect("a connection whose client has gone ends")
        });
        let most = data.len() * ANSWERED + ANSWERED_ANYWAY;
        assert!(heard.len() <= most, "{} bytes are answered", heard.len());
    });
});
