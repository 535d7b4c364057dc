//! What a request asks of an engine, as far as that matters here.

use super::query::{decoded, parameters};

/// Whose words a request uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Docker,
    Libpod,
}

/// What a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// Makes something that outlives the request, and that a label can mark.
    Create(Thing, Dialect),
    /// Makes an image, which would pass on our labels.
    Image(ImageSource),
    /// Changes a container, perhaps so that the engine revives it.
    Update,
    /// Sets a container going, or a process in one.
    Start,
    /// Readies a process in a container.
    Exec,
    /// Sets a process that was readied going; by its id.
    ExecStart(String),
    /// Makes something that no label of ours would be on, or that goes on elsewhere.
    Unmarkable(&'static str),
    Other,
}

/// What an image is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ImageSource {
    /// A container.
    Commit,
    /// A Dockerfile.
    Build,
    /// An archive of files.
    Import,
}

/// What is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Thing {
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
        let mut words: Vec<&str> = path.split('/').skip(1).collect();
        if words.first().is_some_and(|word| is_version(word)) {
            words.remove(0);
        }
        let dialect = if words.first() == Some(&"libpod") {
            words.remove(0);
            Dialect::Libpod
        } else {
            Dialect::Docker
        };
        match Self::of_words(&words, dialect) {
            // Podman takes it beside the body.
            Self::Update if asks_for_restarts(target) => Self::Unmarkable("a restart policy"),
            // A pull, of which the labels are seen later.
            Self::Image(ImageSource::Import)
                if dialect == Dialect::Docker && !has_source(target) =>
            {
                Self::Other
            }
            route => route,
        }
    }

    fn of_words(words: &[&str], dialect: Dialect) -> Self {
        match (words, dialect) {
            (["containers", "create"], _) => Self::Create(Thing::Container, dialect),
            (["pods", "create"], Dialect::Libpod) => Self::Create(Thing::Pod, dialect),
            (["networks", "create"], _) => Self::Create(Thing::Network, dialect),
            (["volumes", "create"], _) => Self::Create(Thing::Volume, dialect),
            (["commit"], _) => Self::Image(ImageSource::Commit),
            (["build"], _) => Self::Image(ImageSource::Build),
            (["images", "create"], Dialect::Docker) | (["images", "import"], Dialect::Libpod) => {
                Self::Image(ImageSource::Import)
            }
            // Docker's names may have slashes in them: a container has those of its links.
            (["containers", _, .., "update"], _) => Self::Update,
            (["containers" | "pods", _, .., "start" | "restart"], _) => Self::Start,
            (["containers", _, .., "exec"], _) => Self::Exec,
            (["exec", id, "start"], _) => Self::ExecStart((*id).to_owned()),
            (["plugins", _, .., "enable"], Dialect::Docker) => {
                Self::Unmarkable("a plugin of the engine that is enabled")
            }
            (["services", "create"] | ["services", _, "update"], Dialect::Docker) => {
                Self::Unmarkable("a service of a swarm")
            }
            (["swarm", "init" | "join"], Dialect::Docker) => Self::Unmarkable("a swarm"),
            (["secrets" | "configs", "create"], Dialect::Docker) => {
                Self::Unmarkable("a secret or a configuration of a swarm")
            }
            (["play", "kube"] | ["kube", "play" | "apply"], Dialect::Libpod) => {
                Self::Unmarkable("what a Kubernetes file describes")
            }
            (["quadlets", ..], Dialect::Libpod) => {
                Self::Unmarkable("a unit that a service manager starts")
            }
            (["containers", _, "restore"], Dialect::Libpod) => {
                Self::Unmarkable("a container from a checkpoint")
            }
            _ => Self::Other,
        }
    }
}

/// The path that an engine sees: without host and query, and decoded.
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

/// Of the API: `v1.41`, or podman's `v4.0.0`.
fn is_version(word: &str) -> bool {
    word.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn creates_are_seen_under_every_prefix() {
        let container = Route::Create(Thing::Container, Dialect::Docker);
        let cases = [
            ("/containers/create", container.clone()),
            ("/v1.41/containers/create?name=x", container.clone()),
            ("/v1.99/contain%65rs/create", container.clone()),
            ("http://docker/v1.41/containers/create", container),
            ("/v4.0.0/libpod/containers/create", Route::Create(Thing::Container, Dialect::Libpod)),
            ("/libpod/pods/create", Route::Create(Thing::Pod, Dialect::Libpod)),
            ("/v1.41/networks/create", Route::Create(Thing::Network, Dialect::Docker)),
            ("/libpod/volumes/create", Route::Create(Thing::Volume, Dialect::Libpod)),
            ("/v1.41/containers/abc/start", Route::Start),
            ("/containers/a%2Fb/exec", Route::Exec),
            ("/containers/a/b/update", Route::Update),
            ("/containers/abc/exec", Route::Exec),
            ("/v1.41/exec/77/start", Route::ExecStart("77".into())),
            ("/v1.41/containers/abc/update", Route::Update),
            ("/libpod/containers/abc/update?restartPolicy=no", Route::Update),
            (
                "/libpod/containers/abc/update?a=b&restartPolicy=always",
                Route::Unmarkable("a restart policy"),
            ),
            ("/v1.41/services/create", Route::Unmarkable("a service of a swarm")),
            (
                "/plugins/vieux/sshfs:latest/enable?timeout=0",
                Route::Unmarkable("a plugin of the engine that is enabled"),
            ),
            ("/v1.41/plugins/x/disable", Route::Other),
            ("/v5.7.0/libpod/quadlets", Route::Unmarkable("a unit that a service manager starts")),
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
