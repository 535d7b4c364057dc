//! After an upgrade the Door copies bytes both ways and parses nothing.

use super::*;

const ATTACH: &[u8] =
    b"POST /v1.41/containers/x/attach?stream=1 HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 0\r\n\r\n";
const UPGRADED: &[u8] =
    b"HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n";
const HIJACKED: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.raw-stream\r\n\r\n";
/// Bytes of a stream that look like a create.
const LOOKS_LIKE_A_REQUEST: &[u8] =
    b"POST /containers/create HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}";

#[test]
fn a_stream_passes_both_ways_and_each_end_by_itself() {
    for opening in [UPGRADED, HIJACKED] {
        scene(async |fixture| {
            let (mut client, mut engine) = fixture.pair().await;
            passes(&mut client, &mut engine, ATTACH).await;
            passes(&mut engine, &mut client, opening).await;
            passes(&mut client, &mut engine, LOOKS_LIKE_A_REQUEST).await;
            passes(&mut engine, &mut client, b"HTTP/1.1 200 OK\r\n\r\n").await;
            client.shutdown().await.unwrap();
            expect_end(&mut engine).await;
            passes(&mut engine, &mut client, b"late output").await;
            engine.shutdown().await.unwrap();
            expect_end(&mut client).await;
        });
    }
}

#[test]
fn the_engine_may_end_first() {
    scene(async |fixture| {
        let (mut client, mut engine) = fixture.pair().await;
        passes(&mut client, &mut engine, ATTACH).await;
        passes(&mut engine, &mut client, UPGRADED).await;
        engine.shutdown().await.unwrap();
        expect_end(&mut client).await;
        passes(&mut client, &mut engine, b"still here").await;
        drop(client);
        expect_end(&mut engine).await;
    });
}

#[test]
fn bytes_sent_with_the_head_belong_to_the_stream() {
    scene(async |fixture| {
        let (mut client, mut engine) = fixture.pair().await;
        client.write_all(&[ATTACH, LOOKS_LIKE_A_REQUEST].concat()).await.unwrap();
        arrives(&mut engine, ATTACH).await;
        engine.write_all(&[UPGRADED, b"at once"].concat()).await.unwrap();
        arrives(&mut client, &[UPGRADED, b"at once"].concat()).await;
        arrives(&mut engine, LOOKS_LIKE_A_REQUEST).await;
    });
}

#[test]
fn an_upgrade_that_is_refused_is_an_ordinary_exchange() {
    scene(async |fixture| {
        let (mut client, mut engine) = fixture.pair().await;
        client.write_all(&[ATTACH, ATTACH].concat()).await.unwrap();
        for _ in 0..2 {
            arrives(&mut engine, ATTACH).await;
            let refused = b"HTTP/1.1 409 Conflict\r\nContent-Length: 2\r\n\r\n{}";
            passes(&mut engine, &mut client, refused).await;
        }
    });
}

#[test]
fn a_client_that_dies_ends_its_stream_and_nothing_that_it_sent_is_lost() {
    scene(async |fixture| {
        let (mut client, mut engine) = fixture.pair().await;
        passes(&mut client, &mut engine, ATTACH).await;
        passes(&mut engine, &mut client, UPGRADED).await;
        client.write_all(b"last words").await.unwrap();
        drop(client);
        arrives(&mut engine, b"last words").await;
        expect_end(&mut engine).await;
        // The client does not read any more, and the engine must not block because of that.
        let more = vec![0; 1 << 20];
        assert!(engine.write_all(&more).await.is_err());
    });
}

/// The Door tracks an exec session in a foreign container for as long as it may run.
#[test]
fn execs_are_remembered_until_their_stream_has_ended() {
    scene(async |fixture| {
        for id in ["e1", "e2"] {
            let (mut client, mut engine) = fixture.pair().await;
            passes(&mut client, &mut engine, &post("/v1.41/containers/other/exec", "{}")).await;
            let made = format!("{{\"Id\":\"{id}\"}}");
            let length = made.len();
            let made = format!("HTTP/1.1 201 Created\r\nContent-Length: {length}\r\n\r\n{made}");
            passes(&mut engine, &mut client, made.as_bytes()).await;
            let start = post(&format!("/v1.41/exec/{id}/start"), "{\"Tty\":false}");
            passes(&mut client, &mut engine, &start).await;
            passes(&mut engine, &mut client, HIJACKED).await;
            if id == "e1" {
                drop(engine);
                expect_end(&mut client).await;
            } else {
                drop(client);
                expect_end(&mut engine).await;
            }
        }
        assert_eq!(fixture.door.execs(), ["e2"]);
        assert_eq!(fixture.note().unwrap().execs, ["e2"]);
    });
}
