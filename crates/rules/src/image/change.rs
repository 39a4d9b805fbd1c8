//! Changes of a worker's sessions, and what a worker returns for them.

use flow::{Bounds, ContentUsage, PacketTimes, SessionIndex, UrrCount};

use nat::mappings::MovedMapping;

use super::counters::Counter;
use super::dropped::DroppedCount;
use super::meter_state::{PacketsLeft, TokensLeft};
use super::ran_congestion::ReportedCongestion;
use super::session_image::SessionImage;
use crate::model::{FarId, UrrId};

/// One operation on a worker's sessions.
#[derive(Clone, Debug)]
pub enum SessionChange {
    /// A session that the worker does not have.
    Install(Box<SessionImage>),
    /// A session that the worker has, by its index.
    Replace(Box<SessionImage>, ImmediateActions),
    /// These counters of URRs get other watermarks and limits, compared with what they have counted in all; those
    /// that were stopped continue, unless they are beyond their limit. No flow is touched.
    Bound(SessionIndex, Vec<(Counter, Bounds)>),
    /// The session goes.
    Remove(SessionIndex),
}

/// What the worker does for the rules that a change replaces, at the moment of the change.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ImmediateActions {
    /// The FARs into whose old tunnels an End Marker is sent, behind the last packet (SNDEM, TS 29.244 §5.3.2).
    pub end_markers: Vec<FarId>,
    /// Packets that wait are thrown away and not sent (DROBU, TS 29.244 §8.2.31).
    pub discards_buffered: bool,
    /// The DL Buffering Duration is over: Control is notified of them where FARs request it (DDPN, §5.28.1).
    pub tells_discarded: bool,
}

impl SessionChange {
    /// The session that changes.
    pub fn session(&self) -> SessionIndex {
        match self {
            Self::Install(image) | Self::Replace(image, _) => image.session,
            Self::Bound(session, _) | Self::Remove(session) => *session,
        }
    }
}

/// Final counts: of the URRs that a Replace took away, or of all of them after a Remove. After a Replace by an image
/// that is [`Leaving`](super::MeterShare::Leaving): of all of them at that moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UsageSnapshot {
    /// The session.
    pub session: SessionIndex,
    /// What each URR counted.
    pub counters: Vec<(UrrId, UrrCount)>,
    /// When the packets came that URRs have counted since the last snapshot; each time is in one snapshot only.
    pub times: Vec<(UrrId, PacketTimes)>,
    /// What was counted before QoS enforcement since the last snapshot, of URRs that report it.
    pub before_qos: Vec<(UrrId, UrrCount)>,
    /// What was counted of contents since the last snapshot, of contents that are gone: of all after a Remove or a
    /// Replace by another session, else of those that a Replace took away.
    pub contents: Vec<ContentUsage>,
    /// What is left of each packet rate, or what was taken away of it for the worker that the session goes to.
    pub packets: Vec<PacketsLeft>,
    /// What the meters of bit rates hold: after a Remove, and to a query.
    pub tokens: Vec<TokensLeft>,
    /// The mappings of a NAT: after a Remove, and after a Replace by an image that is leaving.
    pub mappings: Vec<MovedMapping>,
    /// After a Remove: what was dropped of URRs that report it, and was not reported yet.
    pub dropped: Vec<DroppedCount>,
    /// What the RAN has reported of QoS flows that are marked for L4S: after a Remove, and after a Replace by an image
    /// that is leaving.
    pub congestion: Vec<ReportedCongestion>,
}

impl UsageSnapshot {
    /// Whether there is nothing of the session in it.
    pub fn is_empty(&self) -> bool {
        let Self {
            session: _,
            counters,
            times,
            before_qos,
            contents,
            packets,
            tokens,
            mappings,
            dropped,
            congestion,
        } = self;
        counters.is_empty()
            && times.is_empty()
            && before_qos.is_empty()
            && contents.is_empty()
            && packets.is_empty()
            && tokens.is_empty()
            && mappings.is_empty()
            && dropped.is_empty()
            && congestion.is_empty()
    }
}
