//! The keys of the configuration file. Both the reader and the JSON Schema are generated from this list.
//!
//! The doc comments of the keys are the descriptions in the schema that `ostler schema` prints.

use std::collections::BTreeMap;
use std::num::{NonZeroU16, NonZeroU32, NonZeroU64, NonZeroUsize};

use jsonc_parser::ast::{ObjectProp, Value};
use jsonc_parser::common::{Range, Ranged};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::clients::{Adopt, AdoptedByFile, AdoptedByServer};
use super::maps::{Headers, Variables};
use super::reader::{At, Reader, Setting, name_of};
use super::template::Template;
use super::tokens::TokensForm;
use super::values::{Memory, Processors, SomeTime, Time, TimeOrNever};
use super::words::{Engine, Era, Hold, Share, Transport};

/// An object with a fixed set of keys.
pub(super) trait Form: Adopt + Default {
    /// The known keys.
    const KEYS: &'static [&'static str];

    /// Reads a property if its key is known. Returns whether it is.
    fn put(&mut self, property: &ObjectProp<'_>, reader: &mut Reader<'_>) -> bool;
}

/// Reads an object. Unknown keys are problems.
fn read<F: Form>(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<F> {
    let mut form = F::default();
    for property in reader.properties(value)? {
        let name = name_of(property);
        reader.within(name, |reader| {
            if !form.put(property, reader) && !form.adopt(property, reader) {
                reader.unknown(property.name.range(), name, F::KEYS, F::OTHERS);
            }
        });
    }
    Some(form)
}

/// Defines forms: structs with a field, a type and a key for each setting. `also` names the type that holds values from
/// other clients' keys without a corresponding key here.
macro_rules! forms {
    ($($(#[$meta:meta])* struct $name:ident $(also $also:ty)? {
        $($(#[$field_meta:meta])* $field:ident: $kind:ty = $key:literal,)*
    })*) => {$(
        #[derive(Debug, Default, JsonSchema)]
        #[schemars(deny_unknown_fields)]
        $(#[$meta])*
        pub(super) struct $name {
            $($(#[$field_meta])* #[schemars(rename = $key)] pub(super) $field: Option<At<$kind>>,)*
            $(#[schemars(skip)]
            pub(super) adopted: $also,)?
        }

        impl Form for $name {
            const KEYS: &'static [&'static str] = &[$($key),*];

            fn put(&mut self, property: &ObjectProp<'_>, reader: &mut Reader<'_>) -> bool {
                let key = property.name.range();
                match name_of(property) {
                    $($key => reader.fill(&mut self.$field, key, &property.value),)*
                    _ => return false,
                }
                true
            }
        }

        impl Setting for $name {
            fn read(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Self> {
                read(value, reader)
            }
        }
    )*};
}

forms! {
    /// The configuration of ostler: MCP servers, and how they are run and shared.
    #[schemars(title = "ostler.json")]
    struct FileForm also AdoptedByFile {
        /// Where editors find the schema of this file.
        schema: String = "$schema",
        /// The servers, by name, as in the configuration of any client.
        servers: ServersForm = "mcpServers",
        /// How much there may be of everything.
        caps: CapsForm = "caps",
        /// How long a client on HTTP may be away before its session's servers end [default: 10s].
        detach_timeout: Time = "detachTimeout",
        /// How long servers of an agent that no one named stay after its last session [default: 30s].
        agent_timeout: Time = "agentTimeout",
        /// Tokens of clients on HTTP, by name, beside the one that is always there.
        tokens: TokensForm = "tokens",
    }

    /// What lets clients on HTTP in.
    #[schemars(rename = "Token")]
    struct TokenForm {
        /// The token itself, best as a variable of the gateway's environment.
        token: Template = "token",
        /// The agent that its clients belong to [default: what they say].
        agent: String = "agent",
        /// The servers that they may use, by names or patterns [default: all].
        servers: Vec<String> = "servers",
        /// How much they may use of the gateway, together.
        limits: QuotasForm = "limits",
    }

    /// How much the clients of a token may use of the gateway, together; beyond it they get 429.
    #[schemars(inline)]
    struct QuotasForm {
        /// Sessions at one time [default: as many as others leave].
        sessions: NonZeroUsize = "sessions",
        /// Requests that are not answered yet [default: 256 for each session].
        requests: NonZeroUsize = "requests",
        /// Requests in a minute, all of which may come at once [default: any number].
        requests_per_minute: NonZeroU32 = "requestsPerMinute",
        /// What their requests that wait may have in all, as 16MiB [default: 128MiB].
        waiting_bytes: Memory = "waitingBytes",
    }

    /// One server: either a command to run or a url to reach.
    #[schemars(rename = "Server", extend("not" = {"required": ["command", "url"]}))]
    struct ServerForm also AdoptedByServer {
        /// The program to run.
        command: Command = "command",
        /// Its arguments.
        args: Vec<Template> = "args",
        /// Variables for it. `${VAR}`, `${VAR:-default}` and `${env:VAR}` are filled in.
        env: Variables = "env",
        /// A file with variables for it; a path that is not absolute starts at this file's directory.
        env_file: Template = "envFile",
        /// Its working directory [default: the client's; with `share: all` the gateway's].
        cwd: Template = "cwd",
        /// Where it is reached.
        url: Template = "url",
        /// Headers of every request to it.
        headers: Headers = "headers",
        /// A file that holds a bearer token for it; a path that is not absolute starts at this file's directory.
        bearer_token_file: Template = "bearerTokenFile",
        /// How `ostler login` goes about it, if the server does not say all of it.
        oauth: OAuthForm = "oauth",
        /// How its messages travel [default: what it answers to].
        transport: Transport = "transport",
        /// The variables that it inherits, by names or patterns such as `AWS_*`; `$default` stands for
        /// those that it gets without this key.
        inherit_env: Vec<String> = "inheritEnv",
        /// Whether it is there at all [default: true].
        enabled: bool = "enabled",
        /// Which of its tools are there [default: all].
        tools: Tools = "tools",
        /// Sessions that may use one instance [default: agent; of a server with a `url`: session].
        share: Share = "share",
        /// How many instances those who share may have when all are busy [default: 4].
        max_instances: NonZeroUsize = "maxInstances",
        /// How many calls one instance gets at a time [default: any number].
        max_concurrency: NonZeroUsize = "maxConcurrency",
        /// How long an instance may be unused, or `never` [default: 10m].
        idle_timeout: TimeOrNever = "idleTimeout",
        /// From its start until it is ready [default: 60s].
        start_timeout: SomeTime = "startTimeout",
        /// For a call; progress extends it [default: 10m].
        call_timeout: SomeTime = "callTimeout",
        /// For calls in flight when it has to go [default: 5s].
        drain_timeout: Time = "drainTimeout",
        /// From the first step of stopping it to KILL, in all [default: 1.5s].
        grace: Time = "grace",
        /// How much of the machine it may use [default: any amount].
        limits: LimitsForm = "limits",
        /// The engine whose containers belong to it [default: auto].
        engine: Engine = "engine",
        /// How firmly it is held; where that can't be had, it is not started [default: auto].
        containment: Hold = "containment",
        /// Which generation of the protocol it speaks [default: auto].
        era: Era = "era",
    }

    /// Which of its tools are there, by names or patterns such as `read_*`.
    #[schemars(inline, extend("type" = ["object", "array"]))]
    struct ToolsForm {
        /// Only these [default: all].
        allow: Vec<String> = "allow",
        /// Not these, even if they are allowed [default: none].
        deny: Vec<String> = "deny",
    }

    /// How much of the machine a server and all that it causes may use, together.
    #[schemars(inline)]
    struct LimitsForm {
        /// Memory, as 512MiB; over it, the kernel kills.
        memory: Memory = "memory",
        /// Processor time, as a number of processors.
        cpus: Processors = "cpus",
        /// Processes and threads.
        pids: NonZeroU64 = "pids",
        /// Containers that it may have at one time.
        containers: NonZeroUsize = "containers",
    }

    /// How `ostler login` goes about it, if the server does not say all of it.
    #[schemars(inline)]
    struct OAuthForm {
        /// What this client is called there [default: it registers itself].
        client_id: Template = "clientId",
        /// The secret of that client id; needs `issuer`.
        client_secret: Template = "clientSecret",
        /// The only authorization server that logins may use, and that gets `clientSecret` [default: the one
        /// that the server names].
        issuer: Template = "issuer",
        /// What to ask for [default: what the server suggests].
        scopes: Vec<String> = "scopes",
        /// The port that the browser comes back to, for a client id that is bound to one [default: any].
        callback_port: NonZeroU16 = "callbackPort",
    }

    /// How much there may be of everything.
    #[schemars(inline)]
    struct CapsForm {
        /// Instances of all servers together [default: 64].
        instances: NonZeroUsize = "instances",
        /// Containers that are servers [default: 20].
        containers: usize = "containers",
        /// Instances that are being started at a time [default: 8].
        starting: NonZeroUsize = "starting",
        /// Callers that wait for a start [default: 256].
        queue: usize = "queue",
        /// How long they wait [default: 30s].
        queue_timeout: Time = "queueTimeout",
    }

    /// Which tools are there, as one client writes it.
    #[schemars(inline)]
    struct ToolFilter {
        /// Only these.
        include: Vec<String> = "include",
        /// Not these.
        exclude: Vec<String> = "exclude",
    }
}

/// A server form with its name and place.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) key: Range,
    /// Keys down to the server.
    pub(super) path: Vec<String>,
    pub(super) form: ServerForm,
    /// Whether the form was read without problems.
    pub(super) is_whole: bool,
}

/// Servers by name.
#[derive(Debug, Default)]
pub(super) struct ServersForm(pub(super) Vec<Named>);

impl Named {
    /// Reads a property that is a server.
    pub(super) fn read(property: &ObjectProp<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let (name, key) = (name_of(property), property.name.range());
        reader.within(name, |reader| {
            let found = reader.found();
            let form = ServerForm::read(&property.value, reader)?;
            let (path, is_whole) = (reader.path(), reader.found() == found);
            Some(Self { name: name.to_owned(), key, path, form, is_whole })
        })
    }
}

impl Setting for ServersForm {
    fn read(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let properties = reader.properties(value)?;
        Some(Self(properties.into_iter().filter_map(|one| Named::read(one, reader)).collect()))
    }
}

impl JsonSchema for ServersForm {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Servers".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        BTreeMap::<String, ServerForm>::json_schema(generator)
    }
}

/// A program; some clients write it as a list with its arguments.
#[derive(Debug, JsonSchema)]
#[schemars(transparent, inline, extend("type" = ["string", "array"]))]
pub(super) struct Command(pub(super) Vec<Template>);

impl Setting for Command {
    fn read(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let words = match value {
            Value::Array(_) => Vec::read(value, reader)?,
            _ => vec![Template::read(value, reader)?],
        };
        if words.first().is_none_or(|program| program.beginning() == Some("")) {
            reader.wrong(value.range(), "there is no program in it");
            return None;
        }
        Some(Self(words))
    }
}

/// Which tools are there; some clients write only the list of those that are.
#[derive(Debug, JsonSchema)]
#[schemars(transparent, inline)]
pub(super) struct Tools(pub(super) ToolsForm);

impl Setting for Tools {
    fn read(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        if let Value::Array(list) = value {
            let allowed = Vec::read(value, reader)?;
            let allow = Some(At { value: allowed, key: list.range, range: list.range });
            return Some(Self(ToolsForm { allow, ..ToolsForm::default() }));
        }
        ToolsForm::read(value, reader).map(Self)
    }
}
