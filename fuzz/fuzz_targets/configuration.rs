//! Any text is either loaded as a configuration or refused, and a loaded one can be resolved and displayed.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use ostler_gateway::config::{Environment, describe, parse, resolve};

/// Bound on the text of problems and notices: bytes per byte of the configuration, and bytes in any case.
const SAID: usize = 64;
const SAID_ANYWAY: usize = 64 << 10;

fuzz_target!(|text: &str| {
    // Files of this machine must not affect the result.
    if text.contains("envFile") {
        return;
    }
    let said = match parse(text, Path::new("/nowhere/ostler.json")) {
        Ok(file) => {
            let environment: Environment = [("A", "1"), ("HOME", "/nowhere")].into_iter().collect();
            for entry in file.servers.values() {
                let cwd = Path::new("/nowhere");
                let resolved = resolve(entry, &environment, cwd);
                let description = describe(entry, &environment, cwd);
                assert_eq!(resolved.is_err(), description.disabled.is_some());
            }
            format!("{file:?}")
        }
        Err(problems) => problems.to_string(),
    };
    assert!(said.len() <= text.len() * SAID + SAID_ANYWAY, "{} bytes are said", said.len());
});
