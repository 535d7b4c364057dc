//! From what was read to what it means: what does not go together is wrong.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Duration;

use jsonc_parser::common::Range;
use ostler::keeper::{Caps, ServerLimits};
use ostler::{Limits, Resources};

use super::entry::{Carrier, File, Launch, OAuth, PinnedIssuer, Reach, Remote, ServerEntry, Tools};
use super::environment::{DEFAULTS, Names};
use super::form::{CapsForm, FileForm, LimitsForm, Named, OAuthForm, ServerForm, ToolsForm};
use super::reader::{At, Reader};
use super::template::Template;
use super::tokens;
use super::unbuilt;
use super::values::SomeTime;
use super::words::{Share, Transport};

/// How many instances of a server there may be for those who share it.
const MAX_INSTANCES: NonZeroUsize = NonZeroUsize::MIN.saturating_add(3);

/// Said about a client secret without an issuer.
const NO_ISSUER: &str = "write `issuer` beside it: the url of the authorization server that this secret is for, and the only one that gets it";

/// The longest name of a server, in bytes.
const LONGEST_NAME: usize = 128;

/// A configuration in a file of this directory.
pub(super) fn file(form: FileForm, directory: &Path, reader: &mut Reader<'_>) -> File {
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
            if let Some(entry) = server(named, directory, reader) {
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
    let tokens = form.tokens.map(|at| tokens::settle(at.value, reader)).unwrap_or_default();
    File { servers, caps, detach_timeout, agent_timeout, tokens, notices: Vec::new() }
}

fn check_name(name: &str, key: Range, reader: &mut Reader<'_>) {
    if name.trim().is_empty() || name.len() > LONGEST_NAME || name.contains(char::is_control) {
        let message =
            format!("a server's name has 1 to {LONGEST_NAME} characters that can be seen");
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

fn server(named: Named, directory: &Path, reader: &mut Reader<'_>) -> Option<ServerEntry> {
    let Named { name, key, mut form, is_whole, .. } = named;
    unbuilt::server(&form, reader);
    let limits = limits(&form);
    let tools = tools(&mut form, reader);
    let enabled = form.enabled.as_ref().is_none_or(|at| at.value);
    // What a session at the other end remembers is one client's own, unless its owner says otherwise.
    let usual = if form.url.is_some() { Share::Session } else { Share::default() };
    let share = form.share.as_ref().map_or(usual, |at| at.value);
    let max_instances = form.max_instances.as_ref().map_or(MAX_INSTANCES, |at| at.value);
    let max_concurrency = form.max_concurrency.as_ref().map(|at| at.value);
    let era = form.era.as_ref().map(|at| at.value).unwrap_or_default();
    let reach = reach(form, key, is_whole, directory, reader)?;
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

/// What only one of two keys may say.
fn one_of<T>(own: Option<At<T>>, other: Option<At<T>>, reader: &mut Reader<'_>) -> Option<At<T>> {
    if let (Some(_), Some(other)) = (&own, &other) {
        reader.wrong_key(other.key, "another key has said this already");
    }
    own.or(other)
}

fn reach(
    form: ServerForm,
    key: Range,
    is_whole: bool,
    directory: &Path,
    reader: &mut Reader<'_>,
) -> Option<Reach> {
    match (form.command.is_some(), &form.url) {
        (true, None) => launch(form, directory, reader).map(Reach::Process),
        (false, Some(_)) => remote(form, directory, reader).map(Reach::Remote),
        (true, Some(url)) => {
            reader.wrong_key(url.key, "a server has a `command` or a `url`, and not both");
            None
        }
        (false, None) => {
            // If some of it could not be read, it may have had one.
            if is_whole {
                reader.wrong_word(key, "it has neither a `command` nor a `url`");
            }
            None
        }
    }
}

fn launch(form: ServerForm, directory: &Path, reader: &mut Reader<'_>) -> Option<Launch> {
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
    let inherit =
        said.as_ref().map_or_else(Names::inherited, |said| Names::inheriting(&said.value));
    if let Some(said) = &said {
        check_inherited(said, reader);
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
        directory: directory.to_owned(),
        cwd: form.cwd.map(|at| at.value),
        inherit,
        grace: form.grace.map_or(Limits::default().grace, |at| at.value.0),
        resources: form.limits.map(|at| resources(&at.value)).unwrap_or_default(),
        engine: form.engine.map(|at| at.value).unwrap_or_default(),
        containment: form.containment.map(|at| at.value).unwrap_or_default(),
    })
}

fn check_inherited(said: &At<Vec<String>>, reader: &mut Reader<'_>) {
    let is_name = |name: &String| !name.is_empty() && !name.contains(['=', '\0']);
    if !said.value.iter().all(is_name) {
        reader.wrong(said.range, "inherited variables are named; values go into `env`");
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

fn remote(form: ServerForm, directory: &Path, reader: &mut Reader<'_>) -> Option<Remote> {
    for key in process_keys(&form) {
        reader.wrong_key(key, "is for servers with a `command`, and this one has a `url`");
    }
    let url = form.url?;
    check_scheme(&url, reader);
    let carrier = match form.transport.map(|at| (at.value, at.range)) {
        None if form.adopted.is_http => Carrier::Http,
        None => Carrier::Any,
        Some((Transport::Http, _)) => Carrier::Http,
        Some((Transport::Sse, _)) => Carrier::Sse,
        Some((Transport::Stdio, range)) => {
            reader.wrong_word(range, "a server with a `url` is not reached by stdio");
            Carrier::Any
        }
    };
    let mut headers = form.headers.map(|at| at.value.0).unwrap_or_default();
    for (key, name, value) in form.adopted.headers {
        if headers.insert(name, value).is_some() {
            reader.wrong_key(key, "another key has said this already");
        }
    }
    if let Some(file) = &form.bearer_token_file
        && headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"))
    {
        reader.wrong_key(file.key, "another key has said this already");
    }
    Some(Remote {
        url: url.value,
        headers,
        token_file: form.bearer_token_file.map(|at| at.value),
        directory: directory.to_owned(),
        oauth: form
            .oauth
            .map(|at| reader.within("oauth", |reader| oauth(at.value, reader)))
            .unwrap_or_default(),
        carrier,
    })
}

fn check_scheme(url: &At<Template>, reader: &mut Reader<'_>) {
    let has_scheme = |text: &str| text.starts_with("http://") || text.starts_with("https://");
    if url.value.beginning().is_some_and(|beginning| !has_scheme(beginning)) {
        reader.wrong(url.range, "its url has to begin with http:// or https://");
    }
}

fn oauth(form: OAuthForm, reader: &mut Reader<'_>) -> OAuth {
    match (&form.issuer, &form.client_secret) {
        (Some(issuer), _) => reader.within("issuer", |reader| check_scheme(issuer, reader)),
        // A remote server can name any issuer, so it must not choose the one that gets the secret.
        (None, Some(secret)) => reader.wrong_key(secret.key, NO_ISSUER),
        (None, None) => {}
    }
    let client_secret = form.client_secret.map(|at| at.value);
    OAuth {
        client_id: form.client_id.map(|at| at.value),
        issuer: form.issuer.map(|at| PinnedIssuer { name: at.value, client_secret }),
        scopes: form.scopes.map(|at| at.value),
        callback_port: form.callback_port.map(|at| at.value.get()),
    }
}

/// The keys that say something about a process.
fn process_keys(form: &ServerForm) -> impl Iterator<Item = Range> {
    let keys = [
        form.args.as_ref().map(|at| at.key),
        form.env.as_ref().map(|at| at.key),
        form.env_file.as_ref().map(|at| at.key),
        form.cwd.as_ref().map(|at| at.key),
        form.inherit_env.as_ref().map(|at| at.key),
        form.adopted.inherit.as_ref().map(|at| at.key),
        form.limits.as_ref().map(|at| at.key),
        form.engine.as_ref().map(|at| at.key),
        form.containment.as_ref().map(|at| at.key),
        form.grace.as_ref().map(|at| at.key),
    ];
    keys.into_iter().flatten()
}
