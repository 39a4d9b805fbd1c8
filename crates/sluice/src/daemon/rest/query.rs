//! Parameters of requests: read strictly, each fault with the name of its field.

use std::net::IpAddr;

use session::Seid;

use crate::api::{self, LONGEST_PAGE, Problem, USUAL_PAGE};
use crate::upf::SessionQuery;

/// The pairs of a query, as they came.
pub(super) type Pairs = Vec<(String, String)>;

/// What a page of associations is wanted of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AssociationPage {
    pub(super) after: Option<u32>,
    pub(super) most: usize,
}

/// What a page of sessions is wanted of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SessionPage {
    pub(super) query: SessionQuery,
    pub(super) after: Option<Seid>,
    pub(super) most: usize,
}

/// Reads a query for associations.
pub(super) fn associations(pairs: Pairs) -> Result<AssociationPage, Problem> {
    let mut pairs = Named::of(pairs, &["after", "limit"])?;
    let after = pairs.take("after");
    let after = after.map(|text| {
        text.parse()
            .map_err(|_| bad("after", "must be a number of 32 bits"))
    });
    Ok(AssociationPage {
        after: after.transpose()?,
        most: pairs.limit()?,
    })
}

/// Reads a query for sessions.
pub(super) fn sessions(pairs: Pairs) -> Result<SessionPage, Problem> {
    let mut pairs = Named::of(pairs, &["ue", "seid", "teid", "after", "limit"])?;
    let ue = pairs.take("ue").map(|text| {
        let address = text.parse::<IpAddr>();
        address.map_err(|_| bad("ue", "must be an IPv4 or IPv6 address"))
    });
    let teid = pairs.take("teid");
    let teid = teid.map(|text| api::read_teid(&text).map_err(|error| bad("teid", error)));
    Ok(SessionPage {
        query: SessionQuery {
            seid: pairs.seid("seid")?,
            ue: ue.transpose()?,
            teid: teid.transpose()?,
        },
        after: pairs.seid("after")?,
        most: pairs.limit()?,
    })
}

fn bad(field: &str, must: impl ToString) -> Problem {
    Problem::bad(field, must)
}

/// Parameters, each given once at most and of a known name.
struct Named(Pairs);

impl Named {
    fn of(pairs: Pairs, known: &[&str]) -> Result<Self, Problem> {
        for (place, (name, _)) in pairs.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                let must = format!("is no parameter here; there are {}", known.join(", "));
                return Err(bad(name, must));
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

    fn seid(&mut self, name: &str) -> Result<Option<Seid>, Problem> {
        let text = self.take(name);
        text.map(|text| api::read_seid(&text).map_err(|error| bad(name, error)))
            .transpose()
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

    #[test]
    fn what_is_asked_for_is_read() {
        assert_eq!(
            sessions(pairs("ue=10.45.0.2&teid=0x10&after=7&limit=3")),
            Ok(SessionPage {
                query: SessionQuery {
                    seid: None,
                    ue: Some("10.45.0.2".parse().unwrap()),
                    teid: Some(Teid(16)),
                },
                after: Some(Seid(7)),
                most: 3,
            })
        );
        assert_eq!(
            associations(Vec::new()),
            Ok(AssociationPage {
                after: None,
                most: USUAL_PAGE,
            })
        );
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
            (
                "imsi=1",
                "imsi",
                "imsi is no parameter here; there are ue, seid, teid, after, limit",
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
        assert_eq!(
            associations(pairs("after=x")).unwrap_err().field.as_deref(),
            Some("after")
        );
    }
}
