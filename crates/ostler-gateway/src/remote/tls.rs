//! TLS configuration: the root certificates that connections trust.

use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};

use super::surroundings::Surroundings;

/// Why there is no TLS configuration.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoTrust {
    /// No usable root certificate was found.
    #[error(
        "no certificate authority is known: {reason}; install the system's certificates, or name a file in SSL_CERT_FILE"
    )]
    NoRoots {
        /// Errors of the certificate loader, or that there were none.
        reason: String,
    },
    /// The TLS library rejected the configuration.
    #[error(transparent)]
    Setup(#[from] rustls::Error),
}

/// Loads root certificates from `SSL_CERT_FILE` and `SSL_CERT_DIR`, or from the system. Blocks on file access.
pub(super) fn config(surroundings: &Surroundings) -> Result<ClientConfig, NoTrust> {
    let (file, directory) = (&surroundings.cert_file, &surroundings.cert_dir);
    let found = if file.is_some() || directory.is_some() {
        rustls_native_certs::load_certs_from_paths(file.as_deref(), directory.as_deref())
    } else {
        rustls_native_certs::load_native_certs()
    };
    let mut roots = RootCertStore::empty();
    // Some systems have a malformed certificate among hundreds.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let reasons: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        let reason = if reasons.is_empty() { "there is none".into() } else { reasons.join(", ") };
        return Err(NoTrust::NoRoots { reason });
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
