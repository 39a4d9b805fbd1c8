//! The API: checks.

use std::path::PathBuf;

use serde_saphyr::Spanned;

use crate::error::Fault;
use crate::schema::{Config, HttpsConfig};

/// Finds what contradicts something.
pub(crate) fn check(config: &Config) -> Result<(), Fault> {
    let control = &config.control;
    let audit = control.audit.as_ref().map(|audit| &audit.directory);
    for (field, path) in [
        ("token_file", control.token_file.as_ref()),
        ("audit.directory", audit),
    ] {
        path.map_or(Ok(()), |path| absolute(field, path))?;
    }
    control.https.as_ref().map_or(Ok(()), check_https)
}

fn check_https(https: &HttpsConfig) -> Result<(), Fault> {
    absolute("https.certificate", &https.certificate)?;
    absolute("https.key", &https.key)?;
    match &https.client_ca {
        Some(authorities) => absolute("https.client_ca", authorities)?,
        None if !https.clients.is_empty() => {
            let message = "control.https.clients: without `client_ca` no client shows a certificate";
            return Err(Fault::new(&https.certificate, message));
        }
        None => {}
    }
    if let Some(lists) = &https.client_crl {
        absolute("https.client_crl", lists)?;
        if https.client_ca.is_none() {
            let message = "control.https.client_crl: without `client_ca` no client shows a certificate";
            return Err(Fault::new(lists, message));
        }
    }
    for (place, address) in https.addresses.iter().enumerate() {
        if address.port() == 0 || https.addresses.iter().take(place).any(|other| other == address) {
            let why = if address.port() == 0 {
                "has no port"
            } else {
                "is there twice"
            };
            let message = format!("control.https.addresses: {address} {why}");
            return Err(Fault::new(&https.certificate, message));
        }
    }
    for (place, client) in https.clients.iter().enumerate() {
        if https
            .clients
            .iter()
            .take(place)
            .any(|other| other.san == client.san)
        {
            let message = format!("control.https.clients: {} is there twice", client.san);
            return Err(Fault::new(&https.certificate, message));
        }
    }
    Ok(())
}

fn absolute(field: &str, path: &Spanned<PathBuf>) -> Result<(), Fault> {
    if path.value.is_absolute() {
        return Ok(());
    }
    let message = format!("control.{field}: `{}` is no absolute path", path.value.display());
    Err(Fault::new(path, message))
}
