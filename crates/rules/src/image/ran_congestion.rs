//! What base stations have reported of the congestion of QoS flows (ECN marking for L4S on behalf of the RAN, TS 23.501
//! §5.37.3), where workers hand a session over.

use flow::Nanos;
use packet::Qfi;

/// The last reports of a QoS flow whose packets are marked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReportedCongestion {
    /// The QoS flow; `None`: its QERs name none, and all reports of the session are for it.
    pub qfi: Option<Qfi>,
    /// By [`Direction`](flow::Direction); `None` where nothing was reported.
    pub reports: [Option<CongestionReport>; 2],
}

/// The last report of one direction, and how far it is carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CongestionReport {
    /// When it came.
    pub at: Nanos,
    /// The part of the packets that is marked, in 0.01 percent: 0 to 10,000.
    pub part: u16,
    /// What packets so far lack of a mark, in 0.01 percent of a packet: below 10,000.
    pub owed: u16,
}
