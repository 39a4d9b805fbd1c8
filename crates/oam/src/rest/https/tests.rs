//! The listener as clients meet it, over loopback.

use std::fs;
use std::net::TcpStream as PlainStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use config::CallerRole;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, IsCa, Issuer, KeyIdMethod, KeyPair,
    RevokedCertParams, SanType, date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;

use super::*;
use crate::rest::query_channel;
use crate::tokens::TokenRequest;

/// A directory of this test alone, with authorities, certificates and keys; taken away in the end.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn authority() -> Issuer<'static, KeyPair> {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    Issuer::new(params, KeyPair::generate().unwrap())
}

fn named_authority(name: &str) -> Issuer<'static, KeyPair> {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    Issuer::new(params, KeyPair::generate().unwrap())
}

fn authority_pem() -> (Issuer<'static, KeyPair>, String) {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    (Issuer::new(params, key), pem)
}

struct Pair {
    certificate: String,
    key: String,
}

fn signed(by: &Issuer<'static, KeyPair>, names: Vec<SanType>) -> Pair {
    let mut params = CertificateParams::new([]).unwrap();
    params.subject_alt_names = names;
    let key = KeyPair::generate().unwrap();
    Pair {
        certificate: params.signed_by(&key, by).unwrap().pem(),
        key: key.serialize_pem(),
    }
}

fn dns(name: &str) -> Vec<SanType> {
    vec![SanType::DnsName(name.try_into().unwrap())]
}

struct Server {
    scratch: Scratch,
    issuer: Issuer<'static, KeyPair>,
    authority: String,
    tokens: Arc<TokenStore>,
    listener: HttpsListener,
    runtime: tokio::runtime::Runtime,
}

fn store_pair(directory: &Path, pair: &Pair) {
    fs::write(directory.join("key"), &pair.key).unwrap();
    fs::set_permissions(directory.join("key"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(directory.join("certificate"), &pair.certificate).unwrap();
}

fn config(directory: &Path, rest: &str) -> HttpsConfig {
    let at = |name: &str| directory.join(name).display().to_string();
    let good = include_str!("../../../../../examples/open5gs.yaml");
    let text = format!(
        "{good}\ncontrol: {{https: {{addresses: ['127.0.0.1:1'], certificate: {}, key: {}, client_ca: {}, clients: \
         [{{san: 'dns:operator.example', role: operator}}, {{san: 'uri:spiffe://example/admin', role: admin}}]{rest}}}}}\n",
        at("certificate"),
        at("key"),
        at("authority")
    );
    let mut config = config::Config::parse(&text, "f").unwrap().control.https.unwrap();
    config.addresses = vec!["127.0.0.1:0".parse().unwrap()];
    config
}

fn sources(tokens: &Arc<TokenStore>) -> HttpsSources {
    let (client, server) = query_channel();
    // So each query fails at once.
    drop(server);
    HttpsSources {
        tokens: Some(Arc::clone(tokens)),
        service: Service::new(client, Arc::new(Vec::new)),
        reload: Arc::default(),
    }
}

impl Server {
    fn new(name: &str, rest: &str) -> Self {
        let path = std::env::temp_dir().join(format!("https-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        let (issuer, authority) = authority_pem();
        fs::write(path.join("authority"), &authority).unwrap();
        store_pair(&path, &signed(&issuer, dns("localhost")));
        let tokens = Arc::new(TokenStore::open(&path.join("tokens")).unwrap());
        let listener = HttpsListener::open(&config(&path, rest), sources(&tokens)).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        Self {
            scratch: Scratch(path),
            issuer,
            authority,
            tokens,
            listener,
            runtime,
        }
    }

    fn token(&self, name: &str, role: CallerRole) -> String {
        let wanted = TokenRequest {
            name: name.into(),
            role,
            life: Duration::from_secs(60),
        };
        self.tokens
            .create(wanted, "test", SystemTime::now())
            .unwrap()
            .token
    }

    /// A client's view of TLS.
    fn client(&self, certificate: Option<&Pair>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(self.authority.as_bytes()).unwrap())
            .unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots);
        Arc::new(match certificate {
            None => builder.with_no_client_auth(),
            Some(pair) => {
                let chain = vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        })
    }

    /// What comes back for these octets, until the connection ends; and the certificate that the server showed.
    fn exchange(&self, certificate: Option<&Pair>, sent: &str) -> io::Result<(String, Vec<u8>)> {
        let config = self.client(certificate);
        let address = self.listener.addresses()[0];
        self.runtime.block_on(async move {
            let stream = TcpStream::connect(address).await?;
            let name = ServerName::try_from("localhost").unwrap();
            let mut stream = TlsConnector::from(config).connect(name, stream).await?;
            stream.write_all(sent.as_bytes()).await?;
            let mut answer = Vec::new();
            // A peer may end without saying so.
            let _ = timeout(Duration::from_secs(10), stream.read_to_end(&mut answer)).await?;
            let shown = stream.get_ref().1.peer_certificates().unwrap()[0].to_vec();
            Ok((String::from_utf8_lossy(&answer).into_owned(), shown))
        })
    }

    fn answer(&self, certificate: Option<&Pair>, method: &str, target: &str, header: &str) -> String {
        let sent =
            format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{header}\r\n");
        self.exchange(certificate, &sent).unwrap().0
    }

    fn status(&self, certificate: Option<&Pair>, method: &str, target: &str, header: &str) -> u16 {
        status(&self.answer(certificate, method, target, header))
    }
}

fn status(answer: &str) -> u16 {
    answer.get(9..12).and_then(|code| code.parse().ok()).unwrap_or(0)
}

#[test]
fn callers_have_the_role_of_their_token() {
    let server = Server::new("token", "");
    let bearer = |token: &str| format!("Authorization: Bearer {token}\r\n");
    let viewer = bearer(&server.token("v", CallerRole::Viewer));
    let admin = bearer(&server.token("a", CallerRole::Admin));
    let status = |target, header: &str| server.status(None, "GET", target, header);
    assert_eq!(status("/openapi.json", ""), 401);
    assert_eq!(status("/openapi.json", &viewer), 200);
    assert_eq!(status("/v1/tokens", &viewer), 403);
    // Allowed, and there are none here.
    assert_eq!(status("/v1/tokens", &admin), 404);
    assert_eq!(status("/openapi.json", &bearer("sluice_0")), 401);
    assert_eq!(
        status("/openapi.json", "Authorization: Basic YWRtaW46YWRtaW4=\r\n"),
        401
    );
    assert_eq!(status("/openapi.json", &format!("{viewer}{admin}")), 401);
    server.tokens.revoke("v", SystemTime::now()).unwrap();
    assert_eq!(status("/openapi.json", &viewer), 401);
    let answer = server.answer(None, "GET", "/openapi.json", &admin);
    for header in [
        "strict-transport-security: ",
        "x-content-type-options: nosniff",
        "cache-control: no-store",
    ] {
        assert!(answer.contains(header), "{answer}");
    }
    assert!(!answer.contains("access-control-"), "{answer}");
}

#[test]
fn callers_have_the_role_of_a_name_in_their_certificate() {
    let server = Server::new("certificate", "");
    let status = |pair: &Pair, target| server.status(Some(pair), "GET", target, "");
    let operator = signed(&server.issuer, dns("Operator.example"));
    assert_eq!(status(&operator, "/openapi.json"), 200);
    assert_eq!(status(&operator, "/v1/tokens"), 403);
    let uri = SanType::URI("spiffe://example/admin".try_into().unwrap());
    let admin = signed(&server.issuer, vec![uri]);
    assert_eq!(status(&admin, "/v1/tokens"), 404);
    let unknown = signed(&server.issuer, dns("other.example"));
    assert_eq!(status(&unknown, "/openapi.json"), 401);
    // Of another authority.
    let foreign = signed(&authority(), dns("operator.example"));
    let refused = server.exchange(Some(&foreign), "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(refused.is_err() || status_of(&refused) == 0, "{refused:?}");
    // What it shows counts before its certificate.
    assert_eq!(
        server.status(
            Some(&admin),
            "GET",
            "/openapi.json",
            "Authorization: Bearer sluice_0\r\n"
        ),
        401
    );
}

/// A CRL of an authority, valid until a year, with these serial numbers.
fn revoking(by: &Issuer<'static, KeyPair>, until: i32, serials: &[u64]) -> String {
    let revoked = serials.iter().map(|serial| RevokedCertParams {
        serial_number: (*serial).into(),
        revocation_time: date_time_ymd(2024, 1, 2),
        reason_code: None,
        invalidity_date: None,
    });
    let list = CertificateRevocationListParams {
        this_update: date_time_ymd(2024, 1, 1),
        next_update: date_time_ymd(until, 1, 1),
        crl_number: 1.into(),
        issuing_distribution_point: None,
        revoked_certs: revoked.collect(),
        key_identifier_method: KeyIdMethod::Sha256,
    };
    list.signed_by(by).unwrap().pem().unwrap()
}

fn signed_as(by: &Issuer<'static, KeyPair>, serial: u64) -> Pair {
    let mut params = CertificateParams::new([]).unwrap();
    params.subject_alt_names = dns("operator.example");
    params.serial_number = Some(serial.into());
    let key = KeyPair::generate().unwrap();
    Pair {
        certificate: params.signed_by(&key, by).unwrap().pem(),
        key: key.serialize_pem(),
    }
}

/// With a CRL that is written once the directory is there.
fn server_with_crl(name: &str) -> (Server, PathBuf) {
    let server = Server::new(name, "");
    let file = server.scratch.0.join("crl");
    fs::write(&file, revoking(&server.issuer, 2_200, &[])).unwrap();
    let rest = format!(", client_crl: {}", file.display());
    let listener = HttpsListener::open(&config(&server.scratch.0, &rest), sources(&server.tokens)).unwrap();
    (Server { listener, ..server }, file)
}

fn is_refused(server: &Server, pair: &Pair) -> bool {
    let asked = "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    status_of(&server.exchange(Some(pair), asked)) == 0
}

fn eventually(is_so: impl Fn() -> bool) {
    for _ in 0..200 {
        if is_so() {
            return;
        }
        thread::sleep(Duration::from_millis(100));
    }
    panic!("it did not come to be");
}

#[test]
fn a_revoked_certificate_is_refused_and_ends_what_it_has_opened() {
    let (server, file) = server_with_crl("revoked");
    let [one, other] = [5, 6].map(|serial| signed_as(&server.issuer, serial));
    assert!(!is_refused(&server, &one) && !is_refused(&server, &other));
    // It keeps its connection, and asks for nothing more: that would end by itself after `HEAD_PATIENCE`.
    let config = server.client(Some(&one));
    let ended = server.runtime.block_on(async {
        let stream = TcpStream::connect(server.listener.addresses()[0]).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = TlsConnector::from(config).connect(name, stream).await.unwrap();
        let asked = "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n";
        stream.write_all(asked.as_bytes()).await.unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).await.unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
        fs::write(&file, revoking(&server.issuer, 2_200, &[5, 77])).unwrap();
        // Without saying so, perhaps.
        timeout(Duration::from_secs(10), stream.read_to_end(&mut Vec::new())).await
    });
    assert!(ended.is_ok());
    assert!(is_refused(&server, &one));
    assert!(!is_refused(&server, &other));
    // What is no CRL is not taken, and what was revoked stays so.
    fs::write(&file, "nothing").unwrap();
    thread::sleep(2 * FILES_LOOK);
    assert!(is_refused(&server, &one) && !is_refused(&server, &other));
    // An authority may take it back.
    fs::write(&file, revoking(&server.issuer, 2_200, &[])).unwrap();
    eventually(|| !is_refused(&server, &one));
    // Tokens do not depend on it.
    fs::write(&file, revoking(&server.issuer, 2_025, &[])).unwrap();
    eventually(|| is_refused(&server, &other));
    let token = server.token("v", CallerRole::Viewer);
    let header = format!("Authorization: Bearer {token}\r\n");
    assert_eq!(server.status(None, "GET", "/openapi.json", &header), 200);
}

#[test]
fn a_crl_counts_whatever_is_wrong_with_other_files() {
    let (server, file) = server_with_crl("other-files");
    let [one, other] = [5, 6].map(|serial| signed_as(&server.issuer, serial));
    assert!(!is_refused(&server, &one));
    let key = server.scratch.0.join("key");
    let words = fs::read(&key).unwrap();
    fs::write(&key, "nothing").unwrap();
    fs::write(&file, revoking(&server.issuer, 2_200, &[5])).unwrap();
    eventually(|| is_refused(&server, &one));
    assert!(!is_refused(&server, &other));
    // A file that could not be used is read again although it looks the same.
    fs::write(&key, words).unwrap();
    let unread = server.scratch.0.join("unread");
    fs::write(&unread, revoking(&server.issuer, 2_200, &[])).unwrap();
    fs::rename(&unread, &file).unwrap();
    eventually(|| !is_refused(&server, &one));
}

#[test]
fn what_cannot_be_used_is_said_once_and_read_until_it_can() {
    let (server, file) = server_with_crl("said-once");
    let rest = format!(", client_crl: {}", file.display());
    let certificates = Certificates::load(&config(&server.scratch.0, &rest)).unwrap();
    let follow = |is_forced| {
        certificates
            .follow(is_forced)
            .map(|read| read.map_err(|why| why.to_string()))
    };
    assert_eq!(follow(false), None);
    let one = revoking(&server.issuer, 2_200, &[5]);
    fs::write(&file, format!("{one}{one}")).unwrap();
    assert!(follow(false).unwrap().unwrap_err().contains("has two CRLs"));
    assert_eq!(follow(false), None);
    let key = server.scratch.0.join("key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(follow(true).unwrap().unwrap_err().contains("mode 0644"));
    assert_eq!(follow(false), None);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(
        follow(false).unwrap().is_ok(),
        "read again although it looks the same"
    );
    fs::write(&file, &one).unwrap();
    assert!(follow(false).unwrap().is_ok());
    assert_eq!(follow(false), None);
}

#[test]
fn an_authority_without_a_crl_of_its_own_is_not_believed() {
    let (server, file) = server_with_crl("without-crl");
    let pair = signed_as(&server.issuer, 5);
    assert!(!is_refused(&server, &pair));
    // Another authority's list is none of this one, whatever its name; nor is one that it has not signed.
    fs::write(&file, revoking(&authority(), 2_200, &[])).unwrap();
    eventually(|| is_refused(&server, &pair));
    fs::write(&file, revoking(&server.issuer, 2_200, &[])).unwrap();
    eventually(|| !is_refused(&server, &pair));
}

#[test]
fn lists_that_cannot_be_used_are_named() {
    let (server, file) = server_with_crl("crl-files");
    let rest = format!(", client_crl: {}", file.display());
    let fault = || {
        let loaded = Certificates::load(&config(&server.scratch.0, &rest));
        loaded.map(|_| ()).unwrap_err().to_string()
    };
    let name = file.display().to_string();
    for (text, words) in [
        ("", "has no CRL in PEM"),
        (
            "-----BEGIN X509 CRL-----\nMAA=\n-----END X509 CRL-----\n",
            "not understood",
        ),
        ("-----BEGIN X509 CRL-----\n!\n-----END X509 CRL-----\n", ""),
    ] {
        fs::write(&file, text).unwrap();
        assert!(
            fault().starts_with(&name) && fault().contains(words),
            "{}",
            fault()
        );
    }
    // A verifier would take the first of them, however old.
    let twice = [&[][..], &[5]].map(|serials| revoking(&server.issuer, 2_200, serials));
    fs::write(&file, twice.concat()).unwrap();
    assert!(
        fault().starts_with(&name) && fault().contains("has two CRLs of `CN="),
        "{}",
        fault()
    );
    let of_both = [&server.issuer, &named_authority("another")].map(|by| revoking(by, 2_200, &[]));
    fs::write(&file, of_both.concat()).unwrap();
    assert!(Certificates::load(&config(&server.scratch.0, &rest)).is_ok());
    fs::remove_file(&file).unwrap();
    assert!(
        fault().starts_with(&name) && fault().contains("No such file"),
        "{}",
        fault()
    );
    fs::write(&file, vec![b'x'; (16 << 20) + 1]).unwrap();
    assert!(fault().contains("longer than 16 MiB"), "{}", fault());
}

fn status_of(answer: &io::Result<(String, Vec<u8>)>) -> u16 {
    answer.as_ref().map_or(0, |(answer, _)| status(answer))
}

#[test]
fn what_guesses_is_held_up_and_what_knows_is_served() {
    let server = Server::new("guess", "");
    let good = format!(
        "Authorization: Bearer {}\r\n",
        server.token("v", CallerRole::Viewer)
    );
    let guess = |n: u32| {
        server.answer(
            None,
            "GET",
            "/openapi.json",
            &format!("Authorization: Bearer {n}\r\n"),
        )
    };
    let answers: Vec<String> = (0..13).map(guess).collect();
    assert!(answers[..10].iter().all(|answer| status(answer) == 401));
    assert!(answers[11..].iter().all(|answer| status(answer) == 429));
    assert!(answers[12].contains("retry-after: "), "{}", answers[12]);
    assert_eq!(server.status(None, "GET", "/openapi.json", &good), 200);
}

#[test]
fn another_certificate_is_taken_when_the_files_change() {
    let server = Server::new("renewed", "");
    let ask = || {
        server.exchange(
            None,
            "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        )
    };
    let before = ask().unwrap().1;
    // A key that others can read is not taken; the listener serves on.
    fs::set_permissions(server.scratch.0.join("key"), fs::Permissions::from_mode(0o644)).unwrap();
    let pair = signed(&server.issuer, dns("localhost"));
    fs::write(server.scratch.0.join("certificate"), &pair.certificate).unwrap();
    thread::sleep(Duration::from_millis(1_500));
    assert_eq!(ask().unwrap().1, before);
    store_pair(&server.scratch.0, &pair);
    let expected = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap();
    for _ in 0..100 {
        if ask().unwrap().1 == *expected {
            return;
        }
        thread::sleep(Duration::from_millis(100));
    }
    panic!("it shows the certificate from before");
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let server = Server::new("files", "");
    let directory = &server.scratch.0;
    let fault = || {
        Certificates::load(&config(directory, ""))
            .map(|_| ())
            .unwrap_err()
            .to_string()
    };
    let key = directory.join("key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(fault().contains("mode 0644; expected"), "{}", fault());
    let pair = signed(&server.issuer, dns("localhost"));
    fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
    fs::write(&key, &pair.key).unwrap();
    assert!(
        fault().contains("is not the key of the certificate"),
        "{}",
        fault()
    );
    fs::write(&key, "no key").unwrap();
    assert!(fault().contains("no private key in PEM"), "{}", fault());
    fs::write(directory.join("certificate"), "").unwrap();
    assert!(fault().contains("has no certificate in PEM"), "{}", fault());
    fs::remove_file(directory.join("certificate")).unwrap();
    assert!(fault().contains("No such file"), "{}", fault());
}

/// Idle connections of the same address end before a new one waits for them.
#[test]
fn peers_that_say_nothing_keep_nothing_from_others() {
    let server = Server::new("idle", ", connections: 16, connections_per_address: 6");
    let token = format!(
        "Authorization: Bearer {}\r\n",
        server.token("v", CallerRole::Viewer)
    );
    let address = server.listener.addresses()[0];
    let idle: Vec<PlainStream> = (0..30).map(|_| PlainStream::connect(address).unwrap()).collect();
    assert_eq!(server.status(None, "GET", "/openapi.json", &token), 200);
    drop(idle);
}

#[test]
fn plain_http_is_not_answered() {
    let server = Server::new("plain", "");
    let answer = server.runtime.block_on(async {
        let mut stream = TcpStream::connect(server.listener.addresses()[0]).await.unwrap();
        stream
            .write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .await
            .unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        answer
    });
    assert!(!answer.windows(4).any(|octets| octets == b"HTTP"), "{answer:?}");
}
