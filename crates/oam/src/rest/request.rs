//! Parameters of requests: read strictly, each fault with the name of its field.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use flow::PortId;
use nat::mappings::Protocol;
use packet::overlay::{MOST_VNI, Overlay};
use session::{Export, Seid};
use worker::{MOST_COPIED, TraceFilter};

use super::trace::Wanted;
use crate::tokens::{LONGEST_LIFE, TokenRequest};
use crate::values::{LONGEST_PAGE, Problem, USUAL_PAGE};
use crate::views::{PublicEndpoint, SessionQuery};
use ::trace::{Explainer, read_flow};
use config::{BadLevel, BadRole, LogLevel};
use upf::{MirrorTo, MirrorWanted, identifiers};

/// The pairs of a query, as they came.
pub(super) type Pairs = Vec<(String, String)>;

/// Which page is wanted of what has numbers: associations, routes, neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NumberedPage {
    pub(super) after: Option<u32>,
    pub(super) most: usize,
}

/// What a page of sessions is wanted of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SessionPage {
    pub(super) query: SessionQuery,
    pub(super) after: Option<Seid>,
    pub(super) most: usize,
}

/// Reads a query for a page by numbers.
pub(super) fn numbered(pairs: Pairs) -> Result<NumberedPage, Problem> {
    let mut pairs = Named::of(pairs, &["after", "limit"])?;
    let after = pairs.take("after");
    let after = after.map(|text| {
        text.parse()
            .map_err(|_| bad("after", "must be a number of 32 bits"))
    });
    Ok(NumberedPage {
        after: after.transpose()?,
        most: pairs.limit()?,
    })
}

/// Reads a query for the events behind one.
pub(super) fn after_event(pairs: Pairs) -> Result<u64, Problem> {
    let mut pairs = Named::of(pairs, &["after"])?;
    let after = pairs.take("after");
    let after = after.map(|text| text.parse().map_err(|_| bad("after", "must be a number")));
    Ok(after.transpose()?.unwrap_or(0))
}

/// Reads a query for sessions.
pub(super) fn sessions(pairs: Pairs) -> Result<SessionPage, Problem> {
    let mut pairs = Named::of(pairs, &["ue", "seid", "teid", "imsi", "dnn", "after", "limit"])?;
    let ue = pairs.address("ue")?;
    let teid = pairs.take("teid");
    let teid = teid.map(|text| identifiers::read_teid(&text).map_err(|error| bad("teid", error)));
    let imsi = pairs.take("imsi");
    let imsi = imsi.map(|text| identifiers::read_imsi(&text).map_err(|error| bad("imsi", error)));
    Ok(SessionPage {
        query: SessionQuery {
            seid: pairs.seid("seid")?,
            ue,
            teid: teid.transpose()?,
            imsi: imsi.transpose()?,
            dnn: pairs.dnn()?,
        },
        after: pairs.seid("after")?,
        most: pairs.limit()?,
    })
}

/// Reads which public address and port is meant.
pub(super) fn public_endpoint(pairs: Pairs) -> Result<PublicEndpoint, Problem> {
    let mut pairs = Named::of(pairs, &["address", "port", "protocol", "instance"])?;
    let must = "must be a public IPv4 address";
    let address = pairs.take("address").and_then(|text| text.parse().ok());
    let port = pairs.given("port", 0..=u16::MAX.into())?;
    let protocol = pairs.take("protocol").map(|name| {
        let mut all = Protocol::ALL.into_iter();
        let found = all.find(|protocol| protocol.label() == name);
        found.ok_or_else(|| bad("protocol", "must be tcp, udp or icmp"))
    });
    Ok(PublicEndpoint {
        address: address.ok_or_else(|| bad("address", must))?,
        port: port.ok_or_else(|| bad("port", "is missing"))? as u16,
        protocol: protocol.transpose()?,
        instance: pairs.take("instance"),
    })
}

/// Reads which session is meant.
pub(super) fn only_seid(pairs: Pairs) -> Result<Seid, Problem> {
    let seid = Named::of(pairs, &["seid"])?.seid("seid")?;
    seid.ok_or_else(|| bad("seid", "is missing"))
}

/// Reads what level is to be logged.
pub(super) fn log_level(pairs: Pairs) -> Result<LogLevel, Problem> {
    let mut pairs = Named::of(pairs, &["level"])?;
    let level = pairs.take("level").ok_or_else(|| bad("level", "is missing"))?;
    level.parse().map_err(|error: BadLevel| bad("level", error))
}

/// Names that a query may have for the packets that it is about.
const CONDITIONS: [&str; 5] = ["ue", "teid", "seid", "flow", "port"];

/// Reads what is to be traced.
pub(super) fn trace(pairs: Pairs, explainer: &Explainer) -> Result<Wanted, Problem> {
    let known = [&CONDITIONS[..], &["count", "seconds", "rate", "snap", "octets"]].concat();
    let mut pairs = Named::of(pairs, &known)?;
    let octets = pairs.flag("octets")?;
    Ok(Wanted {
        filter: pairs.filter(explainer)?,
        count: pairs.number("count", 1..=1_000_000, 100)?,
        seconds: pairs.number("seconds", 1..=3_600, 60)?,
        rate: pairs.number("rate", 1..=10_000, 1_000)? as u32,
        snap: pairs.number("snap", 64..=9_216, 512)? as u16,
        octets,
        copies: false,
    })
}

/// Reads what is to be copied, and where to.
pub(super) fn mirror(pairs: Pairs, explainer: &Explainer) -> Result<(Wanted, MirrorWanted), Problem> {
    let own = [
        "to_port", "to_gre", "key", "to_vxlan", "vni", "by", "which", "count", "seconds", "rate", "snap",
    ];
    let mut pairs = Named::of(pairs, &[&CONDITIONS[..], &own].concat())?;
    let (received, sent) = match pairs.take("which").as_deref() {
        None | Some("received") => (true, false),
        Some("sent") => (false, true),
        Some("both") => (true, true),
        Some(_) => return Err(bad("which", "must be received, sent or both")),
    };
    let to = pairs.mirror_to(explainer)?;
    let filter = pairs.filter(explainer)?;
    if filter.port.is_some_and(|port| to == MirrorTo::Port(port)) {
        return Err(bad(
            "to_port",
            "must be another port than that whose packets are copied",
        ));
    }
    let wanted = Wanted {
        filter,
        count: pairs.number("count", 1..=u64::MAX, u64::MAX)?,
        seconds: pairs.number("seconds", 1..=86_400, 600)?,
        rate: pairs.number("rate", 1..=1_000_000, 100_000)? as u32,
        snap: pairs.number("snap", 64..=MOST_COPIED.into(), MOST_COPIED.into())? as u16,
        octets: false,
        copies: true,
    };
    Ok((wanted, MirrorWanted { to, received, sent }))
}

/// Reads a query for records of everything: whether sessions stay.
pub(super) fn export(pairs: Pairs) -> Result<Export, Problem> {
    match Named::of(pairs, &["how"])?.take("how").as_deref() {
        Some("copy") => Ok(Export::Copy),
        Some("take") => Ok(Export::Take),
        _ => Err(bad("how", "must be copy or take")),
    }
}

/// Reads what became of them.
pub(super) fn taken(pairs: Pairs) -> Result<bool, Problem> {
    match Named::of(pairs, &["taken"])?.take("taken").as_deref() {
        Some("true") => Ok(true),
        Some("false") => Ok(false),
        _ => Err(bad("taken", "must be true or false")),
    }
}

/// What a commit has beside its document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommitWanted {
    pub(super) confirm_s: Option<u64>,
    pub(super) comment: Option<String>,
    pub(super) at_restart: bool,
}

/// Reads how a configuration is to be committed.
pub(super) fn commit(pairs: Pairs) -> Result<CommitWanted, Problem> {
    let mut pairs = Named::of(pairs, &["confirm_s", "comment", "at_restart"])?;
    let wanted = CommitWanted {
        confirm_s: pairs.given("confirm_s", 1..=86_400)?,
        comment: pairs.comment()?,
        at_restart: pairs.flag("at_restart")?,
    };
    match wanted.at_restart && wanted.confirm_s.is_some() {
        true => Err(bad("confirm_s", "goes without at_restart: nothing changes now")),
        false => Ok(wanted),
    }
}

/// Which version is to come back, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RollbackWanted {
    pub(super) to: Option<u64>,
    pub(super) comment: Option<String>,
    pub(super) at_restart: bool,
}

/// Reads which version of the configuration is to come back.
pub(super) fn rollback(pairs: Pairs) -> Result<RollbackWanted, Problem> {
    let mut pairs = Named::of(pairs, &["to", "comment", "at_restart"])?;
    Ok(RollbackWanted {
        to: pairs.given("to", 1..=u64::MAX)?,
        comment: pairs.comment()?,
        at_restart: pairs.flag("at_restart")?,
    })
}

/// Reads which version of the configuration is compared.
pub(super) fn config_version(pairs: Pairs) -> Result<Option<u64>, Problem> {
    Named::of(pairs, &["version"])?.given("version", 1..=u64::MAX)
}

/// How long a token is valid unless it is said: 90 days.
const USUAL_LIFE_S: u64 = 90 * 86_400;

/// Reads what token is to be made.
pub(super) fn token(pairs: Pairs) -> Result<TokenRequest, Problem> {
    let mut pairs = Named::of(pairs, &["name", "role", "expires_s"])?;
    let name = pairs.take("name").ok_or_else(|| bad("name", "is missing"))?;
    let role = pairs.take("role").ok_or_else(|| bad("role", "is missing"))?;
    let role = role.parse().map_err(|error: BadRole| bad("role", error))?;
    let life = pairs.number("expires_s", 1..=LONGEST_LIFE.as_secs(), USUAL_LIFE_S)?;
    Ok(TokenRequest {
        name,
        role,
        life: Duration::from_secs(life),
    })
}

fn bad(field: &str, must: impl ToString) -> Problem {
    Problem::bad(field, must)
}

/// Parameters, each given once at most and of a known name.
struct Named(Pairs);

/// Characters of a comment, at most.
const LONGEST_COMMENT: usize = 200;
/// Characters of a parameter's name that a problem says, at most.
const LONGEST_NAME: usize = 64;
/// Octets of a DNN, at most (TS 23.003 §9.1).
const LONGEST_DNN: usize = 100;

impl Named {
    fn of(pairs: Pairs, known: &[&str]) -> Result<Self, Problem> {
        for (place, (name, _)) in pairs.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                let must = format!("is no parameter here; there are {}", known.join(", "));
                let shown: String = name.chars().take(LONGEST_NAME).collect();
                return Err(bad(&shown, must));
            }
            if pairs.iter().take(place).any(|(before, _)| before == name) {
                return Err(bad(name, "is given twice"));
            }
        }
        Ok(Self(pairs))
    }

    fn take(&mut self, name: &str) -> Option<String> {
        let place = self.0.iter().position(|(own, _)| own == name)?;
        Some(self.0.swap_remove(place).1)
    }

    /// Whether something is wanted that usually is not.
    fn flag(&mut self, name: &str) -> Result<bool, Problem> {
        match self.take(name).as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(bad(name, "must be true or false")),
        }
    }

    /// Free words, in one line.
    fn comment(&mut self) -> Result<Option<String>, Problem> {
        let comment = self.take("comment");
        let is_bad =
            |words: &String| words.chars().count() > LONGEST_COMMENT || words.chars().any(char::is_control);
        if comment.as_ref().is_some_and(is_bad) {
            let must = format!("must be {LONGEST_COMMENT} characters at most, in one line");
            return Err(bad("comment", must));
        }
        Ok(comment)
    }

    /// Which packets are meant.
    fn filter(&mut self, explainer: &Explainer) -> Result<TraceFilter, Problem> {
        let teid = self.take("teid");
        let teid = teid.map(|text| identifiers::read_teid(&text).map_err(|error| bad("teid", error)));
        let flow = self.take("flow");
        let flow = flow.map(|text| read_flow(&text).map_err(|error| bad("flow", error)));
        Ok(TraceFilter {
            ue: self.address("ue")?,
            teid: teid.transpose()?,
            seid: self.seid("seid")?.map(|seid| seid.0),
            flow: flow.transpose()?,
            port: self.port("port", explainer)?,
        })
    }

    /// Where copies go: one of three.
    fn mirror_to(&mut self, explainer: &Explainer) -> Result<MirrorTo, Problem> {
        let port = self.port("to_port", explainer)?;
        let (gre, vxlan) = (self.address("to_gre")?, self.address("to_vxlan")?);
        let key = self.given("key", 0..=u32::MAX.into())?.map(|key| key as u32);
        let vni = self.given("vni", 0..=MOST_VNI.into())?.map(|vni| vni as u32);
        let by = self.take("by");
        let (address, overlay) = match (port, gre, vxlan) {
            (Some(port), None, None) => {
                return match (key, vni, by) {
                    (None, None, None) => Ok(MirrorTo::Port(port)),
                    _ => Err(bad("to_port", "goes without key, vni and by")),
                };
            }
            (None, Some(_), None) if vni.is_some() => return Err(bad("vni", "is of to_vxlan")),
            (None, Some(address), None) => (address, Overlay::Gre { key }),
            (None, None, Some(_)) if key.is_some() => return Err(bad("key", "is of to_gre")),
            (None, None, Some(address)) => {
                let vni = vni.ok_or_else(|| bad("vni", "is missing: to_vxlan needs one"))?;
                (address, Overlay::Vxlan { vni })
            }
            _ => return Err(bad("to", "must be one of to_port, to_gre and to_vxlan")),
        };
        let name = by.ok_or_else(|| bad("by", "is missing: the network instance whose routes lead there"))?;
        let instance = explainer.network().instance_by_name(name.as_bytes());
        let instance = instance.ok_or_else(|| bad("by", "must be the name of a network instance"))?;
        Ok(MirrorTo::Host {
            overlay,
            address,
            instance: instance.id,
        })
    }

    fn address(&mut self, name: &str) -> Result<Option<IpAddr>, Problem> {
        let text = self.take(name);
        text.map(|text| {
            text.parse()
                .map_err(|_| bad(name, "must be an IPv4 or IPv6 address"))
        })
        .transpose()
    }

    /// A DNN, or an APN (TS 23.003 §9.1).
    fn dnn(&mut self) -> Result<Option<Box<str>>, Problem> {
        let Some(dnn) = self.take("dnn") else {
            return Ok(None);
        };
        if dnn.is_empty() || dnn.len() > LONGEST_DNN {
            return Err(bad("dnn", format!("must have 1 to {LONGEST_DNN} octets")));
        }
        Ok(Some(dnn.into()))
    }

    fn port(&mut self, name: &str, explainer: &Explainer) -> Result<Option<PortId>, Problem> {
        let found = self.take(name).map(|port| explainer.port(&port));
        found
            .map(|found| found.ok_or_else(|| bad(name, "must be the name of a port")))
            .transpose()
    }

    fn seid(&mut self, name: &str) -> Result<Option<Seid>, Problem> {
        let text = self.take(name);
        text.map(|text| identifiers::read_seid(&text).map_err(|error| bad(name, error)))
            .transpose()
    }

    fn number(&mut self, name: &str, bounds: RangeInclusive<u64>, usual: u64) -> Result<u64, Problem> {
        Ok(self.given(name, bounds)?.unwrap_or(usual))
    }

    fn given(&mut self, name: &str, bounds: RangeInclusive<u64>) -> Result<Option<u64>, Problem> {
        let Some(text) = self.take(name) else {
            return Ok(None);
        };
        let number = text.parse().ok().filter(|number| bounds.contains(number));
        let number =
            number.ok_or_else(|| bad(name, format!("must be {} to {}", bounds.start(), bounds.end())));
        number.map(Some)
    }

    fn limit(&mut self) -> Result<usize, Problem> {
        let Some(text) = self.take("limit") else {
            return Ok(USUAL_PAGE);
        };
        let limit = text
            .parse()
            .ok()
            .filter(|limit| (1..=LONGEST_PAGE).contains(limit));
        limit.ok_or_else(|| bad("limit", format!("must be 1 to {LONGEST_PAGE}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::Teid;

    fn pairs(text: &str) -> Pairs {
        let split = |pair: &str| pair.split_once('=').map(|(a, b)| (a.to_owned(), b.to_owned()));
        text.split('&').filter_map(split).collect()
    }

    fn explainer() -> Explainer {
        let ports: [String; 2] = ["ran".into(), "dn".into()];
        Explainer::new(rules::testing::network().into(), ports.into(), 0)
    }

    #[test]
    fn a_commit_says_how_long_it_waits() {
        let wanted = commit(pairs("confirm_s=60&comment=new routes")).unwrap();
        assert_eq!((wanted.confirm_s, wanted.at_restart), (Some(60), false));
        assert_eq!(wanted.comment.as_deref(), Some("new routes"));
        for (text, field) in [
            ("confirm_s=0", "confirm_s"),
            ("confirm_s=86401", "confirm_s"),
            ("confirm_s=5&at_restart=true", "confirm_s"),
            ("at_restart=yes", "at_restart"),
            ("comment=a\nb", "comment"),
            (&format!("comment={}", "x".repeat(201)), "comment"),
            ("to=1", "to"),
        ] {
            assert_eq!(
                commit(pairs(text)).unwrap_err().field.as_deref(),
                Some(field),
                "{text}"
            );
        }
        assert_eq!(rollback(pairs("to=3")).unwrap().to, Some(3));
        assert_eq!(rollback(pairs("to=0")).unwrap_err().field.as_deref(), Some("to"));
        assert_eq!(config_version(pairs("version=7")), Ok(Some(7)));
    }

    #[test]
    fn a_mirror_goes_to_one_place() {
        let (wanted, to_port) = mirror(pairs("ue=10.45.0.2&to_port=dn&which=both"), &explainer()).unwrap();
        assert!(wanted.copies && wanted.filter.ue.is_some());
        assert_eq!(
            (to_port.to, to_port.received, to_port.sent),
            (MirrorTo::Port(PortId(1)), true, true)
        );
        let (_, gre) = mirror(pairs("to_gre=192.0.2.9&key=7&by=internet"), &explainer()).unwrap();
        let host = |overlay| MirrorTo::Host {
            overlay,
            address: "192.0.2.9".parse().unwrap(),
            instance: rules::testing::N6,
        };
        assert_eq!(gre.to, host(Overlay::Gre { key: Some(7) }));
        assert_eq!((gre.received, gre.sent), (true, false));
        let (_, vxlan) = mirror(
            pairs("to_vxlan=192.0.2.9&vni=7&by=Internet&which=sent"),
            &explainer(),
        )
        .unwrap();
        assert_eq!((vxlan.to, vxlan.sent), (host(Overlay::Vxlan { vni: 7 }), true));
        for (text, field) in [
            ("", "to"),
            ("to_port=nd", "to_port"),
            ("to_port=dn&by=internet", "to_port"),
            ("to_port=dn&port=dn", "to_port"),
            ("to_port=dn&to_gre=192.0.2.9", "to"),
            ("to_gre=192.0.2.9", "by"),
            ("to_gre=192.0.2.9&by=nosuch", "by"),
            ("to_gre=192.0.2.9&by=internet&vni=3", "vni"),
            ("to_gre=ran&by=internet", "to_gre"),
            ("to_vxlan=192.0.2.9&by=internet", "vni"),
            ("to_vxlan=192.0.2.9&by=internet&vni=16777216", "vni"),
            ("to_vxlan=192.0.2.9&by=internet&vni=1&key=1", "key"),
            ("to_port=dn&which=all", "which"),
            ("to_port=dn&snap=1793", "snap"),
            ("to_port=dn&rate=0", "rate"),
            ("to_port=dn&octets=true", "octets"),
        ] {
            let problem = mirror(pairs(text), &explainer()).unwrap_err();
            assert_eq!(problem.field.as_deref(), Some(field), "{text}");
        }
    }

    #[test]
    fn what_is_asked_for_is_read() {
        assert_eq!(
            sessions(pairs(
                "ue=10.45.0.2&teid=0x10&imsi=001010000000001&dnn=internet&after=7&limit=3"
            )),
            Ok(SessionPage {
                query: SessionQuery {
                    seid: None,
                    ue: Some("10.45.0.2".parse().unwrap()),
                    teid: Some(Teid(16)),
                    imsi: Some("001010000000001".into()),
                    dnn: Some("internet".into()),
                },
                after: Some(Seid(7)),
                most: 3,
            })
        );
        assert_eq!(
            numbered(Vec::new()),
            Ok(NumberedPage {
                after: None,
                most: USUAL_PAGE,
            })
        );
    }

    #[test]
    fn a_public_endpoint_has_an_address_and_a_port() {
        assert_eq!(
            public_endpoint(pairs(
                "address=198.51.100.1&port=2600&protocol=udp&instance=internet"
            )),
            Ok(PublicEndpoint {
                address: [198, 51, 100, 1].into(),
                port: 2_600,
                protocol: Some(Protocol::Udp),
                instance: Some("internet".into()),
            })
        );
        for (text, field) in [
            ("port=2600", "address"),
            ("address=2001:db8::1&port=2600", "address"),
            ("address=198.51.100.1", "port"),
            ("address=198.51.100.1&port=65536", "port"),
            ("address=198.51.100.1&port=1&protocol=sctp", "protocol"),
        ] {
            let problem = public_endpoint(pairs(text)).unwrap_err();
            assert_eq!(problem.field.as_deref(), Some(field), "{text}");
        }
        assert_eq!(only_seid(pairs("seid=0x10")), Ok(Seid(16)));
        assert_eq!(only_seid(Vec::new()).unwrap_err().field.as_deref(), Some("seid"));
    }

    #[test]
    fn each_fault_names_its_field() {
        for (text, field, words) in [
            ("ue=10.45.0", "ue", "ue must be an IPv4 or IPv6 address"),
            ("seid=x", "seid", "seid must be a number of 64 bits"),
            ("teid=4294967296", "teid", "teid must be a number of 32 bits"),
            ("after=-1", "after", "after must be a number of 64 bits"),
            ("limit=0", "limit", "limit must be 1 to 500"),
            ("limit=501", "limit", "limit must be 1 to 500"),
            ("imsi=1", "imsi", "imsi must be an IMSI: 6 to 15 digits"),
            ("dnn=", "dnn", "dnn must have 1 to 100 octets"),
            (
                "imei=1",
                "imei",
                "imei is no parameter here; there are ue, seid, teid, imsi, dnn, after, limit",
            ),
            ("ue=10.45.0.2&ue=10.45.0.3", "ue", "ue is given twice"),
        ] {
            let problem = sessions(pairs(text)).unwrap_err();
            assert_eq!(
                (problem.status, problem.field.as_deref()),
                (400, Some(field)),
                "{text}"
            );
            assert!(problem.detail.starts_with(words), "{}", problem.detail);
        }
        for (text, field, words) in [
            ("flow=tcp", "flow", "flow must be a protocol and two ends"),
            ("port=nd", "port", "port must be the name of a port"),
            ("count=0", "count", "count must be 1 to 1000000"),
            ("seconds=3601", "seconds", "seconds must be 1 to 3600"),
            ("rate=10001", "rate", "rate must be 1 to 10000"),
            ("snap=63", "snap", "snap must be 64 to 9216"),
            ("octets=yes", "octets", "octets must be true or false"),
        ] {
            let problem = trace(pairs(text), &explainer()).unwrap_err();
            assert_eq!(problem.field.as_deref(), Some(field), "{text}");
            assert!(problem.detail.starts_with(words), "{}", problem.detail);
        }
        let wanted = trace(pairs("port=dn&ue=10.45.0.2"), &explainer()).unwrap();
        assert_eq!(wanted.filter.port, Some(PortId(1)));
        assert_eq!(
            (wanted.count, wanted.seconds, wanted.rate, wanted.snap),
            (100, 60, 1_000, 512)
        );
        assert_eq!(
            numbered(pairs("after=x")).unwrap_err().field.as_deref(),
            Some("after")
        );
    }
}
