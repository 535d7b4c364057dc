//! A remote server that wants a login, and the issuer it trusts.

use std::sync::mpsc;

use ostler_gateway::remote::RemoteServer;
use ostler_gateway::remote::oauth::{Browser, Login, LoginError, LoginLimits, log_in};
use ostler_testkit::{FakeHttp, FakeIssuer, Manners, get, standard};
use tokio::runtime::Runtime;

use crate::stage::{Stage, settings};

/// A server that requires a login, its issuer, and a directory for logins.
pub(crate) struct Inn {
    pub(crate) issuer: FakeIssuer,
    pub(crate) server: FakeHttp,
    pub(crate) logins: tempfile::TempDir,
}

/// A browser driven by a test.
struct Played<F>(F);

impl<F: FnMut(&str)> Browser for Played<F> {
    fn show(&mut self, url: &str) {
        (self.0)(url);
    }
}

impl Inn {
    pub(crate) fn new(manners: Manners) -> Self {
        let issuer = FakeIssuer::new(manners);
        let server = FakeHttp::new(issuer.guard(standard));
        Self { issuer, server, logins: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn remote(&self) -> RemoteServer {
        RemoteServer::new(settings(&self.server.url("/mcp"), self.logins.path()))
    }

    /// Logs in; `browse` opens the page.
    pub(crate) fn log_in(
        &self,
        browse: impl Fn(&str) + Send + 'static,
    ) -> Result<Login, LoginError> {
        self.log_in_within(&LoginLimits::default(), browse)
    }

    pub(crate) fn log_in_within(
        &self,
        limits: &LoginLimits,
        browse: impl Fn(&str) + Send + 'static,
    ) -> Result<Login, LoginError> {
        log_in_with(&self.remote(), limits, browse)
    }

    pub(crate) fn stage(&self) -> Stage {
        Stage::with(&self.server.url("/mcp"), |settings| {
            settings.store = ostler_gateway::remote::oauth::Store::new(self.logins.path());
        })
    }

    pub(crate) fn files(&self) -> Vec<std::path::PathBuf> {
        let files = std::fs::read_dir(self.logins.path()).unwrap().flatten();
        files.map(|file| file.path()).collect()
    }
}

/// Logs in; `browse` opens the page.
pub(crate) fn log_in_with(
    remote: &RemoteServer,
    limits: &LoginLimits,
    browse: impl Fn(&str) + Send + 'static,
) -> Result<Login, LoginError> {
    let (page, pages) = mpsc::channel::<String>();
    let browse = move || pages.iter().for_each(|url| browse(&url));
    let browser = std::thread::Builder::new().spawn(browse).unwrap();
    let mut played = Played(move |url: &str| page.send(url.to_owned()).unwrap());
    let logged_in = Runtime::new().unwrap().block_on(log_in(remote, &mut played, limits));
    drop(played);
    browser.join().unwrap();
    logged_in
}

pub(crate) fn say_yes(url: &str) {
    let (status, text) = get(url);
    assert_eq!(status, 200, "{text}");
    assert!(text.contains("Logged in"), "{text}");
}
