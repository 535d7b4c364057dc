//! Requests that can't be forwarded get a clear error response, in bounded memory.

use super::*;

#[test]
fn without_an_engine_the_client_sees_end_of_file() {
    scene(async |fixture| {
        fs::remove_file(fixture.path("engine.sock")).unwrap();
        let mut client = fixture.client().await;
        expect_end(&mut client).await;
    });
}

#[test]
fn swarms_are_refused() {
    scene(async |fixture| {
        let (mut client, mut engine) = fixture.pair().await;
        for target in ["/v1.41/services/create", "/swarm/init", "/swarm/join", "/secrets/create"] {
            client.write_all(&post(target, "{\"Name\":\"x\"}")).await.unwrap();
            let (status, message) = denial(&mut client).await;
            assert_eq!(status, 403);
            assert!(message.contains("--engine off"), "{message}");
        }
        passes(&mut client, &mut engine, b"GET /swarm HTTP/1.1\r\n\r\n").await;
    });
}

#[test]
fn bodies_that_are_not_creates_are_refused() {
    scene(async |fixture| {
        let (mut client, mut engine) = fixture.pair().await;
        for body in ["[]", "{", "null", "{\"Labels\":7}", "\u{0}"] {
            client.write_all(&post("/v1.41/containers/create", body)).await.unwrap();
            assert_eq!(denial(&mut client).await.0, 400, "{body}");
        }
        // The engine itself refuses a create without a body.
        passes(&mut client, &mut engine, &post("/v1.41/containers/create", "")).await;
        fixture.creates(0).await;
    });
}

#[test]
fn an_oversized_create_is_refused() {
    scene(async |fixture| {
        let (mut client, _engine) = fixture.pair().await;
        let head = "POST /containers/create HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n";
        client.write_all(head.as_bytes()).await.unwrap();
        assert_eq!(denial(&mut client).await.0, 413);
        expect_end(&mut client).await;

        let (mut client, _engine) = fixture.pair().await;
        let head =
            "POST /containers/create HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n";
        client.write_all(head.as_bytes()).await.unwrap();
        let (mut reader, mut writer) = client.split();
        let endless = async { while writer.write_all(&[b' '; 4 << 10]).await.is_ok() {} };
        let mut said = Vec::new();
        let _ = tokio::join!(endless, reader.read_to_end(&mut said));
        assert!(said.starts_with(b"HTTP/1.1 413 "), "{}", String::from_utf8_lossy(&said));
    });
}

#[test]
fn malformed_request_heads_are_refused() {
    let long = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(70 << 10));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(200));
    let both = "POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n";
    let cases = [
        (long.as_str(), 431),
        (&many, 431),
        ("\u{1}\r\n\r\n", 400),
        (both, 400),
        ("PRI * HTTP/2.0\r\n\r\n", 400),
    ];
    for (head, expected) in cases {
        scene(async |fixture| {
            let (mut client, mut engine) = fixture.pair().await;
            // The Door may refuse it before all of it is sent.
            let _ = client.write_all(head.as_bytes()).await;
            assert_eq!(denial(&mut client).await.0, expected, "{head:.40}");
            expect_end(&mut client).await;
            expect_end(&mut engine).await;
        });
    }
}

#[test]
fn a_malformed_response_ends_the_connection() {
    let endless = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(70 << 10));
    for answer in ["nonsense\r\n\r\n", &endless, "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"] {
        scene(async |fixture| {
            let (mut client, mut engine) = fixture.pair().await;
            passes(&mut client, &mut engine, b"GET / HTTP/1.1\r\n\r\n").await;
            let _ = engine.write_all(answer.as_bytes()).await;
            expect_end(&mut client).await;
        });
    }
}

#[test]
fn an_idle_connection_that_the_engine_closes_is_closed() {
    scene(async |fixture| {
        let (mut client, engine) = fixture.pair().await;
        drop(engine);
        expect_end(&mut client).await;
    });
}

#[test]
fn a_client_that_does_not_read_delays_no_other_client() {
    scene(async |fixture| {
        let (mut slow, mut engine) = fixture.pair().await;
        passes(&mut slow, &mut engine, b"GET /logs HTTP/1.1\r\n\r\n").await;
        engine
            .write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n")
            .await
            .unwrap();
        let flood = vec![b'x'; 8 << 20];
        let full = tokio::time::timeout(Duration::from_millis(200), engine.write_all(&flood)).await;
        assert!(full.is_err(), "8 MiB went into a buffer");
        let (mut client, mut engine) = fixture.pair().await;
        passes(&mut client, &mut engine, b"GET / HTTP/1.1\r\n\r\n").await;
    });
}

#[test]
fn connections_above_the_limit_are_rejected() {
    scene(async |fixture| {
        let mut held = Vec::new();
        for _ in 0..super::super::MOST_CONNECTIONS {
            held.push(fixture.pair().await);
        }
        let mut client = fixture.client().await;
        assert_eq!(denial(&mut client).await.0, 503);
        expect_end(&mut client).await;
        drop(held.pop());
        // The slot is free as soon as the Door has noticed the end of the connection.
        let mut again = loop {
            let mut client = fixture.client().await;
            let accepted = tokio::time::timeout(Duration::from_millis(50), fixture.engine.accept());
            match accepted.await {
                Ok(engine) => break (client, engine.unwrap().0),
                Err(_) => expect_rejected(&mut client).await,
            }
        };
        passes(&mut again.0, &mut again.1, b"GET / HTTP/1.1\r\n\r\n").await;
    });
}

async fn expect_rejected(client: &mut UnixStream) {
    assert_eq!(denial(client).await.0, 503);
}
