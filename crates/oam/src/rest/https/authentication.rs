//! Who a caller over TLS is: by its token, else by a name in its certificate.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use config::{HttpsClient, SubjectName};
use rustls::pki_types::CertificateDer;

use super::subject_names::subject_names;
use crate::rest::{Caller, PeerAddress, Role};
use crate::tokens::{TokenHash, TokenStore};

/// Octets of what may be a token.
const LONGEST: usize = 256;

/// What a request shows.
pub(super) enum Credentials {
    /// Nothing.
    None,
    /// A valid token.
    Token { caller: Caller, hash: TokenHash },
    /// Something else.
    Wrong,
}

/// Who is known.
pub(super) struct Authentication {
    tokens: Option<Arc<TokenStore>>,
    /// In the order of the configuration.
    clients: Vec<(SubjectName, Role)>,
}

impl Authentication {
    pub(super) fn new(tokens: Option<Arc<TokenStore>>, clients: &[HttpsClient]) -> Self {
        let clients = clients.iter().map(|client| (client.san.clone(), client.role));
        Self {
            tokens,
            clients: clients.collect(),
        }
    }

    /// Who the holder of a certificate is, whose chain TLS has verified. None where the configuration has none of its
    /// names.
    pub(super) fn certified(&self, chain: &[CertificateDer<'_>], address: SocketAddr) -> Option<Caller> {
        let names = subject_names(chain.first()?);
        let (name, role) = self.clients.iter().find(|(name, _)| names.contains(name))?;
        Some(Caller {
            name: name.to_string().into(),
            role: *role,
            address: PeerAddress::Tcp(address),
        })
    }

    /// What a request shows of itself (RFC 6750 §2.1).
    pub(super) fn credentials(&self, headers: &HeaderMap, address: PeerAddress) -> Credentials {
        let mut shown = headers.get_all(AUTHORIZATION).iter();
        let Some(first) = shown.next() else {
            return Credentials::None;
        };
        let token = first.to_str().ok().and_then(|text| {
            let (scheme, token) = text.split_once(' ')?;
            let is_bearer = scheme.eq_ignore_ascii_case("bearer") && token.len() <= LONGEST;
            is_bearer.then_some(token)
        });
        let holder = token
            .filter(|_| shown.next().is_none())
            .zip(self.tokens.as_ref())
            .and_then(|(token, tokens)| tokens.holder(token, SystemTime::now()));
        match holder {
            Some(holder) => Credentials::Token {
                caller: Caller {
                    name: holder.name,
                    role: holder.role,
                    address,
                },
                hash: holder.hash,
            },
            None => Credentials::Wrong,
        }
    }
}
