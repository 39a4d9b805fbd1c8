//! Applications: what a PDR that names one looks for (TS 29.244 §5.2.1A.1, §8.2.6).

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use dpi::Protocols;
use dpi::hosts::{ApplicationIndex, HostTable, HostTableBuilder};

use super::detection_pattern::DetectionReads;
use super::name_pattern::{Carrier, NameKind, NamePattern};
use crate::packet_view::DetectedFlow;
use crate::sdf::FlowDescription;

/// An application and how its packets are known, by the Packet Flow Descriptions (PFDs) of the moment. A PDR has a copy
/// of its own: when the descriptions change, so do the PDRs.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Application {
    /// Its identifier: octets that mean nothing here.
    pub id: Arc<[u8]>,
    /// Any of these describes its packets, written like those of SDF filters.
    pub flows: Arc<[FlowDescription]>,
    /// So does any of these. Neither: nothing is known of it, so that no packet is its.
    pub named: Arc<NamedPfds>,
}

/// A PFD with names. Of each kind that it has, one must match, as TS 29.122 has it of a Pfd with several types of
/// filters.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub struct NamedPfd {
    /// What the packets look like; none: like any.
    pub flows: Vec<FlowDescription>,
    /// What their flow is for; none: for anything that has a name.
    pub urls: Vec<NamePattern>,
    /// The same, by domain names.
    pub domains: Vec<NamePattern>,
    /// The protocols that it may have; none: any. Names are those of their kind.
    pub protocols: Protocols,
}

impl NamedPfd {
    /// Whether such a flow is meant.
    pub fn is_of(&self, flow: &DetectedFlow<'_>) -> bool {
        let any = |patterns: &[NamePattern]| {
            patterns.is_empty() || patterns.iter().any(|pattern| pattern.matches(flow))
        };
        let contains = |protocol| self.protocols.contains(protocol);
        let is_of_protocol = self.protocols.is_empty() || flow.protocol.is_some_and(contains);
        is_of_protocol && any(&self.urls) && any(&self.domains)
    }

    fn reads(&self) -> DetectionReads {
        DetectionReads {
            paths: self.urls.iter().chain(&self.domains).any(NamePattern::reads_path),
            ndpi: self.protocols.has_ndpi(),
        }
    }

    /// Its names, if one that matches is enough, and all are written out.
    fn written_out(&self) -> Option<&[NamePattern]> {
        if !self.protocols.is_empty() {
            return None;
        }
        let names = match (&self.urls[..], &self.domains[..]) {
            (names, []) | ([], names) => names,
            _ => return None,
        };
        names.iter().all(|name| !name.is_expression()).then_some(names)
    }
}

/// The PFDs with names of one application.
pub struct NamedPfds {
    all: Box<[NamedPfd]>,
    /// By host, those of which one name that matches is enough: by their places, and by what has to carry the name.
    table: HostTable,
    /// The places of the others.
    others: Box<[u32]>,
    reads: DetectionReads,
}

impl NamedPfds {
    /// Of these. `seed` is of a hash over names that peers choose.
    pub fn new(all: Vec<NamedPfd>, seed: u64) -> Self {
        let mut builder = HostTableBuilder::default();
        let mut others = Vec::new();
        for (place, pfd) in (0..).zip(&all) {
            match pfd.written_out() {
                Some(names) => names
                    .iter()
                    .filter_map(NamePattern::written_out)
                    .for_each(|(host, carrier)| host.add_to(&mut builder, entry(place, carrier))),
                None => others.push(place),
            }
        }
        Self {
            reads: all.iter().map(NamedPfd::reads).collect(),
            all: all.into(),
            table: builder.build(seed).0,
            others: others.into(),
        }
    }

    /// They.
    pub fn all(&self) -> &[NamedPfd] {
        &self.all
    }

    /// What they read of flows.
    pub(crate) fn reads(&self) -> DetectionReads {
        self.reads
    }

    /// The places of those that mean such a flow, some of them more than once.
    pub fn places<'a>(&'a self, flow: DetectedFlow<'a>) -> impl Iterator<Item = u32> + use<'a> {
        let found = flow.name.into_iter();
        let found = found.flat_map(move |name| self.table.lookup(name, flow.path));
        let carried = move |ApplicationIndex(entry)| {
            let carrier = Carrier::ALL.get(entry as usize % Carrier::ALL.len())?;
            carrier.is_of(&flow).then_some(entry / Carrier::ALL.len() as u32)
        };
        let names = move |place: &u32| {
            let pfd = self.all.get(*place as usize);
            pfd.is_some_and(|pfd| pfd.is_of(&flow))
        };
        found
            .filter_map(carried)
            .chain(self.others.iter().copied().filter(names))
    }
}

/// What the table has of a PFD at this place whose name has to be carried so.
fn entry(place: u32, carrier: Carrier) -> ApplicationIndex {
    ApplicationIndex(place * Carrier::ALL.len() as u32 + carrier as u32)
}

impl Default for NamedPfds {
    /// None.
    fn default() -> Self {
        Self {
            all: Box::default(),
            table: HostTable::empty(),
            others: Box::default(),
            reads: DetectionReads::default(),
        }
    }
}

impl PartialEq for NamedPfds {
    fn eq(&self, other: &Self) -> bool {
        self.all == other.all
    }
}

impl Eq for NamedPfds {}

impl Hash for NamedPfds {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.all.hash(state);
    }
}

impl fmt::Debug for NamedPfds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.all.fmt(f)
    }
}

/// Writes it in lines, each a word and what it is: `flow`, `protocol`, `url`, `domain`, `server-name`,
/// `query-name`.
impl fmt::Display for NamedPfd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for flow in &self.flows {
            writeln!(f, "flow {flow}")?;
        }
        for protocol in self.protocols.iter() {
            writeln!(f, "protocol {protocol}")?;
        }
        for name in self.urls.iter().chain(&self.domains) {
            writeln!(f, "{} {}", word(name.kind()), name.text())?;
        }
        Ok(())
    }
}

const fn word(kind: NameKind) -> &'static str {
    match kind {
        NameKind::Url => "url",
        NameKind::Domain => "domain",
        NameKind::ServerName => "server-name",
        NameKind::QueryName => "query-name",
    }
}

/// A text is none of a PFD with names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotAPfd;

/// Reads what is written so.
impl FromStr for NamedPfd {
    type Err = NotAPfd;

    fn from_str(text: &str) -> Result<Self, NotAPfd> {
        let mut pfd = Self::default();
        let mut protocols = Vec::new();
        for line in text.lines() {
            let (what, rest) = line.split_once(' ').ok_or(NotAPfd)?;
            let name = |kind| NamePattern::parse(kind, rest.as_bytes()).map_err(|_| NotAPfd);
            match what {
                "flow" => pfd.flows.push(rest.parse().map_err(|_| NotAPfd)?),
                "protocol" => protocols.push(rest.parse().map_err(|_| NotAPfd)?),
                "url" => pfd.urls.push(name(NameKind::Url)?),
                "domain" => pfd.domains.push(name(NameKind::Domain)?),
                "server-name" => pfd.domains.push(name(NameKind::ServerName)?),
                "query-name" => pfd.domains.push(name(NameKind::QueryName)?),
                _ => return Err(NotAPfd),
            }
        }
        pfd.protocols = protocols.into_iter().collect();
        let asks = !pfd.urls.is_empty() || !pfd.domains.is_empty() || !pfd.protocols.is_empty();
        asks.then_some(pfd).ok_or(NotAPfd)
    }
}

#[cfg(test)]
mod tests {
    use dpi::{HostName, Protocol};

    use super::*;
    use crate::packet_view::NameSource;

    fn pfd(text: &str) -> NamedPfd {
        text.parse().expect("a PFD")
    }

    fn places(pfds: &NamedPfds, protocol: Protocol, host: &str, path: Option<&str>) -> Vec<u32> {
        let host = HostName::parse(host.as_bytes()).expect("a host");
        let flow = DetectedFlow {
            protocol: Some(protocol),
            name: Some(&host),
            path: path.map(str::as_bytes),
            source: NameSource::Client,
        };
        let mut places: Vec<u32> = pfds.places(flow).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    #[test]
    fn of_each_kind_that_a_pfd_has_one_must_match() {
        let pfds = NamedPfds::new(
            vec![
                pfd("domain a.example\ndomain *.b.example\n"),
                pfd("url http://a.example/video\nserver-name a.example\n"),
                pfd("url ^http://.*/video\ndomain a.example\n"),
                pfd("server-name a.example\n"),
                pfd("protocol stun\nprotocol dns\n"),
                pfd("query-name a.example\nserver-name b.example\n"),
                pfd("query-name ^a\\.ex\n"),
            ],
            1,
        );
        use Protocol::{Dns, Http1, Stun, Tls};
        assert_eq!(places(&pfds, Tls, "a.example", None), [0, 3]);
        assert_eq!(places(&pfds, Http1, "a.example", Some("/video/1")), [0, 2]);
        assert_eq!(places(&pfds, Http1, "c.b.example", Some("/video/1")), [0]);
        assert!(places(&pfds, Tls, "c.example", None).is_empty());
        assert_eq!(places(&pfds, Stun, "c.example", None), [4]);
        assert_eq!(places(&pfds, Dns, "a.example", None), [4, 5, 6]);
        assert_eq!(places(&pfds, Tls, "b.example", None), [0, 5]);
    }

    #[test]
    fn a_pfd_is_read_as_it_is_written() {
        let text = "flow permit out 6 from 198.51.100.7/32 443 to assigned\nprotocol tls\nprotocol quic\nprotocol ndpi.37\nurl https://a.example/\ndomain *.b.example\nserver-name ^c\\.example$\nquery-name d.example\n";
        assert_eq!(pfd(text).to_string(), text);
        for text in [
            "",
            "flow permit out ip from any to assigned\n",
            "domain\n",
            "domain a b\n",
            "name a.example\n",
            "protocol any\n",
        ] {
            assert_eq!(text.parse::<NamedPfd>(), Err(NotAPfd), "{text}");
        }
    }
}
