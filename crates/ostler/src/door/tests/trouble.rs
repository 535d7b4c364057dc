//! What can't be passed on gets a clear answer, in bounded memory.

use super::*;

#[test]
fn without_an_engine_the_client_is_left_alone() {
    scene(async |house| {
        fs::remove_file(house.path("engine.sock")).unwrap();
        let mut client = house.client().await;
        expect_end(&mut client).await;
    });
}

#[test]
fn swarms_are_refused() {
    scene(async |house| {
        let (mut client, mut engine) = house.pair().await;
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
    scene(async |house| {
        let (mut client, mut engine) = house.pair().await;
        for body in ["[]", "{", "null", "{\"Labels\":7}", "\u{0}"] {
            client.write_all(&post("/v1.41/containers/create", body)).await.unwrap();
            assert_eq!(denial(&mut client).await.0, 400, "{body}");
        }
        // A create without a body is for the engine to refuse.
        passes(&mut client, &mut engine, &post("/v1.41/containers/create", "")).await;
        house.creates(0).await;
    });
}

#[test]
fn a_create_without_end_is_refused() {
    scene(async |house| {
        let (mut client, _engine) = house.pair().await;
        let head = "POST /containers/create HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n";
        client.write_all(head.as_bytes()).await.unwrap();
        assert_eq!(denial(&mut client).await.0, 413);
        expect_end(&mut client).await;

        let (mut client, _engine) = house.pair().await;
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
fn heads_that_can_not_be_followed_are_refused() {
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
        scene(async |house| {
            let (mut client, mut engine) = house.pair().await;
            // It may be refused before it is whole.
            let _ = client.write_all(head.as_bytes()).await;
            assert_eq!(denial(&mut client).await.0, expected, "{head:.40}");
            expect_end(&mut client).await;
            expect_end(&mut engine).await;
        });
    }
}

#[test]
fn answers_that_can_not_be_followed_end_the_connection() {
    let endless = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(70 << 10));
    for answer in ["nonsense\r\n\r\n", &endless, "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"] {
        scene(async |house| {
            let (mut client, mut engine) = house.pair().await;
            passes(&mut client, &mut engine, b"GET / HTTP/1.1\r\n\r\n").await;
            let _ = engine.write_all(answer.as_bytes()).await;
            expect_end(&mut client).await;
        });
    }
}

#[test]
fn an_idle_connection_that_the_engine_closes_is_closed() {
    scene(async |house| {
        let (mut client, engine) = house.pair().await;
        drop(engine);
        expect_end(&mut client).await;
    });
}

#[test]
fn a_client_that_does_not_read_holds_up_nobody_but_itself() {
    scene(async |house| {
        let (mut slow, mut engine) = house.pair().await;
        passes(&mut slow, &mut engine, b"GET /logs HTTP/1.1\r\n\r\n").await;
        engine
            .write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n")
            .await
            .unwrap();
        let flood = vec![b'x'; 8 << 20];
        let full = tokio::time::timeout(Duration::from_millis(200), engine.write_all(&flood)).await;
        assert!(full.is_err(), "8 MiB went into a buffer");
        let (mut client, mut engine) = house.pair().await;
        passes(&mut client, &mut engine, b"GET / HTTP/1.1\r\n\r\n").await;
    });
}

#[test]
fn more_connections_than_allowed_are_turned_away() {
    scene(async |house| {
        let mut held = Vec::new();
        for _ in 0..super::super::MOST_CONNECTIONS {
            held.push(house.pair().await);
        }
        let mut client = house.client().await;
        assert_eq!(denial(&mut client).await.0, 503);
        expect_end(&mut client).await;
        drop(held.pop());
        // Its place is free as soon as the Door has noticed.
        let mut again = loop {
            let mut client = house.client().await;
            let accepted = tokio::time::timeout(Duration::from_millis(50), house.engine.accept());
            match accepted.await {
                Ok(engine) => break (client, engine.unwrap().0),
                Err(_) => expect_turned_away(&mut client).await,
            }
        };
        passes(&mut again.0, &mut again.1, b"GET / HTTP/1.1\r\n\r\n").await;
    });
}

async fn expect_turned_away(client: &mut UnixStream) {
    assert_eq!(denial(client).await.0, 503);
}
