//! The traffic models of a report: the published figures of each, and the measured points.

use serde::Serialize;

use super::super::published::{PUBLISHED, Traffic};
use super::assumptions::Assumptions;
use super::kept::{KeptReport, kept};
use super::published_report::{PublishedReport, published_report};
use super::result_file::ResultFile;
use super::wanted::{PointReport, wanted};

/// A model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelReport {
    /// The model.
    pub traffic: Traffic,
    /// What it is.
    pub what: &'static str,
    /// The published figures.
    pub published: Vec<PublishedReport>,
    /// The points; none for a model that is not measured yet.
    pub points: Vec<PointReport>,
    /// What is kept of the rate with inspection, of the model that has it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<KeptReport>,
    /// Why there are no points.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_measured: Option<&'static str>,
}

/// Every model that figures were published for.
pub fn models(files: &[ResultFile], assumed: &Assumptions) -> Vec<ModelReport> {
    let model = |traffic: Traffic| {
        let published: Vec<PublishedReport> = PUBLISHED
            .iter()
            .filter(|published| published.traffic == traffic)
            .map(|published| published_report(published, assumed))
            .collect();
        let points = wanted(traffic);
        ModelReport {
            traffic,
            what: what(traffic),
            not_measured: points.is_empty().then_some(NOT_YET),
            points: points
                .into_iter()
                .map(|point| point.report(files, assumed, &published))
                .collect(),
            kept: if traffic == Traffic::Z {
                kept(files, assumed)
            } else {
                Vec::new()
            },
            published,
        }
    };
    Traffic::ALL.into_iter().map(model).collect()
}

const NOT_YET: &str = "not measured yet: no part of `sluice bench` has this model";

const fn what(traffic: Traffic) -> &'static str {
    match traffic {
        Traffic::V => {
            "131,072 subscribers, 2 bearers of 32 flows, 8,388,608 flows, 3 meters and 2 counters a packet"
        }
        Traffic::I => "50,000 subscribers, UL:DL 1:3, 600 octets, QER and URR",
        Traffic::S => {
            "600,000 sessions, 10,000 active, 920 octets; one QER and one URR of each session stand for 1,000 PDR, 200 QER, \
             100 URR"
        }
        Traffic::SBare => "as S, neither QER nor URR",
        Traffic::T3 => "10,000 sessions, 2 PDR, 2 FAR, 1 QER, 1 URR, 128 octets",
        Traffic::Z => {
            "600,000 sessions, 6,000 active, 40,000 L7 and 10,000 L3 rules, 690 octets; measured: connections of 40 packets, \
             70% TLS, 15% HTTP/1, 15% UDP, a QER and a URR of each session, with all rules or none; contents of rules are \
             counted, no usage records are written"
        }
        Traffic::Q => {
            "shaping, up to 128 K queues; measured: 65,536 sessions of 2 queues and 610 kbit/s, downlink packets of 1,024 \
             octets through a worker, which polices where it has no queues"
        }
        Traffic::E => "ESP in transport mode, 128 to 9,000 octets",
    }
}
