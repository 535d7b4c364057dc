//! L23: an engine behind TLS, with an authority of the test's own.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::*;
use crate::engine::Tls;

/// A directory with an authority, and certificates that it has signed.
struct Authority(TempDir);

impl Authority {
    fn new() -> Self {
        let authority = Self(tempfile::tempdir().unwrap());
        let new = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority";
        authority.openssl(&format!("{new} -keyout ca.key -out ca.pem"));
        for name in ["engine", "client"] {
            let new = "req -newkey rsa:2048 -nodes -subj";
            authority.openssl(&format!("{new} /CN={name} -keyout {name}.key -out {name}.csr"));
            let extensions =
                "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n";
            std::fs::write(authority.file("extensions"), extensions).unwrap();
            let sign = "x509 -req -days 2 -CA ca.pem -CAkey ca.key -CAcreateserial";
            let files = format!("-in {name}.csr -out {name}.pem -extfile extensions");
            authority.openssl(&format!("{sign} {files}"));
        }
        authority
    }

    fn openssl(&self, line: &str) {
        let mut command = Command::new("openssl");
        let output = command.args(line.split(' ')).current_dir(self.0.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn client(&self) -> Tls {
        let file = |name| Some(self.file(name));
        Tls { ca: file("ca.pem"), cert: file("client.pem"), key: file("client.key"), verify: true }
    }

    /// An engine that only those may ask whom this authority knows.
    fn engine(&self, port: u16) -> Engine {
        let address = format!("tcp://127.0.0.1:{port}");
        let [ca, cert, key] = ["ca.pem", "engine.pem", "engine.key"]
            .map(|name| self.file(name).to_str().unwrap().to_owned());
        let files = ["--tlscacert", &ca, "--tlscert", &cert, "--tlskey", &key];
        Engine::start_with(&[&["--host", &address, "--tlsverify"], &files[..]].concat())
    }
}

#[test]
fn l23_behind_tls_it_is_asked_as_docker_would_ask_it() {
    let (authority, other) = (Authority::new(), Authority::new());
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let scene = Scene::on(authority.engine(port));
    scene.start(&[], &["sleep", "1000"]);
    let removal = |tls: Option<Tls>| {
        let mut removal = scene.removal();
        removal.endpoint = Endpoint::Tcp { host: "127.0.0.1".into(), port, tls };
        removal
    };
    let stranger = other.client();
    let anonymous = Tls { cert: None, key: None, ..authority.client() };
    let without_authority = Tls { ca: None, ..authority.client() };
    let unreadable = Tls { ca: Some("/dev/null/ca.pem".into()), ..authority.client() };
    let strangers = [stranger, anonymous, without_authority, unreadable].map(Some);
    for tls in strangers.into_iter().chain([None]) {
        let mut removal = removal(tls.clone());
        removal.times.limit = Duration::from_millis(500);
        let reason = unreachable_reason(removal.run());
        assert!(!reason.is_empty(), "{tls:?}");
    }
    assert_eq!(scene.left().len(), 1);
    assert_eq!(removal(Some(authority.client())).run(), GONE);
    // Who does not ask for a proof needs no authority that could have given it.
    let careless = Tls { ca: other.client().ca, verify: false, ..authority.client() };
    assert_eq!(removal(Some(careless)).run(), GONE);
    assert_eq!(scene.left(), Vec::<String>::new());
}
