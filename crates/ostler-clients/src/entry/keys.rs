//! Keys of entries.

/// Keys of a command.
pub(super) const COMMANDS: &[&str] = &["command", "cmd"];
/// Keys of variables.
pub(crate) const ENVS: &[&str] = &["env", "environment", "envs"];
/// Keys of names of variables that the client passes on; the last one is ostler's.
pub(super) const INHERIT: &[&str] = &["env_vars", "env_keys", "inheritEnv"];
/// Keys of a working directory.
pub(super) const DIRECTORIES: &[&str] = &["cwd", "workingDirectory"];
/// Keys of an address.
pub(super) const URLS: &[&str] = &["url", "serverUrl", "httpUrl", "uri"];
/// Keys of headers.
pub(crate) const HEADERS: &[&str] = &["headers", "http_headers"];
/// Keys of the only tools that the client uses.
pub(super) const ALLOWED: &[&str] =
    &["enabled_tools", "enabledTools", "includeTools", "available_tools", "tools"];
/// Keys of tools that the client does not use.
pub(super) const DENIED: &[&str] = &["disabled_tools", "disabledTools", "excludeTools"];

/// Keys that `link` sets or removes, and `unlink` brings back.
pub(crate) const OWNED: &[&str] = &[
    "type",
    "command",
    "cmd",
    "args",
    "env",
    "environment",
    "envs",
    "env_vars",
    "env_keys",
    "envFile",
    "cwd",
    "workingDirectory",
    "url",
    "serverUrl",
    "httpUrl",
    "uri",
    "transport",
    "headers",
    "http_headers",
    "env_http_headers",
    "bearer_token_env_var",
];

/// Keys whose meaning is taken over, beside those of [`OWNED`].
pub(super) const UNDERSTOOD: &[&str] = &["disabled", "enabled", "isActive", "toolFilter"];

/// Keys that make it another server, and that ostler has no counterpart of.
pub(super) const REFUSED: &[&str] = &[
    "auth",
    "bearer_token",
    "clientCert",
    "clientKey",
    "headersHelper",
    "http_headers_helper",
    "oauth",
    "sandbox",
    "sandboxEnabled",
    "sslVerify",
];

/// Kinds of entries that are part of a client.
pub(super) const BUILT_IN: &[&str] = &["builtin", "platform", "frontend", "inline_python"];

/// Kinds of entries that are reached and not started.
pub(super) const REMOTE: &[&str] =
    &["http", "sse", "streamable-http", "streamableHttp", "streamable_http", "remote", "ws"];
