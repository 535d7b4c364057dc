//! Certificates of one test's own.

use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::server::TlsStream;

/// A certificate that nobody but the test knows.
#[derive(Debug)]
pub struct Certificate {
    cert: String,
    key: String,
    directory: tempfile::TempDir,
}

/// Who secures connections.
#[derive(Clone)]
pub(super) struct Secured(TlsAcceptor);

impl Certificate {
    /// For this host.
    pub fn new(host: &str) -> Self {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed([host.to_owned()]).expect("a certificate");
        let (cert, key) = (cert.pem(), signing_key.serialize_pem());
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("ca.pem"), &cert).expect("a file");
        Self { cert, key, directory }
    }

    /// What has to be in `SSL_CERT_FILE` to trust it.
    pub fn file(&self) -> PathBuf {
        self.directory.path().join("ca.pem")
    }

    pub(super) fn acceptor(&self) -> Secured {
        let cert = CertificateDer::from_pem_slice(self.cert.as_bytes()).expect("a certificate");
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).expect("a key");
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
