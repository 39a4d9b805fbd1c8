//! Connections to receivers: TCP, and TLS 1.3 over it.

use std::io;
use std::path::Path;

use config::HostPort;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// What both kinds of connection are.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Connects; over TLS if `is_tls`, to a receiver whose certificate an authority of `ca` has signed.
///
/// # Errors
/// The system's, and those of TLS.
pub(super) async fn connect(at: &HostPort, is_tls: bool, ca: Option<&Path>) -> io::Result<Box<dyn Stream>> {
    let stream = TcpStream::connect((at.host.as_str(), at.port)).await?;
    if !is_tls {
        return Ok(Box::new(stream));
    }
    over_tls(stream, &at.host, ca).await
}

#[cfg(feature = "tls")]
async fn over_tls(stream: TcpStream, host: &str, ca: Option<&Path>) -> io::Result<Box<dyn Stream>> {
    use std::sync::Arc;

    use rustls::crypto::aws_lc_rs;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, ServerName};
    use rustls::{ClientConfig, RootCertStore, version};
    use tokio_rustls::TlsConnector;

    /// The authorities of the system.
    const SYSTEM: &str = "/etc/ssl/certs/ca-certificates.crt";
    /// Octets of a file of authorities, at most.
    const LONGEST: u64 = 4 << 20;

    let path = ca.unwrap_or(Path::new(SYSTEM));
    let octets = config::bounded_file::read(path, LONGEST)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    let mut roots = RootCertStore::empty();
    // Authorities that are not understood are of no use, and no harm.
    for authority in CertificateDer::pem_slice_iter(&octets).flatten() {
        let _ = roots.add(authority);
    }
    if roots.is_empty() {
        let words = format!("{}: has no certificates", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, words));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&version::TLS13])
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    Ok(Box::new(stream))
}

#[cfg(not(feature = "tls"))]
async fn over_tls(_: TcpStream, _: &str, _: Option<&Path>) -> io::Result<Box<dyn Stream>> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "this program was built without TLS",
    ))
}
