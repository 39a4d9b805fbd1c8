//! Which packets are events (TS 29.244 §5.2.2.2.1, NOTE 7).

use packet::IpTuple;
use packet::tuple::proto;

use super::session::Session;
use crate::model::{MeasurementMethod, Pdr, UrrId};
use crate::network::EventLogic;

/// The PDR's URRs that count a packet as an event, by what is configured for its application.
pub(super) fn events(session: Session<'_>, pdr: &Pdr, tuple: &IpTuple, packet: &[u8]) -> Vec<UrrId> {
    let application = pdr.pdi.optional.application.as_ref();
    let logic = application.and_then(|application| session.network.events(&application.id));
    if !logic.is_some_and(|logic| is_event(logic, tuple, packet)) {
        return Vec::new();
    }
    let urrs = session
        .rules
        .urrs()
        .iter()
        .filter(|urr| pdr.urrs.contains(&urr.id));
    let counting = urrs.filter(|urr| urr.method.contains(MeasurementMethod::EVENT) && !urr.is_paused());
    counting.map(|urr| urr.id).collect()
}

fn is_event(logic: EventLogic, tuple: &IpTuple, packet: &[u8]) -> bool {
    let at = |place: usize| packet.get(usize::from(tuple.l4_offset) + place).copied();
    let length = usize::from(tuple.total_len) - usize::from(tuple.l4_offset);
    let is_whole = tuple.fragment == packet::Fragment::None;
    let has_syn =
        tuple.proto == proto::TCP && length > 13 && at(13).is_some_and(|flags| flags & 0x12 == 0x02);
    let is_query = tuple.proto == proto::UDP
        && tuple.dst_port == 53
        && length >= 8 + 12
        && at(8 + 2).is_some_and(|flags| flags < 0x80);
    logic.intersects(EventLogic::PACKET)
        || logic.intersects(EventLogic::TCP_CONNECTION) && is_whole && has_syn
        || logic.intersects(EventLogic::DNS_REQUEST) && is_whole && is_query
}
