//! TLS certificate of the gateway, and connections that use it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig, crypto};
use tokio_rustls::server::TlsStream;

use crate::mutex::lock;

/// ALPN protocols, the preferred one first.
const PROTOCOLS: [&[u8]; 2] = [b"http/1.1", b"http/1.0"];

/// A certificate and its private key, from files that can be read again.
pub struct TlsIdentity {
    certificate: PathBuf,
    key: PathBuf,
    current: Mutex<Arc<ServerConfig>>,
}

/// Reason why a certificate can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsIdentityError {
    /// A file can't be read, or is not PEM.
    #[error("{} can't be used", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: pem::Error,
    },
    /// The PEM file has no certificate.
    #[error("there is no certificate in {}", .0.display())]
    NoCertificate(PathBuf),
    /// The certificate and the key can't be used together.
    #[error("{} and {} can't be used together", certificate.display(), key.display())]
    Pair {
        /// The certificate file.
        certificate: PathBuf,
        /// The key file.
        key: PathBuf,
        /// The cause.
        source: rustls::Error,
    },
}

impl TlsIdentity {
    /// Reads both PEM files: a certificate with its chain, and its private key.
    pub fn read(certificate: PathBuf, key: PathBuf) -> Result<Self, TlsIdentityError> {
        let current = Mutex::new(load(&certificate, &key)?);
        Ok(Self { certificate, key, current })
    }

    /// Reads both files again. Keeps the present certificate if they can't be used.
    pub(crate) fn renew(&self) -> Result<(), TlsIdentityError> {
        let new = load(&self.certificate, &self.key)?;
        *lock(&self.current) = new;
        Ok(())
    }

    /// Performs the TLS handshake of a connection.
    pub(crate) async fn secure(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let current = Arc::clone(&lock(&self.current));
        TlsAcceptor::from(current).accept(stream).await
    }
}

impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("TlsIdentity");
        shown.field("certificate", &self.certificate).field("key", &self.key);
        shown.finish_non_exhaustive()
    }
}

fn load(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsIdentityError> {
    let unusable = |path: &Path| {
        let path = path.to_owned();
        move |source| TlsIdentityError::File { path, source }
    };
    let chain = CertificateDer::pem_file_iter(certificate).map_err(unusable(certificate))?;
    let chain: Vec<_> = chain.collect::<Result<_, _>>().map_err(unusable(certificate))?;
    if chain.is_empty() {
        return Err(TlsIdentityError::NoCertificate(certificate.to_owned()));
    }
    let secret = PrivateKeyDer::from_pem_file(key).map_err(unusable(key))?;
    let provider = Arc::new(crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, secret));
    let mut config = config.map_err(|source| {
        let (certificate, key) = (certificate.to_owned(), key.to_owned());
        TlsIdentityError::Pair { certificate, key, source }
    })?;
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).into();
    Ok(Arc::new(config))
}
