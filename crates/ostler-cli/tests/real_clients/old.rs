//! A client that knows only HTTP+SSE.

use std::fs;

use ostler_testkit::Stage;
use serde_json::json;

use crate::scripts::{Script, play};
use crate::{NPX, Way, compare, house};

#[test]
fn a_client_of_http_and_sse_sees_what_it_sees_on_pipes() {
    let house = house(&json!({}));
    let mut gateway = house.serve(&["--listen", "127.0.0.1:0"]);
    let said = gateway.stderr();
    let base = said.split(['/', ' ']).find(|word| word.starts_with("127.0.0.1:")).unwrap();
    let token = fs::read_to_string(house.sandbox.state().join("ostler/token")).unwrap();
    let stage = Stage::leaf();
    let words = NPX.start.iter().map(ToString::to_string).collect();
    let alone = Way { stage: &stage, server: &NPX, words, prefix: String::new() };
    let direct = play(Script::TypeScript("typescript-v1.mjs"), &alone);
    let words = vec![format!("http://{base}/sse/{}", NPX.name), token.trim().to_owned()];
    let old = Way { stage: &house, server: &NPX, words, prefix: String::new() };
    compare(&direct, &play(Script::TypeScript("old.mjs"), &old), "over HTTP and SSE");
    house.down_with(&mut gateway);
}
