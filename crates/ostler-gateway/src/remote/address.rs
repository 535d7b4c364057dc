//! Absolute HTTP and HTTPS addresses.

use std::fmt;

use hyper::Uri;

/// An absolute `http` or `https` URL. Its path and query may hold a secret, so `Display` and `Debug` show only the
/// origin.
#[derive(Clone, PartialEq, Eq)]
pub struct Address(Uri);

/// Why a URL is refused. The message omits the URL, which may hold a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAddress {
    /// The text is no URL, or has no host.
    #[error("its url is invalid")]
    NoUrl,
    /// The scheme is neither `http` nor `https`.
    #[error("its url must begin with http:// or https://")]
    Scheme,
    /// The URL contains a user name.
    #[error("its url contains credentials; put them into `headers`")]
    User,
}

impl Address {
    /// Parses an absolute URL.
    pub fn parse(text: &str) -> Result<Self, InvalidAddress> {
        let uri: Uri = text.parse().map_err(|_| InvalidAddress::NoUrl)?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(InvalidAddress::Scheme);
        }
        let authority = uri.authority().ok_or(InvalidAddress::NoUrl)?;
        if authority.as_str().contains('@') {
            return Err(InvalidAddress::User);
        }
        if authority.host().is_empty() {
            return Err(InvalidAddress::NoUrl);
        }
        Ok(Self(uri))
    }

    /// Resolves a URL reference against this address.
    pub fn join(&self, reference: &str) -> Result<Self, InvalidAddress> {
        let reference = reference.split('#').next().unwrap_or_default();
        let (scheme, path) = (self.scheme(), self.0.path());
        let is_absolute = reference.split(['/', '?']).next().is_some_and(|s| s.ends_with(':'));
        let text = if is_absolute {
            reference.to_owned()
        } else if reference.starts_with("//") {
            format!("{scheme}:{reference}")
        } else if reference.starts_with('/') {
            format!("{}{reference}", self.origin())
        } else if reference.starts_with('?') {
            format!("{}{path}{reference}", self.origin())
        } else {
            let directory = path.rfind('/').map_or("/", |end| &path[..=end]);
            format!("{}{directory}{reference}", self.origin())
        };
        Self::parse(&text)
    }

    /// Scheme, lower-case host, and the port unless it is the scheme's default.
    pub fn origin(&self) -> String {
        let (host, port) = (self.host().to_ascii_lowercase(), self.port());
        let is_usual = port == if self.is_secure() { 443 } else { 80 };
        let port = if is_usual { String::new() } else { format!(":{port}") };
        format!("{}://{host}{port}", self.scheme())
    }

    /// The address without query, as an OAuth resource identifier.
    pub fn resource(&self) -> String {
        let path = self.0.path();
        format!("{}{}", self.origin(), if path == "/" { "" } else { path })
    }

    /// Path of the URL.
    pub fn path(&self) -> &str {
        self.0.path()
    }

    /// Whether the scheme is `https`.
    pub fn is_secure(&self) -> bool {
        self.scheme() == "https"
    }

    /// Whether the host is `localhost` or a loopback address.
    pub fn is_loopback(&self) -> bool {
        let host = self.host().trim_matches(['[', ']']);
        host == "localhost"
            || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    pub(super) fn host(&self) -> &str {
        self.0.host().unwrap_or_default()
    }

    pub(super) fn port(&self) -> u16 {
        self.0.port_u16().unwrap_or(if self.is_secure() { 443 } else { 80 })
    }

    pub(super) fn uri(&self) -> &Uri {
        &self.0
    }

    fn scheme(&self) -> &str {
        self.0.scheme_str().unwrap_or_default()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(base: &str, reference: &str) -> String {
        Address::parse(base).unwrap().join(reference).unwrap().0.to_string()
    }

    #[test]
    fn references_lead_where_browsers_go() {
        let base = "http://h:1/a/b?c";
        assert_eq!(joined(base, "/x?y"), "http://h:1/x?y");
        assert_eq!(joined(base, "x"), "http://h:1/a/x");
        assert_eq!(joined(base, "?q=http://o/"), "http://h:1/a/b?q=http://o/");
        assert_eq!(joined(base, "//o/x"), "http://o/x");
        assert_eq!(joined(base, "https://o/x#y"), "https://o/x");
        assert_eq!(joined("http://h", "x"), "http://h/x");
    }

    #[test]
    fn an_origin_is_the_same_however_it_is_written() {
        for (one, other) in [("http://H/a", "http://h:80/b"), ("https://h:443", "https://h/x?y")] {
            assert_eq!(
                Address::parse(one).unwrap().origin(),
                Address::parse(other).unwrap().origin()
            );
        }
        assert_eq!(
            Address::parse("https://h:8443/s3cret?s3cret").unwrap().to_string(),
            "https://h:8443"
        );
    }

    #[test]
    fn invalid_addresses_are_refused_without_being_quoted() {
        for text in ["", "h", "/x", "ftp://h/", "http://", "http://s3cret@h/", "http://u:s3cret@h/"]
        {
            let error = Address::parse(text).unwrap_err();
            assert!(!error.to_string().contains("s3cret"), "{text}");
        }
    }
}
