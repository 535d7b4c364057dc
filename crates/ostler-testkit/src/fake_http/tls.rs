//! TLS for the fake HTTP server.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::server::TlsStream;

/// A self-signed certificate of the test.
#[derive(Debug)]
pub struct Certificate(tempfile::TempDir);

/// TLS acceptor.
#[derive(Clone)]
pub(super) struct Secured(TlsAcceptor);

impl Certificate {
    /// For this host.
    pub fn new(host: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let new = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
        let mut openssl = Command::new("openssl");
        openssl.args(new.split(' ')).args(["-subj", "/CN=test", "-keyout", "key.pem"]);
        openssl.args(["-out", "ca.pem", "-addext", "basicConstraints=critical,CA:FALSE"]);
        openssl.args(["-addext", &format!("subjectAltName=DNS:{host}")]);
        let made = openssl.current_dir(directory.path()).output().expect("openssl");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Self(directory)
    }

    /// File for `SSL_CERT_FILE`.
    pub fn file(&self) -> PathBuf {
        self.0.path().join("ca.pem")
    }

    pub(super) fn acceptor(&self) -> Secured {
        let cert = CertificateDer::from_pem_file(self.file()).expect("a certificate");
        let key = PrivateKeyDer::from_pem_file(self.0.path().join("key.pem")).expect("a key");
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![cert], key)
            .expect("a pair");
        Secured(TlsAcceptor::from(Arc::new(config)))
    }
}

impl Secured {
    pub(super) async fn accept<S>(&self, stream: S) -> std::io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        self.0.accept(stream).await
    }
}

impl std::fmt::Debug for Secured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secured")
    }
}
