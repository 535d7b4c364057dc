//! What creates something is marked, on record, and awaited.

use serde_json::json;

use super::*;

const CREATED: &[u8] = b"HTTP/1.1 201 Created\r\nContent-Length: 11\r\n\r\n{\"Id\":\"c1\"}";

fn labels(house: &House) -> Value {
    json!(house.door.labels.pairs().into_iter().collect::<std::collections::BTreeMap<_, _>>())
}

#[test]
fn a_create_gets_labels_and_all_else_passes() {
    scene(async |house| {
        let (mut client, mut engine) = house.pair().await;
        for target in
            ["/containers/create?name=n", "/v1.41/networks/create", "/v1.99/volumes/create"]
        {
            client.write_all(&post(target, r#"{"Image":"i", "X":1e999}"#)).await.unwrap();
            let mut bytes = vec![0; 4096];
            let length = engine.read(&mut bytes).await.unwrap();
            let text = String::from_utf8(bytes[..length].to_vec()).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            let length = body.len();
            assert_eq!(
                head,
                format!("POST {target} HTTP/1.1\r\nHost: d\r\nContent-Length: {length}")
            );
            let labels = labels(house);
            assert_eq!(body, format!(r#"{{"Image":"i","X":1e999,"Labels":{labels}}}"#));
            passes(&mut engine, &mut client, CREATED).await;
        }
    });
}

#[test]
fn a_create_in_chunks_is_passed_on_in_one_piece() {
    scene(async |house| {
        let (mut client, mut engine) = house.pair().await;
        let head = "POST /libpod/pods/create HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        client.write_all(head.as_bytes()).await.unwrap();
        for part in ["6\r\n{\"name\r\n", "5\r\n\":\"p\"\r\n", "1\r\n}\r\n", "0\r\n\r\n"] {
            tokio::task::yield_now().await;
            client.write_all(part.as_bytes()).await.unwrap();
        }
        let (head, body) = request(&mut engine).await;
        assert!(!head.contains("chunked"), "{head}");
        assert_eq!(body, json!({"name": "p", "labels": labels(house)}));
        passes(&mut engine, &mut client, CREATED).await;
        passes(&mut client, &mut engine, b"GET / HTTP/1.1\r\n\r\n").await;
    });
}

#[test]
fn a_create_that_waits_for_a_word_gets_ours() {
    scene(async |house| {
        let (mut client, mut engine) = house.pair().await;
        let head = b"POST /containers/create HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
        client.write_all(head).await.unwrap();
        arrives(&mut client, b"HTTP/1.1 100 Continue\r\n\r\n").await;
        client.write_all(b"{}").await.unwrap();
        let (head, body) = request(&mut engine).await;
        assert!(!head.contains("Expect"), "{head}");
        assert_eq!(body, json!({"Labels": labels(house)}));
    });
}

#[test]
fn a_create_is_on_record_before_the_engine_hears_of_it() {
    scene(async |house| {
        let (mut client, mut engine) = house.pair().await;
        passes(&mut client, &mut engine, b"GET /containers/json HTTP/1.1\r\n\r\n").await;
        passes(&mut engine, &mut client, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]").await;
        assert_eq!(house.note(), None);
        client.write_all(&post("/containers/create", "{}")).await.unwrap();
        request(&mut engine).await;
        assert_eq!(house.note().unwrap().creates, 1);
        passes(&mut engine, &mut client, CREATED).await;
        house.creates(0).await;
        assert_eq!(house.note().unwrap().creates, 0);
    });
}

/// By its id it is known later which container is the server's, whatever labels its image has.
#[test]
fn what_the_engine_has_created_is_on_record() {
    scene(async |house| {
        let (mut client, mut engine) = house.pair().await;
        let answers = [
            ("/containers/create", "{\"Id\":\"c1\"}", 201),
            ("/libpod/containers/create", "{\"Id\":\"c2\",\"Warnings\":[]}", 201),
            ("/containers/create", "{\"Id\":\"no\"}", 409),
            ("/networks/create", "{\"Id\":\"net\"}", 201),
            ("/containers/create", "{}", 201),
        ];
        for (target, body, status) in answers {
            client.write_all(&post(target, "{}")).await.unwrap();
            request(&mut engine).await;
            let length = body.len();
            let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n");
            passes(&mut engine, &mut client, format!("{head}{body}").as_bytes()).await;
            house.creates(0).await;
        }
        assert_eq!(house.note().unwrap().made, ["c1", "c2"]);
        assert!(house.door.made().contains("c2") && !house.door.made().contains("net"));
    });
}

#[test]
fn what_is_not_on_record_is_not_created() {
    scene(async |house| {
        let (mut client, mut engine) = house.pair().await;
        fs::remove_dir_all(house.path("book")).unwrap();
        client.write_all(&post("/containers/create", "{}")).await.unwrap();
        let (status, message) = denial(&mut client).await;
        assert_eq!(status, 503);
        assert!(message.contains("on record"), "{message}");
        house.creates(0).await;
        passes(&mut client, &mut engine, b"GET / HTTP/1.1\r\n\r\n").await;
    });
}

/// The engine goes on, so that its answer is awaited.
#[test]
fn l21_a_client_that_dies_in_mid_create_leaves_it_under_way() {
    scene(async |house| {
        for wait_for_end in [true, false] {
            let (mut client, mut engine) = house.pair().await;
            client.write_all(&post("/v1.41/containers/create", "{}")).await.unwrap();
            request(&mut engine).await;
            drop(client);
            if wait_for_end {
                for _ in 0..10 {
                    tokio::task::yield_now().await;
                }
            }
            house.creates(1).await;
            assert_eq!(house.note().unwrap().creates, 1);
            engine.write_all(CREATED).await.unwrap();
            house.creates(0).await;
            expect_end(&mut engine).await;
        }
    });
}

#[test]
fn a_client_that_dies_before_its_create_is_whole_creates_nothing() {
    scene(async |house| {
        let (mut client, mut engine) = house.pair().await;
        let request = post("/v1.41/containers/create", "{\"Image\":\"i\"}");
        client.write_all(&request[..request.len() - 1]).await.unwrap();
        drop(client);
        expect_end(&mut engine).await;
        assert_eq!(house.note(), None);
    });
}

#[test]
fn an_engine_that_dies_in_mid_create_is_not_awaited() {
    scene(async |house| {
        let (mut client, mut engine) = house.pair().await;
        client.write_all(&post("/v1.41/containers/create", "{}")).await.unwrap();
        request(&mut engine).await;
        house.creates(1).await;
        drop(engine);
        expect_end(&mut client).await;
        house.creates(0).await;
    });
}

#[test]
fn an_update_can_not_bring_back_a_restart_policy() {
    scene(async |house| {
        let (mut client, mut engine) = house.pair().await;
        let body = r#"{"Memory":7,"RestartPolicy":{"Name":"always"}}"#;
        client.write_all(&post("/v1.41/containers/c1/update", body)).await.unwrap();
        let (_, body) = request(&mut engine).await;
        let no = json!({"Name": "no", "MaximumRetryCount": 0});
        assert_eq!(body, json!({"Memory": 7, "RestartPolicy": no}));
    });
}

#[test]
fn nothing_is_created_or_started_while_the_server_is_stopped() {
    scene(async |house| {
        let (mut client, mut engine) = house.pair().await;
        house.door.close();
        let targets = [
            "/containers/create",
            "/v1.41/containers/x/start",
            "/containers/x/exec",
            "/exec/1/start",
        ];
        for target in targets {
            client.write_all(&post(target, "{}")).await.unwrap();
            let (status, message) = denial(&mut client).await;
            assert_eq!((status, message.as_str()), (503, "ostler: this server is being stopped"));
        }
        passes(&mut client, &mut engine, b"DELETE /containers/x HTTP/1.1\r\n\r\n").await;
    });
}

/// The engine is asked only when there may be too many.
#[test]
fn s11_no_more_containers_are_made_than_allowed() {
    scene(async |house| {
        let (mut client, mut engine) = house.pair().await;
        for listed in [None, None, None, Some(CAP), Some(CAP - 1)] {
            client.write_all(&post("/v1.41/containers/create", "{}")).await.unwrap();
            if let Some(listed) = listed {
                list_containers(house, listed).await;
            }
            if listed == Some(CAP) {
                let (status, message) = denial(&mut client).await;
                assert_eq!(status, 429);
                assert!(message.contains("limit of 3 containers"), "{message}");
            } else {
                request(&mut engine).await;
                passes(&mut engine, &mut client, CREATED).await;
            }
        }
    });
}

/// Answers the Door's own questions: which version, and which containers.
async fn list_containers(house: &House, count: usize) {
    let instance = house.instance;
    let one = json!({"Id": "c", "Names": ["/n"], "Image": "i", "Command": "c", "State": "running",
        "Created": 0, "Labels": {"ostler.instance": instance}});
    let list = serde_json::to_string(&vec![one; count]).unwrap();
    for body in ["OK", &list] {
        let (mut engine, _) = house.engine.accept().await.unwrap();
        let mut question = [0; 4096];
        assert_ne!(engine.read(&mut question).await.unwrap(), 0);
        let length = body.len();
        let head =
            format!("HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nContent-Length: {length}\r\n\r\n");
        engine.write_all(&[head.as_bytes(), body.as_bytes()].concat()).await.unwrap();
        expect_end(&mut engine).await;
    }
}
