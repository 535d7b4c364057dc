//! What of a server a client can use, given with whom it shares it.

use bytes::Bytes;
use ostler::Frame;
use ostler::keeper::Sharing;

use super::message;
use super::params::Found;

/// What a server says that it can do, and what is not to be had of it.
struct Withheld {
    /// Where it is said.
    within: &'static [&'static str],
    name: &'static str,
    from: fn(Sharing) -> bool,
}

const WITHHELD: [Withheld; 2] = [
    // Everybody who shares a server would see them.
    Withheld { within: &["capabilities"], name: "tasks", from: |how| how != Sharing::Session },
    // There is nobody who could be subscribed at.
    Withheld {
        within: &["capabilities", "resources"],
        name: "subscribe",
        from: |how| how == Sharing::Call,
    },
];

/// The answer to a handshake, without what can't be had.
pub(crate) fn offered(sharing: Sharing, result: &Bytes) -> Bytes {
    let mut result = result.clone();
    for withheld in WITHHELD.iter().filter(|withheld| (withheld.from)(sharing)) {
        result = message::without(result, withheld.within, withheld.name);
    }
    result
}

/// Whether a request is for something that is not offered.
pub(crate) fn is_withheld(sharing: impl Fn() -> Sharing, frame: &Frame, found: &Found) -> bool {
    let method = frame.method();
    let subscribes = matches!(method, b"resources/subscribe" | b"resources/unsubscribe");
    let has_task = found.has_task || method.starts_with(b"tasks/");
    // Nearly every call is neither, and need not wait for the lock behind which the sharing is.
    (subscribes && sharing() == Sharing::Call) || (has_task && sharing() != Sharing::Session)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_not_be_had_is_not_offered_and_the_rest_is_as_it_was() {
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
