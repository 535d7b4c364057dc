//! The `initialize` handshake: parameters of a client, and the request that the gateway sends to a server.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use ostler::Frame;
use ostler::keeper::{Demand, Sharing};

use super::message;
use super::roots::RootList;
use super::version;

/// Longest client name that is shown, in characters.
const LONGEST_NAME: usize = 64;

/// Limit in bytes on capabilities and client information together. They become part of an instance's key, and may
/// contain whole images as icons.
const LARGEST: usize = 256 << 10;
/// Name of the roots capability, and key of the roots in a profile.
const ROOTS: &str = "roots";

/// Parameters of a client's `initialize` request.
#[derive(Clone, Debug)]
pub(crate) struct Initialize {
    pub(crate) version: String,
    /// Client capabilities as written: an object.
    pub(crate) capabilities: Bytes,
    /// Client information as written: an object with a name.
    pub(crate) info: Bytes,
    /// Profile for instances that are shared within an agent: the capabilities.
    of_agent: Arc<str>,
    /// Profile for instances of one session: capabilities and client information.
    of_session: Arc<str>,
}

/// Why an `initialize` request is refused before a server sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MalformedInitialize {
    #[error("the parameters of initialize are not an object")]
    Params,
    #[error("protocolVersion is not a string")]
    Version,
    #[error("capabilities is not an object")]
    Capabilities,
    #[error("clientInfo is not an object with a string as its name")]
    ClientInfo,
    #[error("capabilities and clientInfo have more than {LARGEST} bytes")]
    TooLarge,
}

impl Initialize {
    /// Parses an `initialize` request. Missing members have defaults; present ones must have the right type.
    pub(crate) fn read(frame: &Frame) -> Result<Self, MalformedInitialize> {
        if !frame.body().is_empty() && !is_object(frame.body()) {
            return Err(MalformedInitialize::Params);
        }
        let part = |name: &str| message::param(frame, &[name]);
        // Copied, because a slice would keep the whole message in memory for as long as the session lasts.
        let bytes = |edges: Range<usize>| Bytes::copy_from_slice(&frame.bytes()[edges]);
        let version = match part("protocolVersion").map(bytes) {
            Some(text) => {
                serde_json::from_slice(&text).map_err(|_| MalformedInitialize::Version)?
            }
            None => String::new(),
        };
        let capabilities = part("capabilities").map_or(Bytes::from_static(b"{}"), bytes);
        if !is_object(&capabilities) {
            return Err(MalformedInitialize::Capabilities);
        }
        let unknown = Bytes::from_static(br#"{"name":"unknown","version":"0"}"#);
        let info = part("clientInfo").map_or(unknown, bytes);
        let name = message::find(&info, 0..info.len(), &["name"]);
        if name.is_none_or(|name| serde_json::from_slice::<String>(&info[name]).is_err()) {
            return Err(MalformedInitialize::ClientInfo);
        }
        if capabilities.len() + info.len() > LARGEST {
            return Err(MalformedInitialize::TooLarge);
        }
        Ok(Self::new(version::agreed(&version).to_owned(), capabilities, info))
    }

    fn new(version: String, capabilities: Bytes, info: Bytes) -> Self {
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        let said = format!(r#""capabilities":{}"#, text(&capabilities));
        let of_agent = Arc::from(format!("{{{said}}}"));
        let of_session = Arc::from(format!(r#"{{{said},"clientInfo":{}}}"#, text(&info)));
        Self { version, capabilities, info, of_agent, of_session }
    }

    /// A client without capabilities.
    pub(crate) fn plain() -> Self {
        let empty = Bytes::from_static(b"{}");
        Self::new(String::new(), empty.clone(), empty)
    }

    /// Profile that decides what a server lists to this client: its capabilities, unless all clients see the same.
    pub(crate) fn list_profile(&self, sharing: Sharing) -> Arc<str> {
        match sharing {
            Sharing::All => self.profile(Sharing::All),
            Sharing::Agent | Sharing::Session | Sharing::Call => self.profile(Sharing::Agent),
        }
    }

    /// Name of the client.
    pub(crate) fn client_name(&self) -> Option<String> {
        message::text_at(std::str::from_utf8(&self.info).ok()?, &["name"])
    }

    /// Profile that clients have in common if they share an instance. Servers may build their lists from what they
    /// know about their client, so clients with different profiles share no instance.
    pub(crate) fn profile(&self, sharing: Sharing) -> Arc<str> {
        match sharing {
            Sharing::All => Arc::from(""),
            Sharing::Agent => Arc::clone(&self.of_agent),
            Sharing::Session | Sharing::Call => Arc::clone(&self.of_session),
        }
    }
}

impl Initialize {
    /// Whether the client has the roots capability.
    pub(crate) fn has_roots(&self) -> bool {
        has_roots(&self.of_agent)
    }

    /// Demand of a client with these roots on an instance of its agent. The first such client also gets an instance
    /// that was started before any client had told its roots.
    pub(crate) fn demand_with(&self, roots: &RootList) -> Demand {
        let said = self.of_agent.strip_suffix('}').unwrap_or_default();
        let profile = format!(r#"{said},"{ROOTS}":{roots}}}"#);
        let unsettled = Some(Arc::clone(&self.of_agent));
        Demand { unsettled, ..Demand::profile(profile) }
    }

    /// Demand of a client that has not told its roots: an instance of its own.
    pub(crate) fn demand_alone(&self) -> Demand {
        Demand { is_alone: true, ..Demand::profile(Arc::clone(&self.of_session)) }
    }
}

/// Whether clients with this profile have the roots capability.
pub(crate) fn has_roots(profile: &str) -> bool {
    let path = ["capabilities", ROOTS];
    message::find(profile.as_bytes(), 0..profile.len(), &path).is_some()
}

/// Roots of all clients with this profile, if it contains them.
pub(crate) fn roots(profile: &str) -> Option<RootList> {
    let edges = message::find(profile.as_bytes(), 0..profile.len(), &[ROOTS])?;
    profile.get(edges).map(Into::into)
}

fn is_object(json: &[u8]) -> bool {
    json.first() == Some(&b'{')
}

/// The gateway's `initialize` request to a server. It uses the client information of the profile, or the gateway's
/// own.
pub(crate) fn to_server(profile: &str) -> Bytes {
    // A server gets the roots of its clients when it asks for them.
    let said = message::without(Bytes::copy_from_slice(profile.as_bytes()), &[], ROOTS);
    let said = String::from_utf8_lossy(&said);
    let said = said.strip_prefix('{').and_then(|said| said.strip_suffix('}'));
    let said = said.unwrap_or(r#""capabilities":{}"#);
    let own =
        concat!(r#","clientInfo":{"name":"ostler","version":""#, env!("CARGO_PKG_VERSION"), "\"}");
    let is_named = message::find(profile.as_bytes(), 0..profile.len(), &["clientInfo"]).is_some();
    let own = if is_named { "" } else { own };
    let latest = version::LATEST;
    Bytes::from(format!(
        r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{latest}",{said}{own}}}}}"#
    ))
}

/// Client name, cut to `LONGEST_NAME` characters for display.
pub(crate) fn client_name(info: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Info {
        name: String,
    }
    let Info { name } = serde_json::from_slice(info).ok()?;
    Some(name.chars().take(LONGEST_NAME).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(params: &str) -> Result<Initialize, MalformedInitialize> {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{params}}}"#);
        Initialize::read(&Frame::parse(text).unwrap())
    }

    #[test]
    fn a_malformed_handshake_is_refused() {
        use MalformedInitialize::{Capabilities, ClientInfo, Params, TooLarge, Version};
        let large = format!(r#"{{"capabilities":{{"x":"{}"}}}}"#, "y".repeat(LARGEST));
        for (params, expected) in [
            ("5", Params),
            ("[]", Params),
            (r#"{"protocolVersion":5}"#, Version),
            (r#"{"protocolVersion":null}"#, Version),
            (r#"{"capabilities":5}"#, Capabilities),
            (r#"{"capabilities":null}"#, Capabilities),
            (r#"{"capabilities":[{}]}"#, Capabilities),
            (r#"{"c\u0061pabilities":"{}"}"#, Capabilities),
            (r#"{"clientInfo":"me"}"#, ClientInfo),
            (r#"{"clientInfo":{}}"#, ClientInfo),
            (r#"{"clientInfo":{"name":5}}"#, ClientInfo),
            (r#"{"clientInfo":{"name":null,"version":"1"}}"#, ClientInfo),
            (&large, TooLarge),
        ] {
            assert_eq!(read(params).unwrap_err(), expected, "{params:.60}");
        }
    }

    #[test]
    fn missing_members_of_a_handshake_have_defaults() {
        let initialize = read("{}").unwrap();
        assert_eq!(
            (&*initialize.version, &initialize.capabilities[..]),
            (version::LATEST, &b"{}"[..])
        );
        let full =
            r#"{"protocolVersion":"2025-06-18","capabilities":{"a":1},"clientInfo":{"name":""}}"#;
        assert_eq!(read(full).unwrap().version, "2025-06-18");
    }

    #[test]
    fn a_server_is_told_our_name_unless_the_profile_has_one() {
        let told = |profile: &str| -> serde_json::Value {
            let initialize = Frame::parse(to_server(profile)).unwrap();
            serde_json::from_slice(initialize.body()).unwrap()
        };
        assert_eq!(told("")["clientInfo"]["name"], "ostler");
        let nested = r#"{"capabilities":{"experimental":{"x":{"clientInfo":{}}}}}"#;
        assert_eq!(told(nested)["clientInfo"]["name"], "ostler");
        let own = r#"{"capabilities":{},"clientInfo":{"name":"me"}}"#;
        assert_eq!(told(own)["clientInfo"]["name"], "me");
    }

    #[test]
    fn roots_are_part_of_the_profile_and_not_of_the_handshake_with_the_server() {
        let initialize = read(r#"{"capabilities":{"roots":{}}}"#).unwrap();
        let demand = initialize.demand_with(&r#"[{"uri":"file:///a"}]"#.into());
        assert_eq!(roots(&demand.profile).as_deref(), Some(r#"[{"uri":"file:///a"}]"#));
        assert_eq!(roots(&initialize.of_agent), None);
        assert!(has_roots(&demand.profile) && has_roots(&initialize.of_session) && !has_roots(""));
        let told = |profile: &str| Frame::parse(to_server(profile)).unwrap();
        assert_eq!(told(&demand.profile).body(), told(&initialize.of_agent).body());
    }
}
