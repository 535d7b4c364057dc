//! Classifies a request by what it makes the engine do.

use super::query::{decoded, parameters};

/// API of a request: docker's, or podman's own (`/libpod/`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Docker,
    Libpod,
}

/// What a request makes the engine do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// Creates an object that can carry labels.
    Create(ObjectKind, Dialect),
    /// Makes an image, which would hand on our labels to containers.
    Image(ImageSource),
    /// Changes a container, possibly its restart policy.
    Update,
    /// Starts a container or pod.
    Start,
    /// Creates an exec session in a container.
    Exec,
    /// Starts the exec session with this id.
    ExecStart(String),
    /// Creates something that can't carry our labels, or that something else than the engine keeps alive; the text
    /// names it in the denial.
    Unlabelled(&'static str),
    Other,
}

/// What an image is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ImageSource {
    /// A container.
    Commit,
    /// A Dockerfile.
    Build,
    /// An archive of files.
    Import,
}

/// Kind of object that a request creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObjectKind {
    Container,
    Pod,
    Network,
    Volume,
}

impl Route {
    pub(super) fn of(method: &str, target: &str) -> Self {
        if method != "POST" {
            return Self::Other;
        }
        let path = path_of(target);
        let mut segments: Vec<&str> = path.split('/').skip(1).collect();
        if segments.first().is_some_and(|word| is_version(word)) {
            segments.remove(0);
        }
        let dialect = if segments.first() == Some(&"libpod") {
            segments.remove(0);
            Dialect::Libpod
        } else {
            Dialect::Docker
        };
        match Self::of_segments(&segments, dialect) {
            // Podman takes the restart policy from the query.
            Self::Update if asks_for_restarts(target) => {
                Self::Unlabelled("a container with a restart policy")
            }
            // A pull. The labels of a pulled image are inspected when a container is removed.
            Self::Image(ImageSource::Import)
                if dialect == Dialect::Docker && !has_source(target) =>
            {
                Self::Other
            }
            route => route,
        }
    }

    fn of_segments(segments: &[&str], dialect: Dialect) -> Self {
        match (segments, dialect) {
            (["containers", "create"], _) => Self::Create(ObjectKind::Container, dialect),
            (["pods", "create"], Dialect::Libpod) => Self::Create(ObjectKind::Pod, dialect),
            (["networks", "create"], _) => Self::Create(ObjectKind::Network, dialect),
            (["volumes", "create"], _) => Self::Create(ObjectKind::Volume, dialect),
            (["commit"], _) => Self::Image(ImageSource::Commit),
            (["build"], _) => Self::Image(ImageSource::Build),
            (["images", "create"], Dialect::Docker) | (["images", "import"], Dialect::Libpod) => {
                Self::Image(ImageSource::Import)
            }
            // Docker's container names may contain slashes, because of links.
            (["containers", _, .., "update"], _) => Self::Update,
            (["containers" | "pods", _, .., "start" | "restart"], _) => Self::Start,
            (["containers", _, .., "exec"], _) => Self::Exec,
            (["exec", id, "start"], _) => Self::ExecStart((*id).to_owned()),
            (["plugins", _, .., "enable"], Dialect::Docker) => {
                Self::Unlabelled("an enabled plugin of the engine")
            }
            (["services", "create"] | ["services", _, "update"], Dialect::Docker) => {
                Self::Unlabelled("a swarm service")
            }
            (["swarm", "init" | "join"], Dialect::Docker) => Self::Unlabelled("a swarm"),
            (["secrets" | "configs", "create"], Dialect::Docker) => {
                Self::Unlabelled("a swarm secret or config")
            }
            (["play", "kube"] | ["kube", "play" | "apply"], Dialect::Libpod) => {
                Self::Unlabelled("an object of a Kubernetes file")
            }
            (["quadlets", ..], Dialect::Libpod) => Self::Unlabelled("a systemd unit (quadlet)"),
            (["containers", _, "restore"], Dialect::Libpod) => {
                Self::Unlabelled("a container restored from a checkpoint")
            }
            _ => Self::Other,
        }
    }
}

/// The path of a request target as an engine sees it: without host and query, percent-decoded.
fn path_of(target: &str) -> String {
    let target = match target.split_once("://") {
        Some((scheme, rest)) if !scheme.contains(['/', '?']) => {
            rest.find('/').map_or("", |slash| &rest[slash..])
        }
        _ => target,
    };
    decoded(target.split(['?', '#']).next().unwrap_or_default())
}

fn has_source(target: &str) -> bool {
    parameters(target).any(|(name, _)| name == "fromSrc")
}

fn asks_for_restarts(target: &str) -> bool {
    parameters(target).any(|(name, value)| {
        name.eq_ignore_ascii_case("restartPolicy") && !["", "no"].contains(&value.as_str())
    })
}

/// Whether this path segment is an API version: `v1.41`, or podman's `v4.0.0`.
fn is_version(word: &str) -> bool {
    word.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn creates_are_seen_under_every_prefix() {
        let container = Route::Create(ObjectKind::Container, Dialect::Docker);
        let cases = [
            ("/containers/create", container.clone()),
            ("/v1.41/containers/create?name=x", container.clone()),
            ("/v1.99/contain%65rs/create", container.clone()),
            ("http://docker/v1.41/containers/create", container),
            (
                "/v4.0.0/libpod/containers/create",
                Route::Create(ObjectKind::Container, Dialect::Libpod),
            ),
            ("/libpod/pods/create", Route::Create(ObjectKind::Pod, Dialect::Libpod)),
            ("/v1.41/networks/create", Route::Create(ObjectKind::Network, Dialect::Docker)),
            ("/libpod/volumes/create", Route::Create(ObjectKind::Volume, Dialect::Libpod)),
            ("/v1.41/containers/abc/start", Route::Start),
            ("/containers/a%2Fb/exec", Route::Exec),
            ("/containers/a/b/update", Route::Update),
            ("/containers/abc/exec", Route::Exec),
            ("/v1.41/exec/77/start", Route::ExecStart("77".into())),
            ("/v1.41/containers/abc/update", Route::Update),
            ("/libpod/containers/abc/update?restartPolicy=no", Route::Update),
            (
                "/libpod/containers/abc/update?a=b&restartPolicy=always",
                Route::Unlabelled("a container with a restart policy"),
            ),
            ("/v1.41/services/create", Route::Unlabelled("a swarm service")),
            (
                "/plugins/vieux/sshfs:latest/enable?timeout=0",
                Route::Unlabelled("an enabled plugin of the engine"),
            ),
            ("/v1.41/plugins/x/disable", Route::Other),
            ("/v5.7.0/libpod/quadlets", Route::Unlabelled("a systemd unit (quadlet)")),
            ("/v1.41/commit?container=c", Route::Image(ImageSource::Commit)),
            ("/v4.0.0/libpod/commit?container=c", Route::Image(ImageSource::Commit)),
            ("/v1.41/build?x=/containers/create", Route::Image(ImageSource::Build)),
            ("/libpod/build", Route::Image(ImageSource::Build)),
            ("/images/create?fromSrc=-", Route::Image(ImageSource::Import)),
            ("/libpod/images/import", Route::Image(ImageSource::Import)),
            ("/v1.41/images/create?fromImage=i", Route::Other),
            ("/v1.41/images/load", Route::Other),
            ("/v1.41/containers/abc/wait", Route::Other),
            ("/containers/create/", Route::Other),
            ("*", Route::Other),
            ("%", Route::Other),
        ];
        for (target, route) in cases {
            assert_eq!(Route::of("POST", target), route, "{target}");
        }
        assert_eq!(Route::of("GET", "/containers/create"), Route::Other);
    }
}
