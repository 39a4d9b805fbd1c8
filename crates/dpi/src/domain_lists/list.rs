//! Lists as they are written: text, one domain on a line.

use core::fmt;
use core::net::IpAddr;
use std::io::{self, BufRead};

use super::faults::{Full, InvalidDomain, MOST_DOMAINS, NotAdded};
use crate::host_name::{HostKind, HostName};

/// How many of a list's bad lines are kept, from the first.
pub const MOST_BAD_LINES: usize = 8;
/// How much of a bad line is kept, octets.
const KEPT_OF_LINE: usize = 64;

/// What a list may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// The longest line, octets; longer ones are bad. At most 65,535, and 1,024 by default.
    pub longest_line: u16,
    /// The most domains; a list with more is refused. [`MOST_DOMAINS`] by default, which all lists together have at
    /// most.
    pub domains: usize,
    /// The most octets; a list with more is refused. 1 GiB by default.
    pub octets: u64,
}

impl Default for ReadLimits {
    fn default() -> ReadLimits {
        ReadLimits {
            longest_line: 1_024,
            domains: MOST_DOMAINS,
            octets: 1 << 30,
        }
    }
}

/// Why a line is bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidLine {
    /// It is longer than the limit.
    TooLong,
    /// It has several words, and the first is no unspecified or loopback address.
    Words,
    /// What it has is no domain that lists have.
    Domain(InvalidDomain),
}

impl fmt::Display for InvalidLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => f.write_str("it is too long"),
            Self::Words => f.write_str(
                "it has more than a domain, and does not begin with an unspecified or a loopback address",
            ),
            Self::Domain(why) => why.fmt(f),
        }
    }
}

impl core::error::Error for InvalidLine {}

/// A line that was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Its number, from 1.
    pub line: u64,
    /// Its start, with what is not printable ASCII escaped.
    pub text: String,
    /// Why.
    pub why: InvalidLine,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}: {}", self.line, self.text, self.why)
    }
}

/// What a list had.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// Lines.
    pub lines: u64,
    /// Domains that were added, those among them that were there before.
    pub domains: usize,
    /// Lines that were skipped in whole or in part because they are bad.
    pub bad_lines: u64,
    /// The first of them, at most [`MOST_BAD_LINES`].
    pub first_bad_lines: Vec<BadLine>,
}

/// Why a list is refused.
#[derive(Debug)]
pub enum ReadFault {
    /// It cannot be read.
    Io(io::Error),
    /// It has more octets than its limit.
    TooLong(u64),
    /// It has more domains than its limit.
    TooManyDomains(usize),
    /// With it, there would be more than all lists may have.
    Full(Full),
}

/// Why, and where, a list is refused.
#[derive(Debug)]
pub struct ReadError {
    /// The line that is not read any more, from 1.
    pub line: u64,
    /// Why.
    pub fault: ReadFault,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match &self.fault {
            ReadFault::Io(error) => write!(f, "it cannot be read: {error}"),
            ReadFault::TooLong(octets) => write!(f, "the list has more than {octets} octets"),
            ReadFault::TooManyDomains(domains) => write!(f, "the list has more than {domains} domains"),
            ReadFault::Full(why) => why.fmt(f),
        }
    }
}

impl core::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match &self.fault {
            ReadFault::Io(error) => Some(error),
            ReadFault::Full(why) => Some(why),
            ReadFault::TooLong(_) | ReadFault::TooManyDomains(_) => None,
        }
    }
}

/// Reads a list, and gives its domains to `add`.
pub(super) fn read(
    reader: impl BufRead,
    limits: ReadLimits,
    mut add: impl FnMut(&HostName) -> Result<(), NotAdded>,
) -> Result<Read, ReadError> {
    let mut reader = reader.take(limits.octets.saturating_add(1));
    let mut read = Read::default();
    let mut line = Vec::new();
    loop {
        let number = read.lines + 1;
        let refused = |fault| ReadError { line: number, fault };
        let next = next_line(&mut reader, &mut line, limits.longest_line)
            .map_err(|error| refused(ReadFault::Io(error)))?;
        if reader.limit() == 0 {
            return Err(refused(ReadFault::TooLong(limits.octets)));
        }
        let Some(is_whole) = next else { return Ok(read) };
        read.lines = number;
        let mut bad = None;
        for domain in domains(&line, number == 1, is_whole) {
            let added = match domain {
                Ok(_) if read.domains == limits.domains => Err(ReadFault::TooManyDomains(limits.domains)),
                Ok(domain) => added(add(&domain)),
                Err(why) => Ok(Some(why)),
            };
            match added.map_err(refused)? {
                None => read.domains += 1,
                Some(why) => bad = bad.or(Some(why)),
            }
        }
        if let Some(why) = bad {
            read.remember(number, &line, why);
        }
    }
}

impl Read {
    fn remember(&mut self, line: u64, text: &[u8], why: InvalidLine) {
        self.bad_lines += 1;
        if self.first_bad_lines.len() < MOST_BAD_LINES {
            let start = text.get(..KEPT_OF_LINE).unwrap_or(text).trim_ascii_end();
            self.first_bad_lines.push(BadLine {
                line,
                text: start.escape_ascii().to_string(),
                why,
            });
        }
    }
}

/// Reads the next line to `line`, as much of it as lines may have: whether that is all of it. Nothing at the end.
fn next_line(reader: &mut impl BufRead, line: &mut Vec<u8>, longest: u16) -> io::Result<Option<bool>> {
    line.clear();
    // One more than a line's octets, for its end.
    let most = u64::from(longest) + 1;
    if io::Read::take(&mut *reader, most).read_until(b'\n', line)? == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') || line.len() <= usize::from(longest) {
        return Ok(Some(true));
    }
    reader.skip_until(b'\n')?;
    Ok(Some(false))
}

/// Why the line of a domain is bad, if it is; or why the list is refused.
fn added(added: Result<(), NotAdded>) -> Result<Option<InvalidLine>, ReadFault> {
    match added {
        Ok(()) => Ok(None),
        Err(NotAdded::Invalid(why)) => Ok(Some(InvalidLine::Domain(why))),
        Err(NotAdded::Full(full)) => Err(ReadFault::Full(full)),
    }
}

/// The domains of a line, or what is wrong with it, where that is.
fn domains(
    line: &[u8],
    is_first: bool,
    is_whole: bool,
) -> impl Iterator<Item = Result<HostName, InvalidLine>> {
    // Editors of some systems begin a file with the mark of its encoding.
    let mark = is_first.then(|| line.strip_prefix(b"\xef\xbb\xbf")).flatten();
    let mut parts = mark.unwrap_or(line).splitn(2, |octet| *octet == b'#');
    let text = parts.next().unwrap_or_default();
    let is_whole = is_whole || parts.next().is_some();
    let mut words = text
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    let has_several = words.clone().nth(1).is_some();
    let fault = if !is_whole {
        Some(InvalidLine::TooLong)
    } else if has_several && !words.next().is_some_and(leads_nowhere) {
        Some(InvalidLine::Words)
    } else {
        None
    };
    let words = words.filter(move |_| fault.is_none());
    let domains = words.map(move |word| domain(word, has_several).map_err(InvalidLine::Domain));
    fault.map(Err).into_iter().chain(domains)
}

/// Whether a word is an address that files of hosts give to what they block.
fn leads_nowhere(word: &[u8]) -> bool {
    let address = core::str::from_utf8(word).ok().and_then(|text| text.parse().ok());
    address.is_some_and(|address: IpAddr| address.is_unspecified() || address.is_loopback())
}

/// The domain that a word is; where `is_name`, no address.
fn domain(word: &[u8], is_name: bool) -> Result<HostName, InvalidDomain> {
    let name = match word.contains(&b':') && !word.starts_with(b"[") {
        true => HostName::parse(&[b"[", word, b"]"].concat()),
        false => {
            let above = word.strip_prefix(b"*.").or(word.strip_prefix(b"."));
            HostName::parse(above.unwrap_or(word))
        }
    };
    let name = name.map_err(InvalidDomain::Name)?;
    match is_name && name.kind() != HostKind::Name {
        true => Err(InvalidDomain::Address),
        false => Ok(name),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Categories, CategoryId, DomainLists, DomainListsBuilder};
    use super::*;
    use crate::host_name::InvalidName;

    const CATEGORY: CategoryId = CategoryId::new(5).expect("a category");

    fn read_with(list: &[u8], limits: ReadLimits) -> (Result<Read, ReadError>, DomainLists) {
        let mut builder = DomainListsBuilder::new(1);
        // What is read in small pieces is what is read at once.
        let reader = io::BufReader::with_capacity(3, list);
        let read = builder.read_list(CATEGORY, reader, limits);
        (read, builder.build().expect("lists"))
    }

    fn has(lists: &DomainLists, host: &str) -> bool {
        let host = HostName::parse(host.as_bytes()).expect("a host");
        lists.lookup(&host) == Categories::from(CATEGORY)
    }

    #[test]
    fn lists_have_one_domain_on_a_line_or_the_form_of_hosts() {
        let list = b"\xef\xbb\xbfone.example\r\n\n# a comment\n  TWO.Example. # one more\n.three.example\n\
            *.four.example\n0.0.0.0 five.example\n127.0.0.1\tsix.example seven.example\n::1 eight.example\n\
            192.0.2.1\n2001:DB8::1\n[2001:db8::2]\nlast.example";
        let (read, lists) = read_with(list, ReadLimits::default());
        let read = read.expect("a list");
        assert_eq!(read.first_bad_lines, []);
        assert_eq!((read.lines, read.domains, read.bad_lines), (13, 12, 0));
        for name in [
            "one", "two", "three", "four", "five", "six", "seven", "eight", "last",
        ] {
            assert!(has(&lists, &format!("{name}.example")), "{name}");
            assert!(has(&lists, &format!("a.{name}.example")), "{name}");
        }
        for address in ["192.0.2.1", "[2001:db8::1]", "[2001:db8::2]"] {
            assert!(has(&lists, address), "{address}");
        }
        assert!(!has(&lists, "nine.example") && !has(&lists, "192.0.2.2"));
    }

    #[test]
    fn bad_lines_are_counted_and_the_first_are_kept() {
        let long = "a".repeat(200);
        let deep = "a.".repeat(16) + "example";
        let name = |why| InvalidLine::Domain(InvalidDomain::Name(why));
        let cases = [
            ("com", InvalidLine::Domain(InvalidDomain::OneLabel)),
            (deep.as_str(), InvalidLine::Domain(InvalidDomain::TooManyLabels)),
            ("a.example/path", name(InvalidName::Character)),
            (long.as_str(), InvalidLine::TooLong),
            ("a.example b.example", InvalidLine::Words),
            ("192.0.2.1 a.example", InvalidLine::Words),
            ("0.0.0.0 0.0.0.0", InvalidLine::Domain(InvalidDomain::Address)),
            ("b\u{fc}cher.example", name(InvalidName::Character)),
            ("192.0.2.0/24", name(InvalidName::Character)),
        ];
        let list: String = cases.iter().map(|(line, _)| format!("{line}\n")).collect();
        let limits = ReadLimits {
            longest_line: 100,
            ..ReadLimits::default()
        };
        let (read, lists) = read_with(format!("{list}a.example # {long}\n").as_bytes(), limits);
        let read = read.expect("a list");
        assert_eq!((read.lines, read.domains, read.bad_lines), (10, 1, 9));
        for (nth, (bad, (line, why))) in read.first_bad_lines.iter().zip(cases).enumerate() {
            assert_eq!((bad.line, bad.why), (nth as u64 + 1, why), "{line}");
            assert!(line.is_ascii() == line.starts_with(&bad.text), "{}", bad.text);
        }
        assert_eq!(read.first_bad_lines.len(), MOST_BAD_LINES);
        assert_eq!(
            read.first_bad_lines[0].to_string(),
            "line 1: com: it is a top-level domain"
        );
        assert!(has(&lists, "a.example"));
        assert_eq!(lists.domains(), 1);
    }

    /// Gives the same octets without an end.
    struct Endless;

    impl io::Read for Endless {
        fn read(&mut self, octets: &mut [u8]) -> io::Result<usize> {
            octets.fill(b'a');
            Ok(octets.len())
        }
    }

    #[test]
    fn lists_beyond_a_limit_are_refused_with_the_line() {
        let refused = |list: &[u8], limits| {
            let (read, lists) = read_with(list, limits);
            assert_eq!((lists.domains(), lists.octets()), {
                let empty = DomainLists::empty();
                (0, empty.octets())
            });
            read.expect_err("a list that is refused").to_string()
        };
        let list = b"a.example\nb.example\nc.example\n";
        let domains = ReadLimits {
            domains: 2,
            ..ReadLimits::default()
        };
        assert_eq!(refused(list, domains), "line 3: the list has more than 2 domains");
        let octets = ReadLimits {
            octets: 29,
            ..ReadLimits::default()
        };
        assert_eq!(refused(list, octets), "line 3: the list has more than 29 octets");
        let octets = ReadLimits { octets: 30, ..octets };
        assert!(read_with(list, octets).0.is_ok());

        let octets = ReadLimits {
            octets: 1 << 20,
            ..octets
        };
        let read = DomainListsBuilder::new(1).read_list(CATEGORY, io::BufReader::new(Endless), octets);
        assert!(matches!(
            read,
            Err(ReadError {
                line: 1,
                fault: ReadFault::TooLong(_)
            })
        ));
    }

    /// Fails after its octets.
    struct Failing(&'static [u8]);

    impl io::Read for Failing {
        fn read(&mut self, octets: &mut [u8]) -> io::Result<usize> {
            match self.0.is_empty() {
                true => Err(io::Error::other("it fails")),
                false => io::Read::read(&mut self.0, octets),
            }
        }
    }

    #[test]
    fn a_list_that_cannot_be_read_adds_nothing() {
        let mut builder = DomainListsBuilder::new(1);
        let reader = io::BufReader::new(Failing(b"a.example\n"));
        let error = builder
            .read_list(CATEGORY, reader, ReadLimits::default())
            .expect_err("a list that fails");
        assert_eq!(error.to_string(), "line 2: it cannot be read: it fails");
        assert_eq!(builder.domains(), 0);
    }
}
