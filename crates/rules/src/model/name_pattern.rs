//! Names of PFDs: the URLs and domain names that a flow may be for (TS 29.251 §6.4.3.8, §6.4.3.9).
//!
//! A name is written out, its host with `*.` before it or not, or it is a regular expression: what has a character that
//! no name has. A regular expression is made into an automaton when it comes, of bounded size, and takes one step for
//! each octet of a name. Nothing says which syntax they have; taken are those without references to groups and without
//! lookaround.

use core::fmt;
use core::hash::{Hash, Hasher};
use std::sync::Arc;

use dpi::Protocol;
use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, MatchKind};

use super::host_rule::HostRule;
use crate::packet_view::{DetectedFlow, NameSource};

/// Octets of a name at most.
const LONGEST: usize = 1_024;
/// Octets of an automaton at most, and of what it takes to make one.
const LARGEST: usize = 64 << 10;
const MOST_WORK: usize = 256 << 10;

/// What a name of a PFD is of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NameKind {
    /// A URL.
    Url,
    /// A domain name.
    Domain,
    /// A domain name that a TLS ClientHello names (TLS_SNI), that of QUIC among them.
    ServerName,
    /// A domain name that a query of DNS asks for (DNS_QNAME).
    QueryName,
}

/// What is wrong with a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InvalidName {
    /// Empty, longer than 1,024 octets, or with octets that are no printable ASCII.
    Text,
    /// A name that is written out and is none.
    Host,
    /// A regular expression that cannot be read, or whose automaton would have more than 64 KiB.
    Expression,
}

impl fmt::Display for InvalidName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "not 1 to 1,024 printable ASCII characters",
            Self::Host => "no host, or no path",
            Self::Expression => "a regular expression that cannot be read, or is too large",
        })
    }
}

impl core::error::Error for InvalidName {}

/// A name of a PFD.
#[derive(Clone)]
pub struct NamePattern {
    kind: NameKind,
    text: Arc<str>,
    form: Form,
}

#[derive(Clone)]
enum Form {
    Written { host: HostRule, carrier: Carrier },
    Expression(Arc<dense::DFA<Vec<u32>>>),
}

/// What has to carry a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Carrier {
    /// Any, or an answer of DNS.
    Any,
    /// HTTP that is not encrypted: what shows a path.
    Http,
    /// TLS and QUIC.
    Tls,
    /// Queries of DNS.
    Dns,
}

impl Carrier {
    /// In the order of their numbers.
    pub(super) const ALL: [Self; 4] = [Self::Any, Self::Http, Self::Tls, Self::Dns];

    /// Whether it carries the name of a flow. What DNS asks for is no host of a flow, and its answers are no URL and no
    /// server name.
    pub(super) fn is_of(self, flow: &DetectedFlow<'_>) -> bool {
        let is_by_client = flow.source != NameSource::Resolver;
        match self {
            Self::Any => flow.protocol != Some(Protocol::Dns),
            Self::Http => is_by_client && flow.protocol == Some(Protocol::Http1),
            Self::Tls => is_by_client && matches!(flow.protocol, Some(Protocol::Tls | Protocol::Quic)),
            Self::Dns => flow.protocol == Some(Protocol::Dns),
        }
    }
}

impl NamePattern {
    /// Reads a name of this kind.
    ///
    /// # Errors
    /// [`InvalidName`].
    pub fn parse(kind: NameKind, text: &[u8]) -> Result<Self, InvalidName> {
        let is_printable = |octet: &u8| (b'!'..=b'~').contains(octet);
        if text.is_empty() || text.len() > LONGEST || !text.iter().all(is_printable) {
            return Err(InvalidName::Text);
        }
        let text = core::str::from_utf8(text).map_err(|_| InvalidName::Text)?;
        let form = match is_expression(kind, text) {
            true => Form::Expression(Arc::new(automaton(kind, text)?)),
            false => written(kind, text)?,
        };
        Ok(Self {
            kind,
            text: text.into(),
            form,
        })
    }

    /// Whether a text of this kind is taken for a regular expression.
    pub fn is_written_as_expression(kind: NameKind, text: &[u8]) -> bool {
        core::str::from_utf8(text).is_ok_and(|text| is_expression(kind, text))
    }

    /// What it is of.
    pub fn kind(&self) -> NameKind {
        self.kind
    }

    /// As it came.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it is a regular expression.
    pub fn is_expression(&self) -> bool {
        matches!(self.form, Form::Expression(_))
    }

    /// Whether the path of a flow, or that it has one, makes a difference.
    pub fn reads_path(&self) -> bool {
        match &self.form {
            Form::Written { host, .. } => host.reads_path(),
            Form::Expression(_) => self.kind == NameKind::Url,
        }
    }

    /// Host and path, and what has to carry them, of what is written out.
    pub(super) fn written_out(&self) -> Option<(&HostRule, Carrier)> {
        match &self.form {
            Form::Written { host, carrier } => Some((host, *carrier)),
            Form::Expression(_) => None,
        }
    }

    /// Whether such a flow is meant. An answer of DNS gives no URL for an expression.
    pub fn matches(&self, flow: &DetectedFlow<'_>) -> bool {
        let Some(name) = flow.name else { return false };
        match &self.form {
            Form::Written { host, carrier } => carrier.is_of(flow) && host.matches(name, flow.path),
            Form::Expression(_) if self.kind == NameKind::Url && flow.source == NameSource::Resolver => false,
            Form::Expression(automaton) => {
                let url_scheme: &[u8] = flow.path.map_or(b"https://", |_| b"http://");
                let parts: [&[u8]; 3] = match self.kind {
                    NameKind::Url => [url_scheme, name.as_bytes(), flow.path.unwrap_or(b"/")],
                    NameKind::Domain | NameKind::ServerName | NameKind::QueryName => {
                        [name.as_bytes(), b"", b""]
                    }
                };
                carrier_of(self.kind).is_of(flow) && finds(automaton, parts)
            }
        }
    }
}

impl From<HostRule> for NamePattern {
    /// A host that is written out, with the start of a path or without, whatever carries it.
    fn from(host: HostRule) -> Self {
        Self {
            kind: NameKind::Url,
            text: host.to_string().into(),
            form: Form::Written {
                host,
                carrier: Carrier::Any,
            },
        }
    }
}

impl PartialEq for NamePattern {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, &self.text) == (other.kind, &other.text)
    }
}

impl Eq for NamePattern {}

impl Hash for NamePattern {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.kind, &self.text).hash(state);
    }
}

impl fmt::Debug for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({})", self.kind, self.text)
    }
}

/// Whether a text has what no host has; a `*.` before it is none. In paths and queries `?`, `+` and the like are usual:
/// there it takes what URLs have not (RFC 3986 appendix A), or what stands for anything.
fn is_expression(kind: NameKind, text: &str) -> bool {
    let is_url = kind == NameKind::Url;
    let scheme = ["http://", "https://"].into_iter().filter(|_| is_url);
    let rest = scheme.filter_map(|scheme| text.strip_prefix(scheme)).next();
    let rest = rest.unwrap_or(text);
    let path_at = rest.find('/').filter(|_| is_url).unwrap_or(rest.len());
    let (host, path) = rest.split_at(path_at);
    let host = host.strip_prefix("*.").unwrap_or(host);
    host.contains(['^', '$', '*', '+', '?', '(', ')', '[', ']', '{', '}', '|', '\\'])
        || path.contains(['^', '[', ']', '{', '}', '|', '\\'])
        || path.ends_with('$')
        || [".*", ".+", ".?", "(?"].iter().any(|part| path.contains(part))
}

/// What carries names of a kind that do not say so themselves.
const fn carrier_of(kind: NameKind) -> Carrier {
    match kind {
        NameKind::Url | NameKind::Domain => Carrier::Any,
        NameKind::ServerName => Carrier::Tls,
        NameKind::QueryName => Carrier::Dns,
    }
}

fn written(kind: NameKind, text: &str) -> Result<Form, InvalidName> {
    let (carrier, rest) = match (kind, text.split_once("://")) {
        (NameKind::Url, Some(("http", rest))) => (Carrier::Http, rest),
        (NameKind::Url, Some(("https", rest))) => (Carrier::Tls, rest),
        (_, Some(_)) => return Err(InvalidName::Host),
        (kind, None) => (carrier_of(kind), text),
    };
    if kind != NameKind::Url && rest.contains('/') {
        return Err(InvalidName::Host);
    }
    // A URL that ends behind its host has the path `/`, which all paths begin with.
    let rest = match rest.split_once('/') {
        Some((host, "")) => host,
        _ => rest,
    };
    let host = HostRule::parse(rest).map_err(|_| InvalidName::Host)?;
    Ok(Form::Written { host, carrier })
}

/// The automaton of an expression, which may match anywhere in a name. Hosts are in lower case, and compared so.
fn automaton(kind: NameKind, text: &str) -> Result<dense::DFA<Vec<u32>>, InvalidName> {
    let config = dense::Config::new()
        .match_kind(MatchKind::All)
        .start_kind(StartKind::Unanchored)
        .dfa_size_limit(Some(LARGEST))
        .determinize_size_limit(Some(MOST_WORK));
    let syntax = syntax::Config::new()
        .unicode(false)
        .utf8(false)
        .case_insensitive(kind != NameKind::Url)
        .nest_limit(32);
    let thompson = regex_automata::nfa::thompson::Config::new()
        .utf8(false)
        .nfa_size_limit(Some(MOST_WORK));
    dense::Builder::new()
        .configure(config)
        .syntax(syntax)
        .thompson(thompson)
        .build(text)
        .map_err(|_| InvalidName::Expression)
}

/// Whether an automaton finds something in these octets, one part after the other.
fn finds(automaton: &dense::DFA<Vec<u32>>, parts: [&[u8]; 3]) -> bool {
    let start = automaton.start_state_forward(&Input::new(b"").anchored(Anchored::No));
    let Ok(mut state) = start else { return false };
    for octet in parts.into_iter().flatten() {
        state = automaton.next_state(state, *octet);
        // A match is seen one octet late.
        if automaton.is_match_state(state) {
            return true;
        }
        if automaton.is_dead_state(state) || automaton.is_quit_state(state) {
            return false;
        }
    }
    automaton.is_match_state(automaton.next_eoi_state(state))
}

#[cfg(test)]
mod tests {
    use dpi::HostName;
    use proptest::prelude::*;

    use super::*;

    fn matches(kind: NameKind, text: &str, host: &str, path: Option<&str>) -> bool {
        let pattern = NamePattern::parse(kind, text.as_bytes()).expect("a name");
        let host = HostName::parse(host.as_bytes()).expect("a host");
        pattern.matches(&DetectedFlow {
            protocol: Some(path.map_or(Protocol::Quic, |_| Protocol::Http1)),
            name: Some(&host),
            path: path.map(str::as_bytes),
            source: NameSource::Client,
        })
    }

    #[test]
    fn domain_names_are_written_out_or_expressions() {
        use NameKind::Domain;
        assert!(matches(Domain, "video.example", "video.example", None));
        assert!(matches(Domain, "Video.Example", "video.example", Some("/a")));
        assert!(!matches(Domain, "video.example", "www.video.example", None));
        assert!(matches(Domain, "*.video.example", "www.video.example", None));
        assert!(matches(
            Domain,
            r"^(.+\.)?VIDEO\.example$",
            "www.video.example",
            None
        ));
        assert!(!matches(
            Domain,
            r"^(.+\.)?video\.example$",
            "myvideo.example",
            None
        ));
        assert!(matches(Domain, r"video\.", "www.video.example", None));
    }

    #[test]
    fn urls_have_schemes_and_paths_where_flows_show_them() {
        use NameKind::Url;
        // The example of free5GC's NEF.
        let seen = r"^http://test.example.com(/\S*)?$";
        assert!(matches(Url, seen, "test.example.com", Some("/a/b")));
        assert!(!matches(Url, seen, "test.example.com", None));
        assert!(matches(Url, "http://www.example/a", "www.example", Some("/a/b")));
        assert!(!matches(Url, "http://www.example/a", "www.example", Some("/b")));
        assert!(!matches(Url, "http://www.example/", "www.example", None));
        assert!(matches(Url, "https://www.example/", "www.example", None));
        assert!(matches(Url, "www.example", "www.example", None));
        assert!(matches(
            Url,
            "https://*.video.example/",
            "www.video.example",
            None
        ));
        assert!(!matches(Url, "https://*.video.example/", "avideo.example", None));
        assert!(matches(
            Url,
            "http://a.example/watch?v=1+(2)",
            "a.example",
            Some("/watch?v=1+(2)&t=3")
        ));
        assert!(matches(
            Url,
            "http://a.example/.*/v[0-9]",
            "a.example",
            Some("/x/v7")
        ));
        assert!(matches(Url, r"^https://[a-z]+\.example/$", "www.example", None));
    }

    #[test]
    fn server_names_are_those_of_tls_alone() {
        use NameKind::ServerName;
        for text in ["www.example", r"^www\.example$"] {
            assert!(matches(ServerName, text, "www.example", None));
            assert!(!matches(ServerName, text, "www.example", Some("/")));
        }
    }

    #[test]
    fn an_answer_of_dns_is_no_url_and_no_server_name() {
        use NameKind::{Domain, ServerName, Url};
        let host = HostName::parse(b"www.example").expect("a host");
        let flow = DetectedFlow {
            protocol: None,
            name: Some(&host),
            path: None,
            source: NameSource::Resolver,
        };
        for (kind, text, expected) in [
            (Domain, "*.example", true),
            (Domain, r"^www\.", true),
            (Url, "www.example", true),
            (Url, "https://www.example/", false),
            (Url, "http://www.example/", false),
            (Url, r"^https://www\.example", false),
            (ServerName, "www.example", false),
            (ServerName, r"^www\.", false),
        ] {
            let pattern = NamePattern::parse(kind, text.as_bytes()).expect("a name");
            assert_eq!(pattern.matches(&flow), expected, "{kind:?} {text}");
        }
    }

    #[test]
    fn what_is_no_name_says_what_is_wrong() {
        let error = |kind, text: &[u8]| NamePattern::parse(kind, text).expect_err("no name");
        assert_eq!(error(NameKind::Domain, b""), InvalidName::Text);
        assert_eq!(error(NameKind::Domain, b"a\nb"), InvalidName::Text);
        assert_eq!(error(NameKind::Domain, &[b'a'; 1_025]), InvalidName::Text);
        assert_eq!(error(NameKind::Domain, b"a.example/b"), InvalidName::Host);
        assert_eq!(error(NameKind::Url, b"ftp://a.example/"), InvalidName::Host);
        assert_eq!(error(NameKind::Url, b"/b"), InvalidName::Host);
        for text in [
            &b"(a"[..],
            b"(a)\\1",
            b"a(?=b)",
            b"(a{1000}){1000}",
            b"[^a]{900}b.{900}c",
        ] {
            assert_eq!(error(NameKind::Domain, text), InvalidName::Expression);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Against the interpreting engine of the same library, over the whole name at once.
        #[test]
        fn an_expression_matches_what_the_library_says(
            text in r"\^?([ab.]|\[ab\]|\(a\|b\)|\\\.|\.\*|b\+|a\?){1,6}\$?",
            host in "[ab]{1,4}(\\.[ab]{1,4}){0,2}",
            path in prop::option::of("/[ab]{0,4}"),
            is_url in any::<bool>(),
        ) {
            let kind = if is_url { NameKind::Url } else { NameKind::Domain };
            prop_assume!(is_expression(kind, &text));
            let whole = match (is_url, &path) {
                (false, _) => host.clone(),
                (true, None) => format!("https://{host}/"),
                (true, Some(path)) => format!("http://{host}{path}"),
            };
            let engine = regex_automata::nfa::thompson::pikevm::PikeVM::new(&text).expect("an expression");
            let expected = engine.is_match(&mut engine.create_cache(), whole.as_str());
            prop_assert_eq!(matches(kind, &text, &host, path.as_deref()), expected);
        }
    }
}
