//! `ostler demo`, the first command of the README.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use std::process::Stdio;
use std::time::Duration;

use ostler_testkit::rows;

const PATIENCE: Duration = Duration::from_secs(30);
/// Drawn by `scripts/picture`.
const PICTURE: &str = include_str!("../../../docs/demo.svg");

rows! {
    fn the_demo_counts_no_survivor_with_ostler_and_leaves_nothing(stage) {
        let ostler = stage.sandbox.reachable(&ostler_testkit::binary("ostler"));
        let output = stage.command(ostler).arg("demo").stdin(Stdio::null()).output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{printed}");
        assert!(printed.ends_with("Survivors with ostler: 0\n"), "{printed}");
        for line in printed.lines() {
            let line = line.replace('\'', "&#x27;");
            assert!(PICTURE.contains(&format!(">{line}</text>")), "docs/demo.svg lacks '{line}'");
        }
        stage.sandbox.expect_no_process_left(PATIENCE);
    }
}
