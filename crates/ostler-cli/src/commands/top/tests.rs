//! The screens of `ostler top`, drawn to memory.

use ostler_gateway::front::GatewaySocket;
use ratatui_core::backend::TestBackend;
use ratatui_core::terminal::Terminal;
use ratatui_widgets::table::TableState;

use super::feed::{Action, Snapshot, Update};
use super::instance::{Home, Instance};
use super::keys::Key;
use super::state::{Effect, State};
use super::view;

const PAGE: usize = 20;

fn home(number: u64) -> Home {
    let socket = GatewaySocket::at("/run/ostler/gateway.sock".as_ref()).unwrap();
    Home { socket, number }
}

fn instance(server: &str, number: u64, memory: u64) -> Instance {
    Instance {
        key: format!("{server}{number}"),
        id: format!("{number:032x}").parse().ok(),
        server: server.into(),
        state: "busy".into(),
        sessions: Some(2),
        calls: Some(1),
        memory: Some(memory),
        cpu: Some(12.34),
        age: 42_000,
        pid: "4711".into(),
        client: "editor".into(),
        facts: vec![("command", "node server.js".into())],
        tree: vec!["4711 node server.js".into(), "  4712 worker".into()],
        home: Some(home(number)),
    }
}

fn state() -> State {
    let wrapped = Instance {
        state: "running".into(),
        sessions: None,
        calls: None,
        home: None,
        ..instance("wrapped", 3, 3_000_000)
    };
    let instances =
        vec![instance("github", 1, 9_000_000), wrapped, instance("browser", 2, 700_000_000)];
    let troubles = vec!["files: not available: HOME is not set".to_owned()];
    State::new(Snapshot { instances, troubles, events: Vec::new() })
}

fn screen(state: &State, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view::draw(frame, state, &mut TableState::default())).unwrap();
    let buffer = terminal.backend().buffer();
    let row = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(|y| row(y).trim_end().to_owned()).collect()
}

fn press(state: &mut State, keys: &str) -> Vec<Effect> {
    keys.chars().map(|c| state.press(key(c), PAGE)).collect()
}

fn key(c: char) -> Key {
    match c {
        '\n' => Key::Enter,
        '\u{1b}' => Key::Escape,
        c => Key::Char(c),
    }
}

#[test]
fn the_list_fits_80_columns() {
    let lines = screen(&state(), 80, 24);
    let expected = [
        "ostler top  3 instances, 712.0 MB  by server",
        "SERVER              INSTANCE  STATE       SESSIONS  CALLS    MEMORY   CPU%   AGE",
        "browser             00000000  busy               2      1  700.0 MB   12.3   42s",
        "github              00000000  busy               2      1    9.0 MB   12.3   42s",
        "wrapped             00000000  running            -      -    3.0 MB   12.3   42s",
        "",
    ];
    assert_eq!(lines[..6], expected);
    assert_eq!(lines[22], "files: not available: HOME is not set");
    assert_eq!(lines[23], "? help  Enter details  / filter  s sort  x stop  r restart  q quit");
}

#[test]
fn a_wide_terminal_shows_pids_and_clients() {
    let lines = screen(&state(), 200, 60);
    assert!(lines[1].ends_with("PID  CLIENT"), "{}", lines[1]);
    assert!(lines[2].ends_with("4711  editor"), "{}", lines[2]);
    assert_eq!(lines.len(), 60);
}

#[test]
fn every_size_can_be_drawn() {
    let mut states = [state(), state(), state(), state(), State::new(Snapshot::default())];
    press(&mut states[1], "?");
    press(&mut states[2], "\n");
    press(&mut states[3], "x");
    for state in &states {
        for (width, height) in [(1, 1), (5, 2), (10, 3), (40, 4), (80, 1), (300, 100)] {
            screen(state, width, height);
        }
    }
}

#[test]
fn sorting_cycles_through_the_columns_and_can_be_inverted() {
    let mut state = state();
    let order = |state: &State| -> Vec<String> {
        state.shown().iter().map(|one| one.server.clone()).collect()
    };
    press(&mut state, "ssss");
    assert!(screen(&state, 80, 24)[0].contains("by memory"));
    assert_eq!(order(&state), ["browser", "github", "wrapped"]);
    press(&mut state, "i");
    assert_eq!(order(&state), ["wrapped", "github", "browser"]);
    press(&mut state, "isss");
    assert!(screen(&state, 80, 24)[0].contains("by server"));
}

#[test]
fn a_filter_narrows_the_list_until_it_is_removed() {
    let mut state = state();
    press(&mut state, "/GIT");
    assert_eq!(state.shown().len(), 1);
    assert_eq!(screen(&state, 80, 24)[23], "/GIT_  Enter: keep, Esc: remove");
    // Keys are text while the filter is typed, and commands afterwards.
    assert_eq!(press(&mut state, "q\n"), [Effect::None, Effect::None]);
    assert!(state.shown().is_empty());
    assert_eq!(screen(&state, 80, 24)[2], "no match");
    press(&mut state, "\u{1b}");
    assert_eq!(state.shown().len(), 3);
    assert_eq!(press(&mut state, "q"), [Effect::Quit]);
}

#[test]
fn the_selection_follows_its_instance() {
    let mut state = state();
    press(&mut state, "j");
    assert_eq!(state.instance().unwrap().server, "github");
    press(&mut state, "ssssi");
    assert_eq!(state.instance().unwrap().server, "github");
    let snapshot = Snapshot { instances: vec![instance("browser", 2, 1)], ..Snapshot::default() };
    state.update(Update::Snapshot(snapshot));
    assert_eq!(state.instance().unwrap().server, "browser");
    state.update(Update::Snapshot(Snapshot::default()));
    assert_eq!(state.instance(), None);
    assert_eq!(press(&mut state, "\nxrjkG"), vec![Effect::None; 6]);
}

#[test]
fn details_show_processes_and_events() {
    let mut state = state();
    assert_eq!(press(&mut state, "j\n"), [Effect::None, Effect::Focus(Some(home(1)))]);
    let mut snapshot = state.snapshot.clone();
    snapshot.events = vec!["10:45:33  ready  github #1".into()];
    state.update(Update::Snapshot(snapshot));
    let lines = screen(&state, 80, 24);
    assert_eq!(lines[1], "github  00000000  busy");
    for expected in [
        "  command           node server.js",
        "processes: 2",
        "    4712 worker".trim_end(),
        "  10:45:33  ready  github #1",
    ] {
        assert!(lines.iter().any(|line| line.contains(expected)), "{expected}: {lines:#?}");
    }
    // A narrow terminal wraps long lines.
    let lines = screen(&state, 24, 40);
    assert!(lines.contains(&"  10:45:33  ready  githu".to_owned()), "{lines:#?}");
    assert!(lines.contains(&"      b #1".to_owned()), "{lines:#?}");
    // Its end is shown, and does not show another instance instead.
    state.update(Update::Snapshot(Snapshot::default()));
    assert_eq!(screen(&state, 80, 24)[1], "it has ended");
    assert_eq!(press(&mut state, "\u{1b}"), [Effect::Focus(None)]);
}

#[test]
fn stopping_and_restarting_need_a_confirmation() {
    let mut state = state();
    let id = state.instance().unwrap().id.unwrap();
    press(&mut state, "x");
    assert_eq!(screen(&state, 80, 24)[23], "stop browser (00000000)? y/N");
    assert_eq!(press(&mut state, "n"), [Effect::None]);
    let stop = Action::Stop { id, server: "browser".into() };
    assert_eq!(press(&mut state, "xy"), [Effect::None, Effect::Act(stop)]);
    // One action at a time.
    assert_eq!(press(&mut state, "xy"), [Effect::None, Effect::None]);
    assert_eq!(screen(&state, 80, 24)[23], "the last action has not ended yet");
    state.update(Update::Done("browser: stopping".into()));
    assert_eq!(screen(&state, 80, 24)[23], "browser: stopping");
    let restart = Action::Restart { socket: home(2).socket, server: "browser".into() };
    assert_eq!(press(&mut state, "ry"), [Effect::None, Effect::Act(restart)]);
    state.update(Update::Done("done".into()));
    press(&mut state, "Gr");
    let refused = "wrapped: only its client can restart it; x stops it";
    assert_eq!(screen(&state, 80, 24)[23], refused);
}

#[test]
fn an_old_snapshot_is_marked() {
    let mut state = state();
    state.stale = Some(7);
    assert!(screen(&state, 80, 24)[0].starts_with("ostler top  (no answer for 7 s)  3 instances"));
}

#[test]
fn help_covers_the_screen_until_a_key_is_pressed() {
    let mut state = state();
    press(&mut state, "?");
    assert!(screen(&state, 80, 24).iter().any(|line| line.contains("stop the instance")));
    assert_eq!(press(&mut state, "q"), [Effect::None]);
    assert!(!screen(&state, 80, 24).iter().any(|line| line.contains("stop the instance")));
}
