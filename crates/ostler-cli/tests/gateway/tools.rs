//! `ostler tools`: what servers offer, without starting one.

use ostler_testkit::Stage;
use serde_json::json;

use crate::test_gateway::TestGateway;

#[test]
fn tools_are_listed_from_the_catalog_and_nothing_starts() {
    let test_gateway = TestGateway::new(Stage::leaf());
    let hidden = json!({ "tools": { "deny": ["add"] } });
    let known = test_gateway.example(&hidden);
    let unknown = test_gateway.stub("unknown", &[], &json!({}));
    test_gateway.configure(&[("known", known), ("unknown", unknown)]);
    let mut gateway = test_gateway.serve(&[]);
    test_gateway.ostler(&["warm", "known"]);
    let text = test_gateway.ostler(&["tools", "known"]);
    assert!(text.contains("echo"), "warm ended before the catalog was filled: {text}");
    test_gateway.ostler(&["restart", "known"]);
    test_gateway.expect_no_server();
    let before = test_gateway.sandbox.cgroup().pids().len();
    let text = test_gateway.ostler(&["tools"]);
    assert!(text.contains("echo") && !text.contains("Adds two numbers"), "{text}");
    assert!(text.contains("`ostler warm unknown` lists it"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let rows = test_gateway.ostler_json(&["tools", "--json"]);
    assert_eq!(
        (&rows[0]["state"], &rows[0]["tools"][0]["name"]),
        (&json!("listed"), &json!("echo"))
    );
    assert_eq!(rows[1]["state"], "never_listed");
    let tool = test_gateway.ostler(&["tools", "known", "echo"]);
    assert!(tool.contains("message") && tool.contains("required"), "{tool}");
    for (words, near) in
        [(["tools", "knwon", "echo"], "'known'"), (["tools", "known", "ecko"], "'echo'")]
    {
        let output = test_gateway.try_ostler(&words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains(near), "{said}");
    }
    assert_eq!(test_gateway.sandbox.cgroup().pids().len(), before);
    assert!(test_gateway.starts("unknown").is_empty());
    test_gateway.down_with(&mut gateway);
    let mut command = test_gateway.command(test_gateway.program());
    command.arg("tools").env("OSTLER_CONFIG", test_gateway.config());
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("echo"), "{text} {output:?}");
    test_gateway.expect_no_process();
}
