//! The first list of a server: its wait, the cached result, and its effect on other clients.

use std::time::{Duration, Instant};

use ostler::keeper::{Caps, Principal, Sharing};
use ostler_gateway::{Route, SessionSpec, Tools};
use ostler_testkit::{Puppet, wait_until};
use serde_json::{Value, json};

use crate::stage::{Client, Stage};

const PATIENCE: Duration = Duration::from_secs(30);
const SHARINGS: [Sharing; 4] = [Sharing::All, Sharing::Agent, Sharing::Session, Sharing::Call];

/// The server's part of a listing with this tool.
fn play(puppet: &mut Puppet, tool: &str) {
    puppet.greet(&json!({ "tools": { "listChanged": true } }));
    answer_list(puppet, tool);
}

fn answer_list(puppet: &mut Puppet, tool: &str) {
    let list = puppet.expect("tools/list");
    puppet.answer(&list, &json!({ "tools": [{ "name": tool }] }));
}

fn list(client: &mut Client) {
    client.request(&json!("list"), "tools/list", &json!({}));
}

/// The tools of a response, and its errors for missing servers.
fn answered(client: &Client) -> (Vec<String>, Value) {
    let answer = client.message();
    assert_eq!(answer["id"], "list", "{answer}");
    let tools = answer["result"]["tools"].as_array().cloned().unwrap_or_default();
    let name = |tool: &Value| tool["name"].as_str().unwrap_or_default().to_owned();
    (tools.iter().map(name).collect(), answer["result"]["_meta"]["ostler/unavailable"].clone())
}

fn live(stage: &Stage) -> u64 {
    stage.router.keeper().books().live
}

fn started(stage: &Stage) -> u64 {
    stage.router.keeper().books().started
}

#[test]
fn a_start_for_a_list_is_finished_and_kept_although_its_client_has_left() {
    for sharing in SHARINGS {
        let stage = Stage::new(sharing);
        let mut client = stage.client_of_all();
        client.enter();
        list(&mut client);
        let mut puppet = stage.puppet();
        let initialize = puppet.expect("initialize");
        drop(client);
        wait_until("the client has left", PATIENCE, || stage.router.clients() == 0);
        let info = json!({ "name": "puppet", "version": "1" });
        let result = json!({
            "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": info,
        });
        puppet.answer(&initialize, &result);
        puppet.expect("notifications/initialized");
        answer_list(&mut puppet, "t");
        wait_until("its instance has ended", PATIENCE, || live(&stage) == 0);
        let mut next = stage.client_of_all();
        next.enter();
        list(&mut next);
        assert_eq!(answered(&next).0, ["puppet__t"], "{sharing}");
        assert_eq!(started(&stage), 1, "{sharing}");
    }
}

#[test]
fn the_handshake_of_a_server_is_kept_although_its_client_has_left() {
    for sharing in SHARINGS {
        let stage = Stage::new(sharing);
        let mut client = stage.client();
        client.hello(&json!({}));
        let mut puppet = stage.puppet();
        drop(client);
        wait_until("the client has left", PATIENCE, || stage.router.clients() == 0);
        play(&mut puppet, "t");
        wait_until("its instance has ended", PATIENCE, || live(&stage) == 0);
        let mut next = stage.client();
        assert_eq!(next.enter()["serverInfo"]["name"], "puppet", "{sharing}");
        list(&mut next);
        assert_eq!(answered(&next).0, ["t"], "{sharing}");
        assert_eq!(started(&stage), 1, "{sharing}");
    }
}

#[test]
fn the_first_call_uses_the_instance_that_was_started_for_the_list() {
    for sharing in [Sharing::All, Sharing::Agent, Sharing::Session] {
        let stage = Stage::new(sharing);
        let mut client = stage.client_of_all();
        client.enter();
        list(&mut client);
        let mut puppet = stage.puppet();
        play(&mut puppet, "t");
        assert_eq!(answered(&client).0, ["puppet__t"]);
        client.request(&json!(1), "tools/call", &json!({ "name": "puppet__t" }));
        let call = puppet.expect("tools/call");
        puppet.answer(&call, &json!({}));
        assert_eq!(client.message()["id"], 1);
        assert_eq!(started(&stage), 1, "{sharing}");
    }
}

#[test]
fn clients_that_list_at_the_same_time_start_a_server_once() {
    let stage = Stage::new(Sharing::Session);
    let mut clients: Vec<Client> = (0..5).map(|_| stage.client_of_all()).collect();
    for client in &mut clients {
        client.enter();
        list(client);
    }
    play(&mut stage.puppet(), "t");
    for client in &clients {
        assert_eq!(answered(client).0, ["puppet__t"]);
    }
    assert_eq!(started(&stage), 1);
}

#[test]
fn a_server_that_fails_is_waited_for_once_and_its_reason_is_shown() {
    let stage = Stage::with(&["bad", "good"], |server| {
        server.sharing = Sharing::All;
        server.limits.backoff.first = Duration::from_mins(10);
    });
    let mut client = stage.client_of_all();
    client.enter();
    list(&mut client);
    play(&mut stage.puppets["good"].next(), "g");
    drop(stage.puppets["bad"].next());
    let (tools, missing) = answered(&client);
    assert_eq!(tools, ["good__g"]);
    assert!(missing["bad"].as_str().is_some_and(|why| why.contains("bad")), "{missing}");
    for _ in 0..20 {
        let before = Instant::now();
        list(&mut client);
        assert_eq!(answered(&client).0, ["good__g"]);
        assert!(before.elapsed() < Duration::from_secs(3));
    }
    assert_eq!(started(&stage), 2);
}

#[test]
fn a_call_starts_while_servers_that_never_answer_are_being_listed() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "target"];
    let caps = Caps { starting: 4, ..Caps::default() };
    let share = |server: &mut ostler::keeper::Server| server.sharing = Sharing::All;
    let stage = Stage::limited(&names, share, &Tools::default(), caps);
    let mut lister = stage.client_of_all();
    lister.enter();
    list(&mut lister);
    wait_until("half of the starts are taken", PATIENCE, || started(&stage) == 2);
    let before = Instant::now();
    let mut caller = stage.client_of_all();
    caller.enter();
    caller.request(&json!(1), "tools/call", &json!({ "name": "target__t" }));
    let mut target = stage.puppets["target"].next();
    assert!(before.elapsed() < Duration::from_secs(5));
    play(&mut target, "t");
    let call = target.expect("tools/call");
    target.answer(&call, &json!({}));
    assert_eq!(caller.message()["id"], 1);
}

#[test]
fn other_capabilities_see_the_last_known_list_at_once_and_their_own_soon() {
    let stage = Stage::new(Sharing::Agent);
    let mut first = stage.connect(Some("ann"), Route::All);
    first.enter();
    list(&mut first);
    let mut plain = stage.puppet();
    play(&mut plain, "plain");
    assert_eq!(answered(&first).0, ["puppet__plain"]);
    let mut second = stage.connect(Some("ann"), Route::All);
    second.hello(&json!({ "sampling": {} }));
    second.welcome();
    second.ready();
    list(&mut second);
    assert_eq!(answered(&second).0, ["puppet__plain"]);
    let mut rich = stage.puppet();
    play(&mut rich, "rich");
    second.expect("notifications/tools/list_changed");
    list(&mut second);
    assert_eq!(answered(&second).0, ["puppet__rich"]);
    list(&mut first);
    assert_eq!(answered(&first).0, ["puppet__plain"]);
    assert_eq!(started(&stage), 2);
}

#[test]
fn row_6_no_list_crosses_from_one_principal_to_another() {
    for sharing in SHARINGS {
        let stage = Stage::new(sharing);
        let of = |name: &str| SessionSpec {
            principal: Principal::named(name),
            ..SessionSpec::new(None, Route::All)
        };
        let mut ann = stage.admit(of("ann"));
        ann.enter();
        list(&mut ann);
        let mut puppet = stage.puppet();
        play(&mut puppet, "of-ann");
        assert_eq!(answered(&ann).0, ["puppet__of-ann"]);
        let mut bob = stage.admit(of("bob"));
        bob.enter();
        list(&mut bob);
        if sharing == Sharing::All {
            // All clients share the instance and its lists, so it is not started again.
            assert_eq!(answered(&bob).0, ["puppet__of-ann"]);
        } else {
            play(&mut stage.puppet(), "of-bob");
            assert_eq!(answered(&bob).0, ["puppet__of-bob"], "{sharing}");
        }
    }
}

#[test]
fn row_6_the_resources_of_a_session_are_its_own_and_never_on_disk() {
    let stage = Stage::new(Sharing::Session);
    let mut first = stage.client_of_all();
    first.enter();
    first.request(&json!("list"), "resources/list", &json!({}));
    let mut ones = stage.puppet();
    play_resource(&mut ones, "x:secret");
    assert_eq!(first.message()["result"]["resources"][0]["uri"], "x:secret");
    let mut second = stage.client_of_all();
    second.enter();
    list(&mut second);
    assert_eq!(answered(&second).0, ["puppet__t"]);
    assert_eq!(started(&stage), 1, "tools are known");
    second.request(&json!("list"), "resources/list", &json!({}));
    let mut others = stage.puppet();
    play_resource(&mut others, "x:other");
    let resources = second.message()["result"]["resources"].clone();
    assert_eq!(resources.as_array().map(Vec::len), Some(1), "{resources}");
    assert_eq!(resources[0]["uri"], "x:other");
    stage.wait_listed("tools/list");
    let kept = stage.catalog();
    assert!(!kept.contains("x:secret") && !kept.contains("x:other"), "{kept}");
}

/// The server's part of a listing with a tool and this resource.
fn play_resource(puppet: &mut Puppet, uri: &str) {
    puppet.greet(&json!({ "tools": { "listChanged": true }, "resources": {} }));
    for _ in 0..3 {
        let list = puppet.message();
        let result = match list["method"].as_str().unwrap_or_default() {
            "tools/list" => json!({ "tools": [{ "name": "t" }] }),
            "resources/list" => json!({ "resources": [{ "uri": uri, "name": "r" }] }),
            _ => json!({ "resourceTemplates": [] }),
        };
        puppet.answer(&list, &result);
    }
}
