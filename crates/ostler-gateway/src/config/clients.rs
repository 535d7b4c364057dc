//! Keys of other MCP clients, so that their configurations can be pasted.
//!
//! A key that ostler does not define itself is looked up here. `MAPPED` keys set the corresponding key of ostler,
//! `ELSEWHERE` keys concern only the other client and are ignored with a notice, and `REFUSED` keys are errors, because
//! ignoring them would give a server other than the one its owner expects. `ROOTS` are the keys below which other
//! clients list their servers. Values without a corresponding key are kept in `AdoptedByServer` and `AdoptedByFile`
//! until `settle` merges them.

use std::collections::BTreeMap;

use jsonc_parser::ast::ObjectProp;
use jsonc_parser::common::{Range, Ranged};

use super::client_times::{Milliseconds, Seconds, timeout};
use super::form::{
    CapsForm, FileForm, LimitsForm, Named, OAuthForm, QuotasForm, ServerForm, ServersForm,
    TokenForm, ToolFilter, ToolsForm,
};
use super::reader::{At, Reader, Setting, name_of, put};
use super::template::{Template, is_name};
use crate::environment::DEFAULTS;

/// Keys at the top of the file below which other clients list servers and inputs.
const ROOTS: &[&str] = &[
    "servers",
    "context_servers",
    "mcp_servers",
    "mcp.servers",
    "amp.mcpServers",
    "mcp",
    "inputs",
];

/// Keys of a server that are mapped to keys of ostler.
const MAPPED: &[&str] = &[
    "type",
    "disabled",
    "isActive",
    "serverUrl",
    "httpUrl",
    "http_headers",
    "env_http_headers",
    "bearer_token_env_var",
    "environment",
    "env_vars",
    "workingDirectory",
    "timeout",
    "startup_timeout_sec",
    "startup_timeout_ms",
    "connectionTimeoutMs",
    "tool_timeout_sec",
    "requestTimeoutMs",
    "enabled_tools",
    "enabledTools",
    "includeTools",
    "disabled_tools",
    "disabledTools",
    "excludeTools",
    "toolFilter",
];

/// Keys of a server that concern only the other client and are ignored.
pub(super) const ELSEWHERE: &[&str] = &[
    "alwaysAllow",
    "alwaysLoad",
    "autoApprove",
    "codex",
    "default_tools_approval_mode",
    "description",
    "dev",
    "gallery",
    "icon",
    "iconPath",
    "metadata",
    "name",
    "required",
    "settings",
    "source",
    "supportsParallelToolCalls",
    "supports_parallel_tool_calls",
    "title",
    "trust",
    "version",
];

/// Keys of a server that are errors, each with its message: ostler has no equivalent.
const REFUSED: &[(&str, &str)] = &[
    ("auth", "write `oauth`, with `clientId` and `scopes`, and run `ostler login`"),
    (
        "bearer_token",
        "put it into `headers`, into `bearerTokenFile`, or into a variable that `bearer_token_env_var` names",
    ),
    ("clientCert", "there are no certificates of clients"),
    ("clientKey", "there are no certificates of clients"),
    ("headersHelper", "no command is run to make headers; put a variable into `headers`"),
    ("http_headers_helper", "no command is run to make headers; put a variable into `headers`"),
    ("sandbox", "there is no such sandbox; `containment` and `limits` say what there is"),
    ("sandboxEnabled", "there is no such sandbox; `containment` and `limits` say what there is"),
    ("scopes", "write `oauth`, with `scopes` in it"),
    ("sslVerify", "certificates are always checked"),
];

/// A form that also accepts keys of other clients.
pub(super) trait Adopt {
    /// The keys of other clients that are mapped.
    const OTHERS: &'static [&'static str] = &[];

    /// Reads a property if its key belongs to another client. Returns whether it does.
    fn adopt(&mut self, _: &ObjectProp<'_>, _: &mut Reader<'_>) -> bool {
        false
    }
}

impl Adopt for CapsForm {}
impl Adopt for LimitsForm {}
impl Adopt for OAuthForm {}
impl Adopt for QuotasForm {}
impl Adopt for TokenForm {}
impl Adopt for ToolsForm {}
impl Adopt for ToolFilter {}

impl Adopt for ServerForm {
    const OTHERS: &'static [&'static str] = MAPPED;

    fn adopt(&mut self, property: &ObjectProp<'_>, reader: &mut Reader<'_>) -> bool {
        server(self, property, reader)
    }
}

impl Adopt for FileForm {
    const OTHERS: &'static [&'static str] = ROOTS;

    fn adopt(&mut self, property: &ObjectProp<'_>, reader: &mut Reader<'_>) -> bool {
        file(self, property, reader)
    }
}

/// Values from other clients' keys in a server.
#[derive(Debug, Default)]
pub(super) struct AdoptedByServer {
    /// Headers, each with the range of the key that set it.
    pub(super) headers: Vec<(Range, String, Template)>,
    /// Whether the URL came from `httpUrl`, which implies Streamable HTTP.
    pub(super) is_http: bool,
    pub(super) inherit: Option<At<Vec<String>>>,
    pub(super) allow: Option<At<Vec<String>>>,
    pub(super) deny: Option<At<Vec<String>>>,
}

/// Values from other clients' keys at the top of the file.
#[derive(Debug, Default)]
pub(super) struct AdoptedByFile {
    pub(super) servers: Vec<Named>,
    /// If set, only these servers are enabled.
    pub(super) allowed: Option<At<Vec<String>>>,
    pub(super) excluded: Option<At<Vec<String>>>,
}

/// Reads a key of another client in a server.
fn server(form: &mut ServerForm, property: &ObjectProp<'_>, reader: &mut Reader<'_>) -> bool {
    let (key, name, value) = (property.name.range(), name_of(property), &property.value);
    let adopted = &mut form.adopted;
    match name {
        "type" => reader.fill(&mut form.transport, key, value),
        "disabled" => put(&mut form.enabled, property, reader, |disabled: bool| !disabled),
        "isActive" => reader.fill(&mut form.enabled, key, value),
        "serverUrl" => reader.fill(&mut form.url, key, value),
        "httpUrl" => {
            reader.fill(&mut form.url, key, value);
            adopted.is_http = true;
        }
        "http_headers" => reader.fill(&mut form.headers, key, value),
        "env_http_headers" | "bearer_token_env_var" => headers(adopted, property, reader),
        "environment" => reader.fill(&mut form.env, key, value),
        "env_vars" => put(&mut adopted.inherit, property, reader, with_defaults),
        "workingDirectory" => reader.fill(&mut form.cwd, key, value),
        "timeout" => timeout(form, property, reader),
        "startup_timeout_sec" => put(&mut form.start_timeout, property, reader, |s: Seconds| s.0),
        "startup_timeout_ms" | "connectionTimeoutMs" => {
            put(&mut form.start_timeout, property, reader, |ms: Milliseconds| ms.0);
        }
        "tool_timeout_sec" => put(&mut form.call_timeout, property, reader, |s: Seconds| s.0),
        "requestTimeoutMs" => {
            put(&mut form.call_timeout, property, reader, |ms: Milliseconds| ms.0);
        }
        "enabled_tools" | "enabledTools" | "includeTools" => {
            reader.fill(&mut adopted.allow, key, value);
        }
        "disabled_tools" | "disabledTools" | "excludeTools" => {
            reader.fill(&mut adopted.deny, key, value);
        }
        "toolFilter" => {
            if let Some(filter) = ToolFilter::read(value, reader) {
                filter.include.into_iter().for_each(|at| reader.place(&mut adopted.allow, at));
                filter.exclude.into_iter().for_each(|at| reader.place(&mut adopted.deny, at));
            }
        }
        _ => return dismiss(name, property, reader),
    }
    true
}

/// Reports a key that is ignored or refused. Returns whether it is one.
fn dismiss(name: &str, property: &ObjectProp<'_>, reader: &mut Reader<'_>) -> bool {
    let key = property.name.range();
    if ELSEWHERE.contains(&name) {
        reader.notice(key, "ignored: only another client uses it");
    } else if let Some((_, reason)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
        reader.wrong_word(key, reason);
    } else {
        return false;
    }
    true
}

/// Reads a key of another client at the top of the file.
fn file(form: &mut FileForm, property: &ObjectProp<'_>, reader: &mut Reader<'_>) -> bool {
    let adopted = &mut form.adopted;
    match name_of(property) {
        "servers" | "context_servers" | "mcp_servers" | "mcp.servers" | "amp.mcpServers" => {
            let read = ServersForm::read(&property.value, reader);
            adopted.servers.extend(read.unwrap_or_default().0);
        }
        "mcp" => {
            for inner in reader.properties(&property.value).unwrap_or_default() {
                reader.within(name_of(inner), |reader| mcp(adopted, inner, reader));
            }
        }
        "inputs" => {
            let message = "ostler does not prompt; use variables instead of ${input:...}";
            reader.notice(property.name.range(), message);
        }
        _ => return false,
    }
    true
}

/// Reads a key inside `mcp`, which holds servers by name beside settings for all of them.
fn mcp(adopted: &mut AdoptedByFile, property: &ObjectProp<'_>, reader: &mut Reader<'_>) {
    let (key, value) = (property.name.range(), &property.value);
    match name_of(property) {
        "servers" => {
            adopted.servers.extend(ServersForm::read(value, reader).unwrap_or_default().0);
        }
        "allowed" => reader.fill(&mut adopted.allowed, key, value),
        "excluded" => reader.fill(&mut adopted.excluded, key, value),
        "inputs" => reader.notice(key, "ignored: only another client uses it"),
        "sessionIdleTtlMs" => reader.wrong_word(key, "write `idleTimeout` for each server"),
        _ => adopted.servers.extend(Named::read(property, reader)),
    }
}

fn with_defaults(names: Vec<String>) -> Vec<String> {
    std::iter::once(DEFAULTS.to_owned()).chain(names).collect()
}

/// Reads headers that are given as names of variables.
fn headers(adopted: &mut AdoptedByServer, property: &ObjectProp<'_>, reader: &mut Reader<'_>) {
    let value = &property.value;
    let (named, prefix) = if name_of(property) == "bearer_token_env_var" {
        let variable = String::read(value, reader);
        (variable.map(|variable| [("Authorization".to_owned(), variable)].into()), "Bearer ")
    } else {
        (BTreeMap::<String, String>::read(value, reader), "")
    };
    for (header, variable) in named.unwrap_or_default() {
        if !is_name(&variable) {
            reader.wrong(value.range(), "expected the name of a variable");
        }
        let value = Template::of_variable(prefix, &variable);
        adopted.headers.push((property.name.range(), header, value));
    }
}
