//! Settings with a fixed set of values.

use std::fmt;

use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged;
use ostler::keeper::Sharing;
use ostler::{Containment, Level};
use schemars::JsonSchema;
use serde::Serialize;

use super::reader::{Reader, Setting, nearest};

/// Defines an enum whose values are written as their first word in a file and accepted as any of their words.
macro_rules! words {
    ($($(#[$meta:meta])* enum $name:ident {
        $($(#[$variant_meta:meta])* $variant:ident = $word:literal $(| $other:literal)*,)*
    })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
        #[schemars(inline)]
        pub enum $name {
            $($(#[$variant_meta])* #[serde(rename = $word)] $variant,)*
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self { $(Self::$variant => $word,)* })
            }
        }

        impl Setting for $name {
            fn read(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Self> {
                let text = String::read(value, reader)?;
                match text.as_str() {
                    $($word $(| $other)* => Some(Self::$variant),)*
                    _ => {
                        choose(value, &text, &[$($word),*], reader);
                        None
                    }
                }
            }
        }
    )*};
}

words! {
    /// The sessions that may use one instance.
    enum Share {
        /// All sessions.
        All = "all",
        /// All sessions of one agent.
        #[default]
        Agent = "agent",
        /// One session.
        Session = "session",
        /// One call: each gets a fresh one.
        Call = "call",
    }

    /// The engine whose containers belong to the server that causes them.
    enum Engine {
        /// The one that the server's own command would use.
        #[default]
        Auto = "auto",
        /// Docker's.
        Docker = "docker",
        /// Podman's.
        Podman = "podman",
        /// None: for servers that manage the user's own containers.
        Off = "off",
    }

    /// How firmly it is held at least.
    enum Hold {
        /// As firmly as this machine allows.
        #[default]
        Auto = "auto",
        /// By a guardian.
        Tree = "tree",
        /// By a guardian and a cgroup.
        Leaf = "leaf",
        /// By a guardian and a PID namespace.
        Strict = "strict",
    }

    /// Which generation of the protocol it speaks.
    enum Era {
        /// Whatever it answers to.
        #[default]
        Auto = "auto",
        /// The one with a handshake.
        Legacy = "legacy",
        /// The one without.
        Modern = "modern",
    }

    /// How its messages travel.
    enum Transport {
        /// Through the pipes of a process.
        #[default]
        Stdio = "stdio" | "local",
        /// By HTTP, as a stream if need be.
        Http = "http" | "streamable-http" | "streamableHttp" | "streamable_http" | "remote",
        /// By HTTP, with a stream of events beside it.
        Sse = "sse",
    }
}

fn choose(value: &Value<'_>, text: &str, words: &[&str], reader: &mut Reader<'_>) {
    let hint = nearest(text, words).map(|near| format!("; did you mean `{near}`?"));
    let message = format!("choose one of {}{}", words.join(", "), hint.unwrap_or_default());
    reader.wrong_word(value.range(), &message);
}

impl From<Share> for Sharing {
    fn from(share: Share) -> Self {
        match share {
            Share::All => Self::All,
            Share::Agent => Self::Agent,
            Share::Session => Self::Session,
            Share::Call => Self::Call,
        }
    }
}

impl From<Engine> for ostler::Engine {
    fn from(engine: Engine) -> Self {
        match engine {
            Engine::Auto => Self::Auto,
            Engine::Docker => Self::Docker,
            Engine::Podman => Self::Podman,
            Engine::Off => Self::Off,
        }
    }
}

impl From<Hold> for Containment {
    fn from(hold: Hold) -> Self {
        match hold {
            Hold::Auto => Self::Auto,
            Hold::Tree => Self::AtLeast(Level::Tree),
            Hold::Leaf => Self::AtLeast(Level::Leaf),
            Hold::Strict => Self::AtLeast(Level::Strict),
        }
    }
}
