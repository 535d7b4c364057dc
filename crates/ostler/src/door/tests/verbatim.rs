//! Requests that create nothing pass unchanged.

use super::*;

const GET: &[u8] = b"GET /_ping HTTP/1.1\r\nHost: d\r\n\r\n";
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK";

/// Requests and responses with every kind of body.
const EXCHANGES: [(&[u8], &[u8]); 8] = [
    (GET, OK),
    (b"HEAD /_ping HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"),
    (b"POST /x HTTP/1.1\r\ncontent-length: 3\r\n\r\na\r\n", b"HTTP/1.1 204 No Content\r\n\r\n"),
    (
        b"PUT /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2;e\r\nab\r\n0\r\nT: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\nb\r\n0123456789\n\r\n0\r\n\r\n",
    ),
    (
        b"\r\nGET / HTTP/1.1\r\nHost: d\r\n\r\n",
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
    ),
    (GET, b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    (
        b"DELETE /v1.41/containers/x?force=1 HTTP/1.1\r\n\r\n",
        b"HTTP/1.1 409 C\r\nContent-Length: 1\r\n\r\n{",
    ),
    (
        b"POST /v1.41/containers/x/start HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 204 N\r\n\r\n",
    ),
];

#[test]
fn exchanges_pass_one_after_the_other_on_one_connection() {
    scene(async |fixture| {
        let (mut client, mut engine) = fixture.pair().await;
        for (request, answer) in EXCHANGES {
            passes(&mut client, &mut engine, request).await;
            passes(&mut engine, &mut client, answer).await;
        }
    });
}

/// Sends in two parts, and lets the Door forward the first one in between.
async fn cut(from: &mut UnixStream, to: &mut UnixStream, bytes: &[u8], at: usize) {
    from.write_all(&bytes[..at]).await.unwrap();
    // Each yield lets the runtime poll all sockets.
    for _ in 0..3 {
        tokio::task::yield_now().await;
    }
    from.write_all(&bytes[at..]).await.unwrap();
    arrives(to, bytes).await;
}

#[test]
fn exchanges_pass_wherever_they_are_cut() {
    scene(async |fixture| {
        for (request, answer) in EXCHANGES {
            let (mut client, mut engine) = fixture.pair().await;
            for at in 0..request.len().max(answer.len()) {
                cut(&mut client, &mut engine, request, at.min(request.len())).await;
                cut(&mut engine, &mut client, answer, at.min(answer.len())).await;
            }
        }
    });
}

#[test]
fn requests_may_be_pipelined() {
    scene(async |fixture| {
        let (mut client, mut engine) = fixture.pair().await;
        let all: Vec<u8> = EXCHANGES.iter().flat_map(|(request, _)| *request).copied().collect();
        client.write_all(&all).await.unwrap();
        for (request, answer) in EXCHANGES {
            arrives(&mut engine, request).await;
            passes(&mut engine, &mut client, answer).await;
        }
    });
}

#[test]
fn a_client_that_expects_100_continue_gets_the_engines() {
    scene(async |fixture| {
        let (mut client, mut engine) = fixture.pair().await;
        let head =
            b"POST /images/load HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n";
        passes(&mut client, &mut engine, head).await;
        passes(&mut engine, &mut client, b"HTTP/1.1 100 Continue\r\n\r\n").await;
        passes(&mut client, &mut engine, b"body").await;
        passes(&mut engine, &mut client, OK).await;
        passes(&mut client, &mut engine, GET).await;
    });
}

#[test]
fn a_response_without_a_length_ends_with_the_connection() {
    scene(async |fixture| {
        let (mut client, mut engine) = fixture.pair().await;
        passes(&mut client, &mut engine, GET).await;
        passes(&mut engine, &mut client, b"HTTP/1.0 200 OK\r\n\r\nevent\n").await;
        passes(&mut engine, &mut client, b"another\n").await;
        drop(engine);
        expect_end(&mut client).await;
    });
}

#[test]
fn a_response_may_come_before_the_end_of_its_request() {
    scene(async |fixture| {
        let (mut client, mut engine) = fixture.pair().await;
        passes(&mut client, &mut engine, b"PUT /x HTTP/1.1\r\nContent-Length: 6\r\n\r\nabc").await;
        passes(&mut engine, &mut client, OK).await;
        passes(&mut client, &mut engine, b"def").await;
        passes(&mut client, &mut engine, GET).await;

        passes(&mut engine, &mut client, OK).await;
        passes(&mut client, &mut engine, b"PUT /x HTTP/1.1\r\nContent-Length: 6\r\n\r\nabc").await;
        engine.write_all(OK).await.unwrap();
        drop(engine);
        // The write may fail, because the engine is gone before the client has read the response.
        let _ = client.write_all(b"def").await;
        arrives(&mut client, OK).await;
        expect_end(&mut client).await;
    });
}

#[test]
fn the_engine_sees_when_a_client_closes_its_end() {
    scene(async |fixture| {
        let (mut client, mut engine) = fixture.pair().await;
        passes(&mut client, &mut engine, b"GET /events HTTP/1.1\r\n\r\n").await;
        client.shutdown().await.unwrap();
        expect_end(&mut engine).await;
        passes(&mut engine, &mut client, OK).await;
        expect_end(&mut client).await;

        let (mut client, mut engine) = fixture.pair().await;
        passes(&mut client, &mut engine, b"GET /events HTTP/1.1\r\n\r\n").await;
        drop(client);
        expect_end(&mut engine).await;
    });
}

#[test]
fn a_body_of_any_length_passes_through_a_small_buffer() {
    const LENGTH: usize = 20 << 20;
    scene(async |fixture| {
        let (mut client, mut engine) = fixture.pair().await;
        let head = format!("POST /images/load HTTP/1.1\r\nContent-Length: {LENGTH}\r\n\r\n");
        let body: Vec<u8> = (0..LENGTH).map(|i| u8::try_from(i % 251).unwrap()).collect();
        let send = async { client.write_all(&[head.as_bytes(), &body].concat()).await.unwrap() };
        let mut arrived = vec![0; head.len() + LENGTH];
        let ((), read) = tokio::join!(send, engine.read_exact(&mut arrived));
        read.unwrap();
        assert!(arrived[head.len()..] == body);
        passes(&mut engine, &mut client, OK).await;
    });
}
