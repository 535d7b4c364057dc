//! Validates the forms that were read, and builds the configuration from them.
//!
//! Keys that exclude each other or need each other are checked here; the type of each value was checked while reading.

mod remote;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use jsonc_parser::common::Range;
use ostler::keeper::{Caps, ServerLimits};
use ostler::visible::is_hidden;
use ostler::{Limits, Resources};

use super::entry::{File, Launch, Reach, ServerEntry, Tools};
use super::form::{CapsForm, FileForm, LimitsForm, Named, ServerForm, ToolsForm};
use super::reader::{At, Reader};
use super::stateful;
use super::tokens;
use super::unbuilt;
use super::values::SomeTime;
use super::words::{Share, Transport};
use crate::environment::{DEFAULTS, Inheritance, Names, OWN};

/// Longest server name, in bytes.
const LONGEST_NAME: usize = 128;

/// Context that all servers of a file share.
struct Common<'a> {
    /// Directory of the configuration file.
    directory: &'a Path,
    /// Variables that no server inherits: ostler's own, and those with the tokens of clients.
    withheld: Names,
}

/// Builds the configuration; `directory` is that of its file.
pub(super) fn file(form: FileForm, directory: &Path, reader: &mut Reader<'_>) -> File {
    let tokens = form.tokens.map(|at| tokens::settle(at.value, reader)).unwrap_or_default();
    let secrets = tokens.iter().flat_map(|entry| entry.token.variables());
    let common = Common { directory, withheld: secrets.chain([OWN]).collect() };
    let own = form.servers.map(|servers| servers.value.0).unwrap_or_default();
    let adopted = form.adopted;
    let mut servers = BTreeMap::new();
    for named in own.into_iter().chain(adopted.servers) {
        let (name, key) = (named.name.clone(), named.key);
        reader.back_at(named.path.clone(), |reader| {
            check_name(&name, key, reader);
            if servers.contains_key(&name) {
                return reader.wrong_word(key, "another server has this name");
            }
            if let Some(entry) = server(named, &common, reader) {
                servers.insert(entry.name.clone(), entry);
            }
        });
    }
    let excluded = adopted.excluded.map(|names| names.value).unwrap_or_default();
    for entry in servers.values_mut() {
        let allowed = adopted.allowed.as_ref().is_none_or(|only| only.value.contains(&entry.name));
        entry.enabled &= allowed && !excluded.contains(&entry.name);
    }
    let caps = form.caps.map_or_else(Caps::default, |caps| self::caps(&caps.value));
    let detach_timeout = form.detach_timeout.map(|at| at.value.0);
    let agent_timeout = form.agent_timeout.map(|at| at.value.0);
    File { servers, caps, detach_timeout, agent_timeout, tokens, notices: Vec::new() }
}

fn check_name(name: &str, key: Range, reader: &mut Reader<'_>) {
    if name.trim().is_empty() || name.len() > LONGEST_NAME || name.contains(is_hidden) {
        let message = format!("a server's name has 1 to {LONGEST_NAME} visible characters");
        reader.wrong_word(key, &message);
    }
}

fn caps(form: &CapsForm) -> Caps {
    let default = Caps::default();
    Caps {
        instances: form.instances.as_ref().map_or(default.instances, |at| at.value.get()),
        containers: form.containers.as_ref().map_or(default.containers, |at| at.value),
        starting: form.starting.as_ref().map_or(default.starting, |at| at.value.get()),
        queue: form.queue.as_ref().map_or(default.queue, |at| at.value),
        queue_timeout: form.queue_timeout.as_ref().map_or(default.queue_timeout, |at| at.value.0),
    }
}

fn server(named: Named, common: &Common<'_>, reader: &mut Reader<'_>) -> Option<ServerEntry> {
    let Named { name, key, mut form, is_whole, .. } = named;
    unbuilt::server(&form, reader);
    let limits = limits(&form);
    let tools = tools(&mut form, reader);
    let enabled = form.enabled.as_ref().is_none_or(|at| at.value);
    let share = form.share.as_ref().map(|at| at.value);
    let max_instances = form.max_instances.as_ref().map(|at| at.value);
    let max_concurrency = form.max_concurrency.as_ref().map(|at| at.value);
    let era = form.era.as_ref().map(|at| at.value).unwrap_or_default();
    let reach = reach(form, key, is_whole, common, reader)?;
    let share = share.unwrap_or_else(|| usual_share(&reach, key, reader));
    Some(ServerEntry {
        name,
        enabled,
        reach,
        tools,
        share,
        max_instances,
        max_concurrency,
        limits,
        era,
    })
}

/// Default of `share`.
fn usual_share(reach: &Reach, key: Range, reader: &mut Reader<'_>) -> Share {
    match reach {
        // A remote session may hold state of one client.
        Reach::Remote(_) => Share::Session,
        Reach::Process(launch) => match stateful::package(launch) {
            Some(package) => {
                let message = format!(
                    "{package} keeps state between calls, so each session gets its own; write `share` to change that"
                );
                reader.notice(key, &message);
                Share::Session
            }
            None => Share::default(),
        },
    }
}

fn limits(form: &ServerForm) -> ServerLimits {
    let default = ServerLimits::default();
    let some =
        |time: &Option<At<SomeTime>>, or: Duration| time.as_ref().map_or(or, |at| at.value.0);
    ServerLimits {
        idle: form.idle_timeout.as_ref().map_or(default.idle, |at| at.value.0),
        start: some(&form.start_timeout, default.start),
        call: some(&form.call_timeout, default.call),
        drain: form.drain_timeout.as_ref().map_or(default.drain, |at| at.value.0),
        ..default
    }
}

fn tools(form: &mut ServerForm, reader: &mut Reader<'_>) -> Tools {
    let ToolsForm { allow, deny, .. } = form.tools.take().map(|at| at.value.0).unwrap_or_default();
    let allow = one_of(allow, form.adopted.allow.take(), reader);
    let deny = one_of(deny, form.adopted.deny.take(), reader);
    let names = |at: At<Vec<String>>| at.value.into_iter().collect::<Names>();
    Tools { allow: allow.map(names), deny: deny.map(names).unwrap_or_default() }
}

/// Merges a setting of ostler with the same setting from another client's key; only one may be set.
fn one_of<T>(own: Option<At<T>>, other: Option<At<T>>, reader: &mut Reader<'_>) -> Option<At<T>> {
    if let (Some(_), Some(other)) = (&own, &other) {
        reader.wrong_key(other.key, "another key sets this already");
    }
    own.or(other)
}

fn reach(
    form: ServerForm,
    key: Range,
    is_whole: bool,
    common: &Common<'_>,
    reader: &mut Reader<'_>,
) -> Option<Reach> {
    match (form.command.is_some(), &form.url) {
        (true, None) => launch(form, common, reader).map(Reach::Process),
        (false, Some(_)) => remote::remote(form, common.directory, reader).map(Reach::Remote),
        (true, Some(url)) => {
            reader.wrong_key(url.key, "a server has a `command` or a `url`, and not both");
            None
        }
        (false, None) => {
            // A key that could not be read may have been the `command` or `url`.
            if is_whole {
                reader.wrong_word(key, "needs a `command` or a `url`");
            }
            None
        }
    }
}

fn launch(form: ServerForm, common: &Common<'_>, reader: &mut Reader<'_>) -> Option<Launch> {
    let adopted = form.adopted.headers.iter().map(|(key, ..)| *key);
    let own = [
        form.headers.as_ref().map(|at| at.key),
        form.bearer_token_file.as_ref().map(|at| at.key),
        form.oauth.as_ref().map(|at| at.key),
    ];
    for key in own.into_iter().flatten().chain(adopted) {
        reader.wrong_key(key, "is for servers with a `url`, and this one has a `command`");
    }
    if let Some(At { value: Transport::Http | Transport::Sse, range, .. }) = &form.transport {
        reader.wrong_word(*range, "a server with a `command` is reached by stdio");
    }
    let mut words = form.command?.value.0.into_iter();
    let command = words.next()?;
    let args = words.chain(form.args.map(|at| at.value).unwrap_or_default()).collect();
    let env = form.env.map(|at| at.value.0).unwrap_or_default();
    let said = one_of(form.inherit_env, form.adopted.inherit, reader);
    let inherit = Inheritance::new(said.as_ref().map(|said| &*said.value), &common.withheld);
    if let Some(said) = &said {
        check_inherited(said, &common.withheld, reader);
        let by_name = command.beginning().is_none_or(|program| !program.contains('/'));
        if by_name && !inherit.contains("PATH") && !env.contains_key("PATH") {
            let message = format!("without PATH the command is not found; `{DEFAULTS}` has it");
            reader.notice(said.key, &message);
        }
    }
    Some(Launch {
        command,
        args,
        env,
        env_file: form.env_file.map(|at| at.value),
        directory: common.directory.to_owned(),
        cwd: form.cwd.map(|at| at.value),
        inherit,
        grace: form.grace.map_or(Limits::default().grace, |at| at.value.0),
        resources: form.limits.map(|at| resources(&at.value)).unwrap_or_default(),
        engine: form.engine.map(|at| at.value).unwrap_or_default(),
        containment: form.containment.map(|at| at.value).unwrap_or_default(),
    })
}

fn check_inherited(said: &At<Vec<String>>, withheld: &Names, reader: &mut Reader<'_>) {
    let is_name = |name: &String| !name.is_empty() && !name.contains(['=', '\0']);
    if !said.value.iter().all(is_name) {
        reader.wrong(said.range, "inherited variables are named; values go into `env`");
    }
    for name in said.value.iter().filter(|name| is_name(name) && withheld.contains(name)) {
        let message = format!(
            "{name} is never inherited: it is one of ostler's own variables, or holds a token of clients; if \
             this server needs it, write it into `env`"
        );
        reader.within("inheritEnv", |reader| reader.wrong(said.range, &message));
    }
}

fn resources(form: &LimitsForm) -> Resources {
    Resources {
        memory: form.memory.as_ref().map(|at| at.value.0),
        cpus: form.cpus.as_ref().map(|at| at.value.0),
        pids: form.pids.as_ref().map(|at| at.value),
        containers: form.containers.as_ref().map(|at| at.value),
    }
}
