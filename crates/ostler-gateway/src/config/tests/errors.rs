//! Exact messages for invalid configurations.

use super::{complaint, file, notices};

/// Defines tests with configurations and the complete messages for them.
macro_rules! complaints {
    ($($name:ident: $text:literal => $expected:literal)*) => {$(
        #[test]
        fn $name() {
            let (text, expected) = ($text.trim_matches('\n'), $expected.trim_matches('\n'));
            let said = complaint(text);
            assert_eq!(said, expected, "\n{said}\n");
        }
    )*};
}

complaints! {
    a_slip_in_a_key: r#"
{
  "mcpServers": {
    "browser": { "command": "npx", "idleTimout": "10m" }
  }
}
"# => r#"
ostler.json:3:36: mcpServers.browser.idleTimout: unknown key; did you mean `idleTimeout`?
  3 |     "browser": { "command": "…", "idleTimout": "…" }
    |                                  ^^^^^^^^^^^^
"#
    keys_that_are_nothing_like_ours: r#"
{ "theme": "dark", "caps": { "potatoes": 1 }, "mcpServers": { "a": { "command": "x", "potatoes": 1 } } }
"# => r#"
ostler.json:1:3: theme: unknown key; known are $schema, mcpServers, caps, detachTimeout, agentTimeout, tokens
  1 | { "theme": "…", "caps": { "potatoes": … }, "mcpServers": …
    |   ^^^^^^^
ostler.json:1:30: caps.potatoes: unknown key; known are instances, containers, starting, queue, queueTimeout
  1 | { "theme": "…", "caps": { "potatoes": … }, "mcpServers": { "a": { "command": "…", "p…
    |                           ^^^^^^^^^^
ostler.json:1:86: mcpServers.a.potatoes: unknown key; `ostler schema` has all that are known
  1 | …s": … }, "mcpServers": { "a": { "command": "…", "potatoes": … } } }
    |                                                  ^^^^^^^^^^
"#
    urls_with_a_password: r#"
{ "mcpServers": { "a": { "url": "https://me:s3cret@a/" }, "b": { "url": "https://me:${PASS}@b" } } }
"# => r#"
ostler.json:1:33: mcpServers.a: a user and password in a url are refused; put credentials into `headers`
  1 | { "mcpServers": { "a": { "url": "…" }, "b": { "url": "…" } } }
    |                                 ^^^
ostler.json:1:73: mcpServers.b: a user and password in a url are refused; put credentials into `headers`
  1 | …pServers": { "a": { "url": "…" }, "b": { "url": "…" } } }
    |                                                  ^^^
"#
    a_token_that_could_be_guessed: r#"
{ "mcpServers": {}, "tokens": { "a": { "token": "s3cret" } } }
"# => r#"
ostler.json:1:49: tokens.a.token: a token has at least 16 characters, and no spaces
  1 | { "mcpServers": {}, "tokens": { "a": { "token": "…" } } }
    |                                                 ^^^
"#
    tokens_that_let_nobody_in: r#"
{ "mcpServers": {}, "tokens": {
  "a": { "agent": "ci" },
  "b": { "token": "s3cret-s3cret-s3cret", "agent": " " },
  "b": { "token": "${B}" },
  "c": { "token": "${C}", "server": "x" }
} }
"# => r#"
ostler.json:2:3: tokens.a: it has no `token`
  2 |   "a": { "agent": "…" },
    |   ^^^
ostler.json:3:52: tokens.b.agent: an agent's name has 1 to 128 characters
  3 |   "b": { "token": "…", "agent": " " },
    |                                 ^^^
ostler.json:4:3: tokens.b: given twice
  4 |   "b": { "token": "…" },
    |   ^^^
ostler.json:5:27: tokens.c.server: unknown key; did you mean `servers`?
  5 |   "c": { "token": "…", "server": "…" }
    |                        ^^^^^^^^
"#
    limits_of_tokens_that_can_not_be_honoured: r#"
{ "mcpServers": {}, "tokens": {
  "a": { "token": "${A}", "limits": { "sessions": 5000, "requests": 0 } },
  "b": { "token": "${B}", "limits": { "request": 5, "requestsPerMinute": 1.5 } },
  "c": { "token": "${C}", "limits": { "sessions": 4096, "requests": 1, "requestsPerMinute": 1, "waitingBytes": "64KiB" } },
  "d": { "token": "${D}", "limits": { "waitingBytes": "1KiB" } },
  "e": { "token": "${E}", "limits": { "waitingBytes": "1GiB" } }
} }
"# => r#"
ostler.json:2:51: tokens.a.limits.sessions: the gateway has at most 4096 sessions
  2 |   "a": { "token": "…", "limits": { "sessions": 5000, "requests": … } },
    |                                                ^^^^
ostler.json:2:69: tokens.a.limits.requests: write a whole number from 1 to 4294967295
  2 | …n": "…", "limits": { "sessions": …, "requests": 0 } },
    |                                                  ^
ostler.json:3:39: tokens.b.limits.request: unknown key; did you mean `requests`?
  3 |   "b": { "token": "…", "limits": { "request": …, "requestsPerMinute": … } },
    |                                    ^^^^^^^^^
ostler.json:3:74: tokens.b.limits.requestsPerMinute: write a whole number from 1 to 4294967295
  3 | … "limits": { "request": …, "requestsPerMinute": 1.5 } },
    |                                                  ^^^
ostler.json:5:55: tokens.d.limits.waitingBytes: write 65536 to 201326592 bytes, as 64KiB to 192MiB
  5 | …d": { "token": "…", "limits": { "waitingBytes": "1KiB" } },
    |                                                  ^^^^^^
ostler.json:6:55: tokens.e.limits.waitingBytes: write 65536 to 201326592 bytes, as 64KiB to 192MiB
  6 | …e": { "token": "…", "limits": { "waitingBytes": "1GiB" } }
    |                                                  ^^^^^^
"#
    a_client_secret_without_its_issuer: r#"
{ "mcpServers": {
  "a": { "url": "https://a.invalid", "oauth": { "clientId": "me", "clientSecret": "s3cret" } },
  "b": { "url": "https://b.invalid", "oauth": { "clientSecret": "s3cret", "issuer": "s3cret.invalid" } },
  "c": { "url": "https://c.invalid", "oauth": { "clientSecret": "s3cret", "issuer": "https://login.invalid" } }
} }
"# => r#"
ostler.json:2:67: mcpServers.a.oauth.clientSecret: write `issuer` beside it: the url of the authorization server that this secret is for, and the only one that gets it
  2 | … "a": { "url": "…", "oauth": { "clientId": "…", "clientSecret": "…" } },
    |                                                  ^^^^^^^^^^^^^^
ostler.json:3:85: mcpServers.b.oauth.issuer: its url must begin with http:// or https://
  3 | … "…", "oauth": { "clientSecret": "…", "issuer": "…" } },
    |                                                  ^^^
"#
    what_no_server_inherits: r#"
{ "tokens": { "ci": { "token": "${CI_TOKEN}" } }, "mcpServers": {
  "a": { "command": "/x", "inheritEnv": ["*", "OSTLER_TOKEN"] },
  "b": { "command": "/x", "inheritEnv": ["CI_TOKEN", "CI_*"] },
  "c": { "command": "/x", "inheritEnv": ["OSTLER_TOKEN=s3cret"] },
  "d": { "command": "/x", "env": { "CI_TOKEN": "${CI_TOKEN}" } }
} }
"# => r#"
ostler.json:2:41: mcpServers.a.inheritEnv: OSTLER_TOKEN is never inherited: it is one of ostler's own variables, or holds a token of clients; if this server needs it, write it into `env`
  2 |   "a": { "command": "…", "inheritEnv": ["…", "…"] },
    |                                        ^^^^^^^^^^
ostler.json:3:41: mcpServers.b.inheritEnv: CI_TOKEN is never inherited: it is one of ostler's own variables, or holds a token of clients; if this server needs it, write it into `env`
  3 |   "b": { "command": "…", "inheritEnv": ["…", "…"] },
    |                                        ^^^^^^^^^^
ostler.json:4:41: mcpServers.c: inherited variables are named; values go into `env`
  4 |   "c": { "command": "…", "inheritEnv": ["…"] },
    |                                        ^^^^^
"#
    everything_is_said_at_once: r#"
{
  "mcpServers": {
    "a": {
      "command": 5,
      "args": ["ok", 1],
      "env": { "TOKEN": "s3cret", "PORT": 3000, "A=s3cret": "" },
      "share": "everyone",
      "idleTimeout": "10x",
      "callTimeout": "never",
      "startTimeout": "0s",
      "maxInstances": -1,
      "maxConcurrency": 1.5,
      "limits": { "memory": "lots", "cpus": "0", "pids": 0 },
      "enabled": "yes"
    },
    "b": "npx",
    "c": {},
    "": { "command": "x" }
  },
  "caps": { "instances": 0, "queueTimeout": 30 }
}
"# => r#"
ostler.json:4:18: mcpServers.a.command: expected a string, found a number
  4 |       "command": …,
    |                  ^
ostler.json:5:22: mcpServers.a.args: expected a string, found a number
  5 |       "args": ["…", …],
    |                     ^
ostler.json:6:43: mcpServers.a.env.PORT: expected a string, found a number
  6 |       "env": { "TOKEN": "…", "PORT": …, "…": "…" },
    |                                      ^
ostler.json:6:49: mcpServers.a.env: no variable can have that name
  6 |       "env": { "TOKEN": "…", "PORT": …, "…": "…" },
    |                                         ^^^
ostler.json:7:16: mcpServers.a.share: choose one of all, agent, session, call
  7 |       "share": "everyone",
    |                ^^^^^^^^^^
ostler.json:8:22: mcpServers.a.idleTimeout: write a number and a unit (ms, s, m or h), for example 500ms or 1.5s
  8 |       "idleTimeout": "10x",
    |                      ^^^^^
ostler.json:9:22: mcpServers.a.callTimeout: write a number and a unit (ms, s, m or h), for example 500ms or 1.5s
  9 |       "callTimeout": "never",
    |                      ^^^^^^^
ostler.json:10:23: mcpServers.a.startTimeout: there has to be some time for it
  10 |       "startTimeout": "0s",
     |                       ^^^^
ostler.json:11:23: mcpServers.a.maxInstances: write a whole number from 1 to 4294967295
  11 |       "maxInstances": -1,
     |                       ^^
ostler.json:12:25: mcpServers.a.maxConcurrency: write a whole number from 1 to 4294967295
  12 |       "maxConcurrency": 1.5,
     |                         ^^^
ostler.json:13:29: mcpServers.a.limits.memory: write a whole number above 0 and a unit (k, m or g), for example 512m or 2GiB
  13 |       "limits": { "memory": "lots", "cpus": "…", "pids": … },
     |                             ^^^^^^
ostler.json:13:45: mcpServers.a.limits.cpus: write a number of processors between 0.01 and 1000, for example 1.5
  13 |       "limits": { "memory": "…", "cpus": "0", "pids": … },
     |                                          ^^^
ostler.json:13:58: mcpServers.a.limits.pids: write a whole number from 1 to 4294967295
  13 | …"limits": { "memory": "…", "cpus": "…", "pids": 0 },
     |                                                  ^
ostler.json:14:18: mcpServers.a.enabled: expected true or false, found a string
  14 |       "enabled": "…"
     |                  ^^^
ostler.json:16:10: mcpServers.b: expected an object, found a string
  16 |     "b": "…",
     |          ^^^
ostler.json:17:5: mcpServers.c: needs a `command` or a `url`
  17 |     "c": {},
     |     ^^^
ostler.json:18:5: mcpServers.: a server's name has 1 to 128 visible characters
  18 |     "": { "command": "…" }
     |     ^^
ostler.json:20:26: caps.instances: write a whole number from 1 to 4294967295
  20 |   "caps": { "instances": 0, "queueTimeout": … }
     |                          ^
ostler.json:20:45: caps.queueTimeout: write a number and a unit (ms, s, m or h), for example 500ms or 1.5s
  20 |   "caps": { "instances": …, "queueTimeout": 30 }
     |                                             ^^
"#
    duplicates: r#"
{
  "mcpServers": {
    "a": { "command": "x", "command": "y", "env": { "A": "s3cret", "A": "s3cret" } },
    "a": { "command": "x" }
  },
  "servers": { "a": { "command": "x" } }
}
"# => r#"
ostler.json:3:28: mcpServers.a.command: given twice
  3 |     "a": { "command": "…", "command": "…", "env": { "A": "…", "A": "…" } },
    |                            ^^^^^^^^^
ostler.json:3:68: mcpServers.a.env.A: given twice
  3 | …mmand": "…", "command": "…", "env": { "A": "…", "A": "…" } },
    |                                                  ^^^
ostler.json:4:5: mcpServers.a: given twice
  4 |     "a": { "command": "…" }
    |     ^^^
ostler.json:6:16: servers.a: another server has this name
  6 |   "servers": { "a": { "command": "…" } }
    |                ^^^
"#
    a_process_or_a_url: r#"
{ "mcpServers": {
  "both": { "command": "x", "url": "https://s3cret.invalid" },
  "processKeys": { "url": "https://s3cret.invalid", "args": ["s3cret"], "env": {}, "limits": {} },
  "noScheme": { "url": "s3cret.invalid/mcp" },
  "stdio": { "type": "stdio", "url": "https://s3cret.invalid" },
  "headers": { "command": "x", "headers": { "A": "s3cret" }, "type": "http" },
  "token": { "command": "x", "bearer_token_env_var": "TOKEN" }
} }
"# => r#"
ostler.json:2:29: mcpServers.both.url: a server has a `command` or a `url`, and not both
  2 |   "both": { "command": "…", "url": "…" },
    |                             ^^^^^
ostler.json:3:53: mcpServers.processKeys.args: is for servers with a `command`, and this one has a `url`
  3 |   "processKeys": { "url": "…", "args": ["…"], "env": {}, "limits": {} },
    |                                ^^^^^^
ostler.json:3:73: mcpServers.processKeys.env: is for servers with a `command`, and this one has a `url`
  3 |   "processKeys": { "url": "…", "args": ["…"], "env": {}, "limits": {} },
    |                                               ^^^^^
ostler.json:3:84: mcpServers.processKeys.limits: is for servers with a `command`, and this one has a `url`
  3 | …sKeys": { "url": "…", "args": ["…"], "env": {}, "limits": {} },
    |                                                  ^^^^^^^^
ostler.json:4:24: mcpServers.noScheme: its url must begin with http:// or https://
  4 |   "noScheme": { "url": "…" },
    |                        ^^^
ostler.json:5:22: mcpServers.stdio: a server with a `url` is not reached by stdio
  5 |   "stdio": { "type": "stdio", "url": "…" },
    |                      ^^^^^^^
ostler.json:6:32: mcpServers.headers.headers: is for servers with a `url`, and this one has a `command`
  6 |   "headers": { "command": "…", "headers": { "A": "…" }, "type": "…" },
    |                                ^^^^^^^^^
ostler.json:6:70: mcpServers.headers: a server with a `command` is reached by stdio
  6 | …command": "…", "headers": { "A": "…" }, "type": "http" },
    |                                                  ^^^^^^
ostler.json:7:30: mcpServers.token.bearer_token_env_var: is for servers with a `url`, and this one has a `command`
  7 |   "token": { "command": "…", "bearer_token_env_var": "…" }
    |                              ^^^^^^^^^^^^^^^^^^^^^^
"#
    not_yet: r#"
{
  "mcpServers": {
    "modern": { "command": "x", "era": "modern" }
  }
}
"# => r#"
ostler.json:3:40: mcpServers.modern: this generation of the protocol is not supported yet
  3 |     "modern": { "command": "…", "era": "modern" }
    |                                        ^^^^^^^^
"#
    never_here: r#"
{ "mcpServers": { "a": { "command": "x", "scopes": ["s3cret"], "sslVerify": false, "sandbox": {} } } }
"# => r#"
ostler.json:1:42: mcpServers.a.scopes: write `oauth`, with `scopes` in it
  1 | { "mcpServers": { "a": { "command": "…", "scopes": ["…"], "sslVerify": false, "sandbox": {} } } }
    |                                          ^^^^^^^^
ostler.json:1:64: mcpServers.a.sslVerify: certificates are always checked
  1 | …ers": { "a": { "command": "…", "scopes": ["…"], "sslVerify": false, "sandbox": {} } } }
    |                                                  ^^^^^^^^^^^
ostler.json:1:84: mcpServers.a.sandbox: there is no such sandbox; `containment` and `limits` say what there is
  1 | …and": "…", "scopes": ["…"], "sslVerify": false, "sandbox": {} } } }
    |                                                  ^^^^^^^^^
"#
    logins: r#"
{ "mcpServers": {
  "process": { "command": "x", "oauth": {}, "bearerTokenFile": "s3cret" },
  "twice": { "url": "https://s3cret.invalid", "headers": { "authorization": "s3cret" }, "bearerTokenFile": "s3cret" },
  "odd": { "url": "https://s3cret.invalid", "oauth": { "clientID": "s3cret", "callbackPort": 70000 } }
} }
"# => r#"
ostler.json:2:32: mcpServers.process.oauth: is for servers with a `url`, and this one has a `command`
  2 |   "process": { "command": "…", "oauth": {}, "bearerTokenFile": "…" },
    |                                ^^^^^^^
ostler.json:2:45: mcpServers.process.bearerTokenFile: is for servers with a `url`, and this one has a `command`
  2 |   "process": { "command": "…", "oauth": {}, "bearerTokenFile": "…" },
    |                                             ^^^^^^^^^^^^^^^^^
ostler.json:3:89: mcpServers.twice.bearerTokenFile: another key sets this already
  3 | …url": "…", "headers": { "authorization": "…" }, "bearerTokenFile": "…" },
    |                                                  ^^^^^^^^^^^^^^^^^
ostler.json:4:56: mcpServers.odd.oauth.clientID: unknown key; did you mean `clientId`?
  4 |   "odd": { "url": "…", "oauth": { "clientID": "…", "callbackPort": … } }
    |                                   ^^^^^^^^^^
ostler.json:4:94: mcpServers.odd.oauth.callbackPort: write a whole number from 1 to 65535
  4 | ……", "oauth": { "clientID": "…", "callbackPort": 70000 } }
    |                                                  ^^^^^
"#
    said_twice_in_other_words: r#"
{ "mcpServers": { "a": {
  "command": "x", "enabled": true, "disabled": false, "env": {}, "environment": {},
  "tools": { "allow": ["a"] }, "includeTools": ["b"], "timeout": 60, "tool_timeout_sec": 60,
  "toolFilter": { "include": ["c"] }
} } }
"# => r#"
ostler.json:2:36: mcpServers.a.disabled: another key sets this already
  2 |   "command": "…", "enabled": true, "disabled": false, "env": {}, "environment": {},
    |                                    ^^^^^^^^^^
ostler.json:2:66: mcpServers.a.environment: another key sets this already
  2 | … "enabled": true, "disabled": false, "env": {}, "environment": {},
    |                                                  ^^^^^^^^^^^^^
ostler.json:3:32: mcpServers.a.includeTools: another key sets this already
  3 |   "tools": { "allow": ["…"] }, "includeTools": ["…"], "timeout": …, "tool_timeout_sec": …,
    |                                ^^^^^^^^^^^^^^
ostler.json:3:70: mcpServers.a.tool_timeout_sec: another key sets this already
  3 | …: ["…"] }, "includeTools": ["…"], "timeout": …, "tool_timeout_sec": …,
    |                                                  ^^^^^^^^^^^^^^^^^^
ostler.json:4:19: mcpServers.a.toolFilter: another key sets this already
  4 |   "toolFilter": { "include": ["…"] }
    |                   ^^^^^^^^^
"#
    variables: r#"
{ "mcpServers": {
  "a": { "command": "${", "args": ["${A:-${B}}", "${}", "s3cret${A B}"], "cwd": "\u0000" },
  "b": { "command": "" }
} }
"# => r#"
ostler.json:2:21: mcpServers.a.command: `${` has no end; a `${` that is no variable is written as `$${`
  2 |   "a": { "command": "…", "args": ["…", "…", "…"], "cwd": "…" },
    |                     ^^^
ostler.json:2:36: mcpServers.a.args: a default can't hold another variable
  2 |   "a": { "command": "…", "args": ["…", "…", "…"], "cwd": "…" },
    |                                   ^^^
ostler.json:2:50: mcpServers.a.args: write ${NAME}, ${NAME:-default} or ${env:NAME}; a `${` that is no variable is written as `$${`
  2 |   "a": { "command": "…", "args": ["…", "…", "…"], "cwd": "…" },
    |                                        ^^^
ostler.json:2:57: mcpServers.a.args: write ${NAME}, ${NAME:-default} or ${env:NAME}; a `${` that is no variable is written as `$${`
  2 |   "a": { "command": "…", "args": ["…", "…", "…"], "cwd": "…" },
    |                                             ^^^
ostler.json:2:81: mcpServers.a.cwd: it holds a NUL, which no process can be given
  2 | …"command": "…", "args": ["…", "…", "…"], "cwd": "…" },
    |                                                  ^^^
ostler.json:3:21: mcpServers.b.command: there is no program in it
  3 |   "b": { "command": "…" }
    |                     ^^^
"#
    no_comma: r#"
{ "mcpServers": { "a": { "command": "x", "env": { "TOKEN": "s3cret" "OTHER": "s3cret" } } } }
"# => r#"
ostler.json:1:68: expected comma
  1 | …: { "a": { "command": "…", "env": { "TOKEN": "…" "…": "…" } } } }
    |                                                  ^
"#
    no_quotes: r#"
{ "mcpServers": { "a": { "env": { "TOKEN": s3cret } } } }
"# => r#"
ostler.json:1:44: unexpected word
  1 | { "mcpServers": { "a": { "env": { "TOKEN": … } } } }
    |                                            ^
"#
    no_end: r#"
{ "mcpServers": { "a": { "env": { "TOKEN": "s3cret
"# => r#"
ostler.json:1:44: unterminated string literal
  1 | { "mcpServers": { "a": { "env": { "TOKEN": "…"
    |                                            ^^^
"#
    nothing: "// only a comment" => r"
ostler.json:1:1: there is nothing in it
  1 | // …
    | ^^^^
"
    not_an_object: "[1, 2]" => r"
ostler.json:1:1: expected an object, found a list
  1 | […, …]
    | ^^^^^^
"
}

#[test]
fn depth_is_bounded() {
    let deep = format!(r#"{{"mcpServers": {}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    assert!(complaint(&deep).contains("maximum nesting depth exceeded"), "{}", complaint(&deep));
}

#[test]
fn errors_beyond_the_limit_are_counted() {
    let keys: Vec<String> = (0..1000).map(|key| format!(r#""k{key}": 1"#)).collect();
    let said = complaint(&format!("{{{}}}", keys.join(",\n")));
    assert!(said.ends_with("\nostler.json: 800 more"), "{said}");
}

#[test]
fn no_error_contains_a_control_character() {
    let said = complaint("{\"\u{1b}[31m\": 1, \"mcpServers\": {\"\\u001b[2J\": {\"command\": 1}}}");
    assert!(!said.contains('\u{1b}'), "{said:?}");
}

#[test]
fn keys_of_other_clients_are_accepted_with_a_notice() {
    let file = file(
        r#"{"mcpServers": {"a": {"command": "x", "autoApprove": [], "trust": true, "timeout": 60,
            "env": {"TOKEN": "$TOKEN"}, "inheritEnv": ["HOME"]}}, "inputs": []}"#,
    );
    let expected = [
        "mcpServers.a.autoApprove: ignored: only another client uses it",
        "mcpServers.a.trust: ignored: only another client uses it",
        "mcpServers.a.timeout: taken as `callTimeout`: \"60s\"",
        "mcpServers.a.env.TOKEN: passed on as it is; a variable is written as ${NAME}",
        "inputs: ostler does not prompt; use variables instead of ${input:...}",
        "mcpServers.a: without PATH the command is not found; `$default` has it",
    ];
    assert_eq!(notices(&file), expected);
    let shown = file.notices[0].in_file("ostler.json").to_string();
    assert!(shown.starts_with("ostler.json:1:39: mcpServers.a.autoApprove: ignored"), "{shown}");
}

#[test]
fn no_error_contains_a_secret() {
    let everything = include_str!("errors.rs");
    let complaints =
        everything.split("\"# => r#\"").skip(1).filter_map(|text| text.split("\"#").next());
    for complaint in complaints {
        assert!(!complaint.contains("s3cret"), "{complaint}");
    }
}
