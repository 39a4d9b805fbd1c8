//! The names in a certificate.

use std::net::IpAddr;

use config::SubjectName;
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// The Subject Alternative Names of a certificate in DER (RFC 5280 §4.2.1.6). The subject's common name is none of
/// them (RFC 9525 §2).
pub(super) fn subject_names(der: &[u8]) -> Vec<SubjectName> {
    let Ok(certificate) = Certificate::from_der(der) else {
        return Vec::new();
    };
    match certificate.tbs_certificate.get::<SubjectAltName>() {
        Ok(Some((_, names))) => names.0.iter().filter_map(name).collect(),
        _ => Vec::new(),
    }
}

fn name(name: &GeneralName) -> Option<SubjectName> {
    match name {
        GeneralName::DnsName(name) => Some(SubjectName::Dns(name.as_str().to_ascii_lowercase())),
        GeneralName::UniformResourceIdentifier(uri) => Some(SubjectName::Uri(uri.as_str().to_owned())),
        GeneralName::Rfc822Name(address) => Some(SubjectName::Email(address.as_str().to_owned())),
        GeneralName::IpAddress(octets) => address(octets.as_bytes()).map(SubjectName::Ip),
        _ => None,
    }
}

fn address(octets: &[u8]) -> Option<IpAddr> {
    let of_4 = <[u8; 4]>::try_from(octets).map(IpAddr::from);
    of_4.or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from))
        .ok()
}
