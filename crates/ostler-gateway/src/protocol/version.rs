//! The versions of the protocol that begin with a handshake.

/// The newest of them, and what we ask servers for.
pub(crate) const LATEST: &str = "2025-11-25";
/// The one that has batches.
pub(crate) const WITH_BATCHES: &str = "2025-03-26";

/// The first, which had another way of speaking HTTP.
pub(crate) const OLDEST: &str = "2024-11-05";

const KNOWN: [&str; 4] = [OLDEST, WITH_BATCHES, "2025-06-18", LATEST];

/// Whether it is one of them. A version from before the first release is met in old clients.
pub(crate) fn is_known(version: &str) -> bool {
    KNOWN.contains(&version) || version == "2024-10-07"
}

/// What a client is answered that asks for `requested`.
pub(crate) fn agreed(requested: &str) -> &str {
    if is_known(requested) { requested } else { LATEST }
}

/// What a client and a server speak that each have asked for one of these: versions are dates, and the older one is
/// known to both.
pub(crate) fn lower<'a>(one: &'a str, other: &'a str) -> &'a str {
    one.min(other)
}
