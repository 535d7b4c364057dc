//! Server capabilities that a client can't use, because of how its instance is shared.

use bytes::Bytes;
use ostler::keeper::Sharing;

use super::message;

/// Capability that the gateway removes from a server's answer.
struct Withheld {
    /// Path of the object that contains it.
    within: &'static [&'static str],
    name: &'static str,
    from: fn(Sharing) -> bool,
}

const WITHHELD: [Withheld; 2] = [
    // All clients of a shared instance would see each other's tasks.
    Withheld { within: &["capabilities"], name: "tasks", from: |how| how != Sharing::Session },
    // An instance for a single call is gone before it could send an update.
    Withheld {
        within: &["capabilities", "resources"],
        name: "subscribe",
        from: |how| how == Sharing::Call,
    },
];

/// Result of a server's `initialize`, without the capabilities that are withheld.
pub(crate) fn offered(sharing: Sharing, result: &Bytes) -> Bytes {
    let mut result = result.clone();
    for withheld in WITHHELD.iter().filter(|withheld| (withheld.from)(sharing)) {
        result = message::without(result, withheld.within, withheld.name);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unavailable_capabilities_are_removed_and_the_rest_is_unchanged() {
        let said = br#"{"capabilities":{"x":{"b":1.0,"a":2},"tasks":{},"resources":{"subscribe":true,"listChanged":true}},"v":1}"#;
        let said = Bytes::from_static(said);
        assert_eq!(offered(Sharing::Session, &said), said);
        let shared = offered(Sharing::Agent, &said);
        let expected = br#"{"capabilities":{"x":{"b":1.0,"a":2},"resources":{"subscribe":true,"listChanged":true}},"v":1}"#;
        assert_eq!(shared, &expected[..]);
        let single = offered(Sharing::Call, &said);
        let expected =
            br#"{"capabilities":{"x":{"b":1.0,"a":2},"resources":{"listChanged":true}},"v":1}"#;
        assert_eq!(single, &expected[..]);
        assert_eq!(offered(Sharing::All, &Bytes::from_static(b"{}")), &b"{}"[..]);
    }
}
