//! Protocol versions that begin with an `initialize` handshake.

/// Newest of these versions, which the gateway requests from servers.
pub(crate) const LATEST: &str = "2025-11-25";
/// The only version with batches.
pub(crate) const WITH_BATCHES: &str = "2025-03-26";

/// First version, which had the HTTP+SSE transport.
pub(crate) const OLDEST: &str = "2024-11-05";

const KNOWN: [&str; 4] = [OLDEST, WITH_BATCHES, "2025-06-18", LATEST];

/// Whether the gateway supports a version. Old clients use a version from before the first release.
pub(crate) fn is_known(version: &str) -> bool {
    KNOWN.contains(&version) || version == "2024-10-07"
}

/// Version that the gateway answers to a client that requested this one.
pub(crate) fn agreed(requested: &str) -> &str {
    if is_known(requested) { requested } else { LATEST }
}

/// Older one of two versions, which both a client and a server with these versions speak. Versions are dates.
pub(crate) fn lower<'a>(one: &'a str, other: &'a str) -> &'a str {
    one.min(other)
}
