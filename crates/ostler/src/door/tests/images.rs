//! Requests that make images get empty labels; requests for plugins are refused.

use super::*;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
const CHANGES: &str = "changes=LABEL%20ostler.call%3D&changes=LABEL%20ostler.instance%3D\
    &changes=LABEL%20ostler.owner%3D&changes=LABEL%20ostler.server%3D";

#[test]
fn a_build_gets_empty_labels_and_its_body_passes_as_it_comes() {
    scene(async |fixture| {
        let (mut client, mut engine) = fixture.pair().await;
        let head = "HTTP/1.1\r\nHost: d\r\nContent-Length: 6\r\n\r\n";
        client.write_all(format!("POST /v1.41/build?q=1 {head}abc").as_bytes()).await.unwrap();
        let labels = "%7B%22ostler.instance%22%3A%22%22%7D";
        let target = format!("/v1.41/build?q=1&labels={labels}");
        arrives(&mut engine, format!("POST {target} {head}abc").as_bytes()).await;
        passes(&mut client, &mut engine, b"def").await;
        passes(&mut engine, &mut client, OK).await;
        passes(&mut client, &mut engine, b"GET / HTTP/1.1\r\n\r\n").await;
    });
}

#[test]
fn a_commit_gets_empty_labels_whether_it_has_a_body_or_none() {
    scene(async |fixture| {
        let (mut client, mut engine) = fixture.pair().await;
        client.write_all(b"POST /commit?container=c HTTP/1.1\r\nHost: d\r\n\r\n").await.unwrap();
        let expected = format!("POST /commit?container=c&{CHANGES} HTTP/1.1\r\nHost: d\r\n\r\n");
        arrives(&mut engine, expected.as_bytes()).await;
        passes(&mut engine, &mut client, OK).await;

        let head = "HTTP/1.1\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\nA: b\r\n\r\n";
        client.write_all(format!("POST /commit?container=c {head}").as_bytes()).await.unwrap();
        arrives(&mut client, b"HTTP/1.1 100 Continue\r\n\r\n").await;
        client.write_all(b"4\r\nnull\r\n0\r\n\r\n").await.unwrap();
        let head = "HTTP/1.1\r\nA: b\r\nContent-Length: 4\r\n\r\nnull";
        let expected = format!("POST /commit?container=c&{CHANGES} {head}");
        arrives(&mut engine, expected.as_bytes()).await;
        passes(&mut engine, &mut client, OK).await;
    });
}

#[test]
fn an_image_can_not_be_given_our_labels() {
    scene(async |fixture| {
        let (mut client, mut engine) = fixture.pair().await;
        let body = r#"{"Labels":{"ostler.instance":"x"}}"#;
        for request in [
            post("/commit?container=c", body),
            post("/commit?container=c&changes=LABEL%20ostler.instance%3Dx", "{}"),
            post("/libpod/commit?container=c&changes=LABEL%20a%3Db%20%5C", ""),
            post("/build?labels=%7B%22ostler.instance%22%3A%22x%22%7D", "context"),
            post("/images/create?fromSrc=-&changes=LABEL%20ostler.instance%3Dx", "archive"),
        ] {
            client.write_all(&request).await.unwrap();
            let (status, message) = denial(&mut client).await;
            assert_eq!(status, 400, "{message}");
            assert!(message.starts_with("ostler: "), "{message}");
        }
        passes(&mut client, &mut engine, b"GET / HTTP/1.1\r\n\r\n").await;
    });
}

#[test]
fn plugins_of_the_engine_are_not_enabled() {
    scene(async |fixture| {
        let (mut client, mut engine) = fixture.pair().await;
        client.write_all(&post("/v1.41/plugins/a/b:latest/enable?timeout=0", "")).await.unwrap();
        let (status, message) = denial(&mut client).await;
        assert_eq!(status, 403);
        assert!(message.contains("an enabled plugin of the engine"), "{message}");
        passes(&mut client, &mut engine, &post("/v1.41/plugins/a/disable", "")).await;
    });
}
