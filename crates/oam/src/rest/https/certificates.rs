//! Certificate and key of the listener, the authorities of clients, and what these have revoked: read from files, and
//! again when they change.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::UNIX_EPOCH;

use config::HttpsConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig, version};
use tracing::warn;
use x509_cert::Certificate;
use x509_cert::crl::{CertificateList, TbsCertList};
use x509_cert::der::{Decode, Encode};

/// Octets of a file, at most; lists of revoked certificates may be longer.
const LONGEST: u64 = 1 << 20;
const LONGEST_LISTS: u64 = 16 << 20;

/// Why certificate or key cannot be used: the file and what is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateError(String);

impl CertificateError {
    fn of(path: &Path, why: impl fmt::Display) -> Self {
        Self(format!("{}: {why}", path.display()))
    }
}

impl fmt::Display for CertificateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CertificateError {}

/// A certificate in few words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateSummary {
    subject: String,
    /// Seconds since 1970.
    until: u64,
}

impl CertificateSummary {
    fn of(chain: &[CertificateDer<'_>]) -> Option<Self> {
        let certificate = Certificate::from_der(chain.first()?).ok()?.tbs_certificate;
        Some(Self {
            subject: certificate.subject.to_string(),
            until: certificate.validity.not_after.to_unix_duration().as_secs(),
        })
    }
}

impl fmt::Display for CertificateSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let until = UNIX_EPOCH + std::time::Duration::from_secs(self.until);
        let until = humantime::format_rfc3339_seconds(until);
        write!(f, "`{}`, valid until {until}", self.subject)
    }
}

/// By what it is seen that a file is another.
type Stamp = Option<(u64, u64, i64, i64, u64)>;

fn stamp(path: &Path) -> Stamp {
    let found = fs::metadata(path).ok()?;
    Some((
        found.dev(),
        found.ino(),
        found.mtime(),
        found.mtime_nsec(),
        found.len(),
    ))
}

/// The files.
struct Files {
    certificate: PathBuf,
    key: PathBuf,
    client_ca: Option<PathBuf>,
    client_crl: Option<PathBuf>,
}

impl Files {
    /// How certificate and key look.
    fn of_identity(&self) -> [Stamp; 2] {
        [stamp(&self.certificate), stamp(&self.key)]
    }

    /// How authorities and lists look.
    fn of_verification(&self) -> [Stamp; 2] {
        [&self.client_ca, &self.client_crl].map(|path| path.as_deref().and_then(stamp))
    }

    /// Who verifies clients' certificates: with lists of revoked ones, each authority above the certificate needs a
    /// list, which has to be valid still.
    fn verifier(
        &self,
        path: &Path,
        lists: Vec<CertificateRevocationListDer<'static>>,
    ) -> Result<Arc<dyn ClientCertVerifier>, CertificateError> {
        let mut roots = RootCertStore::empty();
        for authority in certificates(path)? {
            roots
                .add(authority)
                .map_err(|error| CertificateError::of(path, error))?;
        }
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut builder =
            WebPkiClientVerifier::builder_with_provider(roots.into(), provider).allow_unauthenticated();
        if !lists.is_empty() {
            builder = builder.with_crls(lists).enforce_revocation_expiration();
        }
        builder.build().map_err(|error| match (error, &self.client_crl) {
            (VerifierBuilderError::InvalidCrl(why), Some(lists)) => {
                CertificateError::of(lists, format_args!("has a CRL that is not understood: {why:?}"))
            }
            (error, _) => CertificateError::of(path, error),
        })
    }

    fn identity(&self) -> Result<Identity, CertificateError> {
        let (chain, key) = (certificates(&self.certificate)?, private_key(&self.key)?);
        let summary = CertificateSummary::of(&chain)
            .ok_or_else(|| CertificateError::of(&self.certificate, "is no certificate of X.509"))?;
        Ok(Identity { chain, key, summary })
    }

    /// Who verifies clients, and until when what is verified holds.
    fn verification(&self) -> Result<Verification, CertificateError> {
        let lists = self.client_crl.as_deref().map(revocation_lists).transpose()?;
        let Lists { lists, ends, expired } = lists.unwrap_or_default();
        let verifier = match &self.client_ca {
            None => WebPkiClientVerifier::no_client_auth(),
            Some(path) => self.verifier(path, lists)?,
        };
        for authority in expired {
            warn!(
                authority,
                "API CRL expired: no client's certificate of this authority is taken"
            );
        }
        let ends = ends.into();
        Ok(Verification { verifier, ends })
    }

    /// What handshakes are made with.
    fn server_config(
        &self,
        Identity { chain, key, .. }: &Identity,
        verification: &Verification,
    ) -> Result<Arc<ServerConfig>, CertificateError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let of_key = |error: rustls::Error| CertificateError::of(&self.key, error);
        let builder = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&version::TLS13])
            .map_err(of_key)?;
        let mut config = builder
            .with_client_cert_verifier(Arc::clone(&verification.verifier))
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(|error| match error {
                rustls::Error::InconsistentKeys(_) => {
                    let words = format!(
                        "is not the key of the certificate in {}",
                        self.certificate.display()
                    );
                    CertificateError::of(&self.key, words)
                }
                error => of_key(error),
            })?;
        // A resumed connection would keep a client's certificate beyond its time.
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        // HTTP/2 is not served: its streams would be one more thing to bound.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

/// The certificate of the listener, those above it, and its key.
struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    summary: CertificateSummary,
}

/// Who verifies clients' certificates.
#[derive(Clone)]
struct Verification {
    verifier: Arc<dyn ClientCertVerifier>,
    /// When CRLs end, in seconds since 1970.
    ends: Arc<[u64]>,
}

/// The last that could be used.
struct Current {
    config: Arc<ServerConfig>,
    identity: Identity,
    verification: Verification,
}

/// How two files looked when they were read last, and why they could not be used.
struct Seen {
    stamps: [Stamp; 2],
    fault: Option<CertificateError>,
}

impl Seen {
    const fn of(stamps: [Stamp; 2]) -> Self {
        Self { stamps, fault: None }
    }

    /// Reads them again where one has changed, where they could not be used, or always if that is forced; none where
    /// nothing is new.
    fn follow<T>(
        &mut self,
        stamps: [Stamp; 2],
        is_forced: bool,
        read: impl FnOnce() -> Result<T, CertificateError>,
    ) -> Option<Result<T, CertificateError>> {
        let is_same = self.stamps == stamps && !is_forced;
        if is_same && self.fault.is_none() {
            return None;
        }
        let read = read();
        let fault = read.as_ref().err().cloned();
        let is_known = is_same && self.fault == fault;
        *self = Self { stamps, fault };
        (!is_known).then_some(read)
    }
}

/// What was seen of certificate and key, and of authorities and lists: each counts whatever is wrong with the other.
struct SeenFiles {
    identity: Seen,
    verification: Seen,
}

/// What handshakes are made with, and the files that it is made of.
pub struct Certificates {
    files: Files,
    current: Mutex<Current>,
    seen: Mutex<SeenFiles>,
    summary: CertificateSummary,
}

/// That a client's certificate was taken, by whom, and until when it would be again if nothing changes.
#[derive(Clone)]
pub(super) struct Taken {
    by: Arc<dyn ClientCertVerifier>,
    until: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind them is whole between any two statements.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Certificates {
    /// Reads and checks the files of a configuration.
    ///
    /// # Errors
    /// [`CertificateError`].
    pub fn load(config: &HttpsConfig) -> Result<Self, CertificateError> {
        let files = Files {
            certificate: config.certificate.value.clone(),
            key: config.key.value.clone(),
            client_ca: config.client_ca.as_ref().map(|path| path.value.clone()),
            client_crl: config.client_crl.as_ref().map(|path| path.value.clone()),
        };
        let seen = SeenFiles {
            identity: Seen::of(files.of_identity()),
            verification: Seen::of(files.of_verification()),
        };
        let (identity, verification) = (files.identity()?, files.verification()?);
        let config = files.server_config(&identity, &verification)?;
        Ok(Self {
            files,
            summary: identity.summary.clone(),
            current: Mutex::new(Current {
                config,
                identity,
                verification,
            }),
            seen: Mutex::new(seen),
        })
    }

    /// The certificate that was read first.
    #[must_use]
    pub const fn summary(&self) -> &CertificateSummary {
        &self.summary
    }

    /// What the next handshake is made with.
    pub(super) fn current(&self) -> Arc<ServerConfig> {
        Arc::clone(&lock(&self.current).config)
    }

    /// Whether the certificate that a client has shown, with those behind it, would be taken again at `now`: it has not
    /// expired, nor been revoked since. What was `taken` before is looked at again when something has changed.
    pub(super) fn takes(
        &self,
        shown: &[CertificateDer<'_>],
        now: UnixTime,
        taken: &mut Option<Taken>,
    ) -> bool {
        let Verification { verifier, ends } = lock(&self.current).verification.clone();
        let is_known = |taken: &Taken| Arc::ptr_eq(&taken.by, &verifier) && now.as_secs() < taken.until;
        if taken.as_ref().is_some_and(is_known) {
            return true;
        }
        let verified = shown
            .split_first()
            .map(|(own, behind)| verifier.verify_client_cert(own, behind, now));
        let is_taken = matches!(verified, Some(Ok(_)));
        let ends = ends.iter().copied().filter(|end| *end > now.as_secs());
        let ends = shown.iter().map(|one| end_of(one)).chain(ends);
        *taken = is_taken.then(|| Taken {
            until: ends.min().unwrap_or_default(),
            by: verifier,
        });
        is_taken
    }

    /// Reads the files again where one has changed, where one could not be used, or always if that is forced; none
    /// where nothing is new. Sessions of the certificate before cannot be resumed then: who could show a certificate
    /// shows it again.
    pub(super) fn follow(&self, is_forced: bool) -> Option<Result<CertificateSummary, CertificateError>> {
        let (files, mut seen) = (&self.files, lock(&self.seen));
        let SeenFiles {
            identity,
            verification,
        } = &mut *seen;
        let verification = verification.follow(files.of_verification(), is_forced, || files.verification());
        let (read, mut fault) = (verification.transpose(), None);
        let verification = read.unwrap_or_else(|error| {
            fault = Some(error);
            None
        });
        let is_new = verification.is_some() || fault.is_some();
        let next = verification.unwrap_or_else(|| lock(&self.current).verification.clone());
        let identity = identity.follow(files.of_identity(), is_forced, || {
            let identity = files.identity()?;
            Ok((files.server_config(&identity, &next)?, identity))
        });
        if identity.is_none() && !is_new {
            return None;
        }
        let mut current = lock(&self.current);
        match identity {
            Some(Ok((config, identity))) => (current.config, current.identity) = (config, identity),
            unread => {
                fault = unread.and_then(Result::err).or(fault);
                current.config = match files.server_config(&current.identity, &next) {
                    Ok(config) => config,
                    Err(error) => return Some(Err(error)),
                };
            }
        }
        current.verification = next;
        Some(match fault {
            Some(error) => Err(error),
            None => Ok(current.identity.summary.clone()),
        })
    }
}

/// When a certificate ends, in seconds since 1970; 0 if that cannot be read.
fn end_of(certificate: &[u8]) -> u64 {
    let read = Certificate::from_der(certificate);
    read.map_or(0, |read| {
        read.tbs_certificate
            .validity
            .not_after
            .to_unix_duration()
            .as_secs()
    })
}

fn read(file: File) -> io::Result<Vec<u8>> {
    read_up_to(LONGEST, file)
}

fn read_up_to(longest: u64, file: File) -> io::Result<Vec<u8>> {
    let mut octets = Vec::new();
    file.take(longest + 1).read_to_end(&mut octets)?;
    match octets.len() as u64 > longest {
        true => {
            let words = format!("longer than {} MiB", longest >> 20);
            Err(io::Error::new(io::ErrorKind::FileTooLarge, words))
        }
        false => Ok(octets),
    }
}

/// The lists of revoked certificates in a file.
#[derive(Default)]
struct Lists {
    lists: Vec<CertificateRevocationListDer<'static>>,
    /// When they end, in seconds since 1970.
    ends: Vec<u64>,
    /// Authorities whose lists have ended: such a list says nothing, and no certificate of its authority is taken. The
    /// daemon starts all the same, for there are tokens, too.
    expired: Vec<String>,
}

fn revocation_lists(path: &Path) -> Result<Lists, CertificateError> {
    let fault = |why: &dyn fmt::Display| CertificateError::of(path, why);
    let octets = File::open(path).and_then(|file| read_up_to(LONGEST_LISTS, file));
    let octets = octets.map_err(|error| fault(&error))?;
    let lists = CertificateRevocationListDer::pem_slice_iter(&octets).collect::<Result<Vec<_>, _>>();
    let lists = lists.map_err(|error| fault(&error))?;
    if lists.is_empty() {
        return Err(fault(&"has no CRL in PEM"));
    }
    let (mut ends, mut expired) = (Vec::new(), Vec::new());
    let (mut scopes, now) = (BTreeSet::new(), UnixTime::now().as_secs());
    for list in &lists {
        // What is wrong with a list that cannot be read, the verifier says.
        let Ok(list) = CertificateList::from_der(list) else {
            continue;
        };
        let list = list.tbs_cert_list;
        if !scopes.insert(scope(&list)) {
            let words = format!(
                "has two CRLs of `{}`; expected: one of each authority",
                list.issuer
            );
            return Err(fault(&words));
        }
        let end = list.next_update.map(|end| end.to_unix_duration().as_secs());
        ends.extend(end);
        if end.is_some_and(|end| end < now) {
            expired.push(list.issuer.to_string());
        }
    }
    Ok(Lists { lists, ends, expired })
}

/// Whose certificates a list is of, and which of them: its authority, and its issuing distribution point (RFC 5280
/// §5.2.5). Of two lists with the same one the verifier takes the first, however old it is.
fn scope(list: &TbsCertList) -> (Vec<u8>, Option<Vec<u8>>) {
    const ISSUING_DISTRIBUTION_POINT: &str = "2.5.29.28";
    let mut extensions = list.crl_extensions.iter().flatten();
    let point = extensions.find(|one| one.extn_id.to_string() == ISSUING_DISTRIBUTION_POINT);
    let point = point.map(|one| one.extn_value.as_bytes().to_vec());
    (list.issuer.to_der().unwrap_or_default(), point)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let fault = |why: &dyn fmt::Display| CertificateError::of(path, why);
    let octets = File::open(path).and_then(read).map_err(|error| fault(&error))?;
    let chain = CertificateDer::pem_slice_iter(&octets).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|error| fault(&error))?;
    match chain.is_empty() {
        true => Err(fault(&"has no certificate in PEM")),
        false => Ok(chain),
    }
}

/// The key, of a file that no other user can read or change. The group may read it, as the group of a service that
/// renews certificates.
fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, CertificateError> {
    let fault = |why: &dyn fmt::Display| CertificateError::of(path, why);
    let file = File::open(path).map_err(|error| fault(&error))?;
    let found = file.metadata().map_err(|error| fault(&error))?;
    let (user, mode) = (nix::unistd::geteuid().as_raw(), found.mode() & 0o7777);
    if mode & 0o037 != 0 || (found.uid() != user && found.uid() != 0) {
        return Err(fault(&format_args!(
            "user {}, mode {mode:04o}; expected: user {user} or 0, not readable by others, not writable by the group",
            found.uid()
        )));
    }
    let octets = read(file).map_err(|error| fault(&error))?;
    PrivateKeyDer::from_pem_slice(&octets)
        .map_err(|error| fault(&format_args!("no private key in PEM: {error:?}")))
}
