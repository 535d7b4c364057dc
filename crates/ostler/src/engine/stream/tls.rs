//! Securing a line, as the docker command does.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{self, CryptoProvider};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    self, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};

use crate::containers::Tls;

/// Why a line can't be secured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoTls {
    /// A certificate or key can't be read.
    #[error("{} can't be used: {error}", .path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why not.
        error: pem::Error,
    },
    /// Nothing says who may have signed the engine's certificate.
    #[error("no ca.pem to verify the engine's certificate with")]
    NoAuthority,
    /// The files don't fit together, or there is no such name.
    #[error("TLS can't be set up: {0}")]
    Setup(#[from] rustls::Error),
    /// The other side does not speak it, or is not who it should be.
    #[error("TLS failed: {0}")]
    Handshake(#[from] io::Error),
}

pub(super) async fn secure(
    stream: TcpStream,
    host: &str,
    files: &Tls,
) -> Result<TlsStream<TcpStream>, NoTls> {
    let name = ServerName::try_from(host.to_owned());
    let name = name.map_err(|_| rustls::Error::General(format!("no such host name: {host}")))?;
    let connector = TlsConnector::from(Arc::new(config(files)?));
    Ok(connector.connect(name, stream).await?)
}

fn config(files: &Tls) -> Result<ClientConfig, NoTls> {
    let provider = Arc::new(crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone());
    let builder = builder.with_safe_default_protocol_versions()?;
    let builder = if files.verify {
        builder.with_root_certificates(roots(files.ca.as_deref().ok_or(NoTls::NoAuthority)?)?)
    } else {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider)))
    };
    match (&files.cert, &files.key) {
        (Some(cert), Some(key)) => {
            let own = PrivateKeyDer::from_pem_file(key).map_err(unusable(key))?;
            Ok(builder.with_client_auth_cert(certificates(cert)?, own)?)
        }
        _ => Ok(builder.with_no_client_auth()),
    }
}

fn roots(path: &Path) -> Result<RootCertStore, NoTls> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate)?;
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, NoTls> {
    let all = CertificateDer::pem_file_iter(path).map_err(unusable(path))?;
    all.collect::<Result<_, _>>().map_err(unusable(path))
}

fn unusable(path: &Path) -> impl FnOnce(pem::Error) -> NoTls {
    move |error| NoTls::File { path: path.to_owned(), error }
}

/// For docker's `--tls` without `--tlsverify`: the user has said that anybody may answer.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        crypto::verify_tls12_signature(message, certificate, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        crypto::verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
