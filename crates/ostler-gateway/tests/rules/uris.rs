//! The endpoint of all servers: ownership of names and URIs.

use ostler::keeper::Sharing;
use ostler_testkit::Puppet;
use serde_json::{Value, json};

use crate::stage::{Client, IMPATIENT, Stage};

const UPDATED: &str = "notifications/resources/updated";
const CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}"#;

/// Resources of a server.
#[derive(Clone, Copy, Default)]
struct Has<'a> {
    uris: &'a [&'a str],
    templates: &'a [&'a str],
}

fn resources(uris: &[&str]) -> Value {
    json!({ "resources": uris.iter().map(|uri| json!({ "uri": uri, "name": "r" })).collect::<Vec<_>>() })
}

/// Starts a server with these resources and `listChanged`.
fn play(stage: &Stage, name: &str, has: Has<'_>) -> Puppet {
    let mut puppet = stage.puppets[name].next();
    puppet.greet(&json!({ "resources": { "listChanged": true, "subscribe": true } }));
    for _ in 0..2 {
        let list = puppet.message();
        let templates: Vec<Value> =
            has.templates.iter().map(|one| json!({ "uriTemplate": one, "name": "t" })).collect();
        let result = match list["method"].as_str() {
            Some("resources/list") => resources(has.uris),
            _ => json!({ "resourceTemplates": templates }),
        };
        puppet.answer(&list, &result);
    }
    puppet
}

/// A client of servers that have these resources.
fn enter(stage: &Stage, all: &[(&str, Has<'_>)]) -> (Client, Vec<Puppet>) {
    let mut client = stage.client_of_all();
    client.enter_as(IMPATIENT);
    client.request(&json!("list"), "resources/list", &json!({}));
    let puppets = all.iter().map(|(name, has)| play(stage, name, *has)).collect();
    assert_eq!(client.message()["id"], "list");
    (client, puppets)
}

/// A list as its client sees it, in order.
fn list(client: &mut Client, method: &str, field: &str, key: &str) -> Vec<String> {
    client.request(&json!("list"), method, &json!({}));
    let list = loop {
        let message = client.message();
        if message["id"] == "list" {
            break message;
        }
    };
    let items = list["result"][field].as_array().cloned().unwrap_or_default();
    let mut uris: Vec<String> =
        items.iter().map(|item| item[key].as_str().unwrap_or_default().to_owned()).collect();
    uris.sort();
    uris
}

fn uris(client: &mut Client) -> Vec<String> {
    list(client, "resources/list", "resources", "uri")
}

fn templates(client: &mut Client) -> Vec<String> {
    list(client, "resources/templates/list", "resourceTemplates", "uriTemplate")
}

/// Expects that a read of this URI reaches that server under its own URI.
fn assert_reads(client: &mut Client, uri: &str, server: &mut Puppet, own: &str) {
    client.request(&json!(uri), "resources/read", &json!({ "uri": uri }));
    let read = server.expect("resources/read");
    assert_eq!(read["params"]["uri"], own);
    server.answer(&read, &json!({ "contents": [] }));
    while client.message()["id"] != uri {}
}

fn assert_unknown(client: &mut Client, uri: &str) {
    client.request(&json!(uri), "resources/read", &json!({ "uri": uri }));
    let refused = loop {
        let message = client.message();
        if message["id"] == uri {
            break message;
        }
    };
    assert_eq!(refused["error"]["code"], -32602, "{uri}: {refused}");
}

/// Changes the server's list, and waits for the notification.
fn change(client: &mut Client, server: &mut Puppet, now: &[&str]) {
    client.ready();
    server.say(CHANGED);
    let asked = server.expect("resources/list");
    server.answer(&asked, &resources(now));
    client.expect("notifications/resources/list_changed");
}

fn stage() -> Stage {
    Stage::with(&["a", "b"], |server| server.sharing = Sharing::All)
}

#[test]
fn the_first_server_that_listed_a_uri_keeps_it() {
    let stage = stage();
    let b_has = Has { uris: &["x:1"], ..Has::default() };
    let (mut client, mut puppets) = enter(&stage, &[("a", Has::default()), ("b", b_has)]);
    assert_eq!(uris(&mut client), ["x:1"]);
    change(&mut client, &mut puppets[0], &["x:1", "x:2"]);
    let expected = ["ostler:a/x:1", "x:1", "x:2"];
    assert_eq!(uris(&mut client), expected);
    // The same applies to later clients.
    let mut later = stage.client_of_all();
    later.enter();
    assert_eq!(uris(&mut later), expected);
    for client in [&mut client, &mut later] {
        assert_reads(client, "x:1", &mut puppets[1], "x:1");
        assert_reads(client, "ostler:a/x:1", &mut puppets[0], "x:1");
        assert_reads(client, "x:2", &mut puppets[0], "x:2");
        assert_reads(client, "ostler:b/x:1", &mut puppets[1], "x:1");
    }
}

#[test]
fn a_uri_that_was_listed_stays_with_its_server_while_that_does_not_list_it() {
    let stage = stage();
    let b_has = Has { uris: &["x:1"], ..Has::default() };
    let (mut client, mut puppets) = enter(&stage, &[("a", Has::default()), ("b", b_has)]);
    assert_eq!(uris(&mut client), ["x:1"]);
    change(&mut client, &mut puppets[1], &[]);
    assert!(uris(&mut client).is_empty());
    change(&mut client, &mut puppets[0], &["x:1"]);
    assert_eq!(uris(&mut client), ["ostler:a/x:1"]);
    assert_reads(&mut client, "x:1", &mut puppets[1], "x:1");
}

#[test]
fn updates_of_a_qualified_uri_carry_the_qualified_uri() {
    let stage = stage();
    let has = Has { uris: &["x:1"], ..Has::default() };
    let (mut client, mut puppets) = enter(&stage, &[("a", has), ("b", has)]);
    assert_eq!(uris(&mut client), ["ostler:b/x:1", "x:1"]);
    for (server, uri) in ["x:1", "ostler:b/x:1"].into_iter().enumerate() {
        client.request(&json!(server), "resources/subscribe", &json!({ "uri": uri }));
        let subscribe = puppets[server].expect("resources/subscribe");
        assert_eq!(subscribe["params"]["uri"], "x:1");
        puppets[server].answer(&subscribe, &json!({}));
        assert_eq!(client.message()["id"], server);
    }
    let updated = |uri: &str| {
        json!({ "jsonrpc": "2.0", "method": UPDATED, "params": { "x": 1.0, "uri": uri } })
            .to_string()
    };
    for (server, said, heard) in [
        (0, "x:1", "x:1"),
        (0, "x:1/part", "x:1/part"),
        (1, "x:1", "ostler:b/x:1"),
        (1, "x:1/part", "ostler:b/x:1/part"),
        // An update without a subscription is forwarded under a URI that no other server can claim.
        (0, "y:1", "ostler:a/y:1"),
    ] {
        puppets[server].say(&updated(said));
        assert_eq!(client.expect(UPDATED)["params"], json!({ "x": 1.0, "uri": heard }));
    }
    client.request(&json!("off"), "resources/unsubscribe", &json!({ "uri": "ostler:b/x:1" }));
    assert_eq!(puppets[1].expect("resources/unsubscribe")["params"]["uri"], "x:1");
}

#[test]
fn a_uri_that_looks_qualified_reaches_no_other_server() {
    let stage = stage();
    let a_has =
        Has { uris: &["ostler:b/x:1", "OSTLER:b/x:2", "x:3"], templates: &["ostler:b/{x}"] };
    let b_has = Has { uris: &["x:1", "x:2"], ..Has::default() };
    let (mut client, mut puppets) = enter(&stage, &[("a", a_has), ("b", b_has)]);
    let expected = ["ostler:a/OSTLER:b/x:2", "ostler:a/ostler:b/x:1", "x:1", "x:2", "x:3"];
    assert_eq!(uris(&mut client), expected);
    assert_eq!(templates(&mut client), ["ostler:a/ostler:b/{x}"]);
    let (a, b) = puppets.split_at_mut(1);
    assert_reads(&mut client, "ostler:b/x:1", &mut b[0], "x:1");
    assert_reads(&mut client, "Ostler:b/x:2", &mut b[0], "x:2");
    assert_reads(&mut client, "ostler:a/ostler:b/x:1", &mut a[0], "ostler:b/x:1");
    for unknown in ["ostler:c/x:1", "ostler:", "ostler:b", "ostler:%zz/x:1"] {
        assert_unknown(&mut client, unknown);
    }
}

#[test]
fn a_template_takes_no_uri_from_another_server() {
    let stage = stage();
    let a_has = Has { uris: &[], templates: &["{+any}", "b:x/{id}", "b:{id}", "a:{x}"] };
    let b_has = Has { uris: &["b:listed"], templates: &["b:x/{id}", "b:y/{id}{?q}"] };
    let (mut client, mut puppets) = enter(&stage, &[("b", b_has)]);
    // The list came without `a`: its templates are known later than those of `b`.
    assert_eq!(templates(&mut client), ["b:x/{id}", "b:y/{id}{?q}"]);
    let mut a = play(&stage, "a", a_has);
    let expected = [
        "a:{x}",
        "b:x/{id}",
        "b:y/{id}{?q}",
        "ostler:a/b:x/{id}",
        "ostler:a/b:{id}",
        "ostler:a/{+any}",
    ];
    ostler_testkit::wait_until("all are there", std::time::Duration::from_secs(30), || {
        templates(&mut client) == expected
    });
    let b = &mut puppets[0];
    assert_reads(&mut client, "b:x/5", b, "b:x/5");
    assert_reads(&mut client, "b:y/5?q=1#f", b, "b:y/5?q=1#f");
    assert_reads(&mut client, "b:listed", b, "b:listed");
    assert_reads(&mut client, "a:1", &mut a, "a:1");
    assert_reads(&mut client, "ostler:a/b:x/5", &mut a, "b:x/5");
    assert_reads(&mut client, "ostler:a/any?x=a%20b#f", &mut a, "any?x=a%20b#f");
    for unknown in ["b:z", "other:1"] {
        assert_unknown(&mut client, unknown);
    }
}

#[test]
fn an_unlisted_uri_goes_to_the_only_server_with_resources() {
    let stage = stage();
    let mut client = stage.client_of_all();
    client.enter();
    client.request(&json!(1), "tools/call", &json!({ "name": "a__t" }));
    let mut a = stage.puppets["a"].next();
    a.greet(&json!({ "resources": {}, "tools": {} }));
    for _ in 0..3 {
        let list = a.message();
        a.answer(&list, &json!({ "tools": [], "resources": [], "resourceTemplates": [] }));
    }
    assert_eq!(client.message()["error"]["code"], -32602);
    // The resources of `b` are unknown, so the URI may belong to it.
    assert_unknown(&mut client, "b:1");
    client.request(&json!(2), "tools/call", &json!({ "name": "b__t" }));
    let mut b = stage.puppets["b"].next();
    b.greet(&json!({ "tools": {} }));
    let list = b.expect("tools/list");
    b.answer(&list, &json!({ "tools": [] }));
    assert_eq!(client.message()["error"]["code"], -32602);
    assert_reads(&mut client, "any:1", &mut a, "any:1");
}

#[test]
fn the_name_of_a_tool_does_not_depend_on_other_servers() {
    let stage = Stage::with(&["git", "git__hub", "git_"], |server| server.sharing = Sharing::All);
    let mut client = stage.client_of_all();
    client.enter();
    client.request(&json!(1), "tools/list", &json!({}));
    let tools = |names: &[&str]| json!({ "tools": names.iter().map(|name| json!({ "name": name })).collect::<Vec<_>>() });
    let has: [(&str, &[&str]); 3] =
        [("git", &["hub__push", "log", "_x"]), ("git__hub", &["push"]), ("git_", &["x"])];
    let mut puppets: Vec<Puppet> = Vec::new();
    for (name, own) in has {
        let mut puppet = stage.puppets[name].next();
        puppet.greet(&json!({ "tools": {} }));
        let list = puppet.expect("tools/list");
        puppet.answer(&list, &tools(own));
        puppets.push(puppet);
    }
    let listed = client.message();
    let listed = listed["result"]["tools"].as_array().cloned().unwrap_or_default();
    let mut names: Vec<&str> =
        listed.iter().map(|tool| tool["name"].as_str().unwrap_or_default()).collect();
    names.sort_unstable();
    let plain: Vec<&&str> = names.iter().filter(|name| name.len() < 20).collect();
    assert_eq!(plain, [&"git___x", &"git__hub__push", &"git__log"], "{names:?}");
    for name in &names {
        client.request(&json!(name), "tools/call", &json!({ "name": name }));
    }
    let mut called: Vec<(usize, String)> = Vec::new();
    for (index, (_, own)) in has.iter().enumerate() {
        for _ in 0..own.len() {
            let call = puppets[index].expect("tools/call");
            called.push((index, call["params"]["name"].as_str().unwrap_or_default().to_owned()));
        }
    }
    called.sort();
    let mut expected: Vec<(usize, String)> = has
        .iter()
        .enumerate()
        .flat_map(|(index, (_, own))| own.iter().map(move |name| (index, (*name).to_owned())))
        .collect();
    expected.sort();
    assert_eq!(called, expected);
}
