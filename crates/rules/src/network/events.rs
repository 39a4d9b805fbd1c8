//! Events: what is counted of an application's packets, by configuration (TS 29.244 §5.2.2.2.1, NOTE 7).
//!
//! Each packet says for itself whether it is an event: nothing is remembered from one to the next.

use std::collections::BTreeMap;

use packet::tuple::proto;
use packet::{Fragment, IpTuple, tcp, udp};

use super::error::NetworkError;

/// Octets of a header of DNS (RFC 1035 §4.1.1).
const DNS_HEADER: usize = 12;
/// The port of DNS.
const DNS_PORT: u16 = 53;

/// What makes a packet an event, a set of flags: any of these does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct EventLogic(pub u8);

impl EventLogic {
    /// It is a packet.
    pub const PACKET: Self = Self(1);
    /// It asks for a TCP connection: SYN without ACK, in no fragment. One that is sent again is another event.
    pub const TCP_CONNECTION: Self = Self(1 << 1);
    /// It asks DNS something: a message over UDP to port 53 that is no response, in no fragment.
    pub const DNS_REQUEST: Self = Self(1 << 2);

    /// Whether one of `logic` is among these.
    pub const fn intersects(self, logic: Self) -> bool {
        self.0 & logic.0 != 0
    }

    /// These and those of `logic`.
    #[must_use]
    pub const fn with(self, logic: Self) -> Self {
        Self(self.0 | logic.0)
    }

    /// Whether a user packet is an event. `tuple` is what its headers say, `packet` the packet from its IP header on;
    /// of one in several pieces, the first.
    pub fn detects(self, tuple: &IpTuple, packet: &[u8]) -> bool {
        if self.intersects(Self::PACKET) {
            return true;
        }
        if tuple.fragment != Fragment::None {
            return false;
        }
        let (start, end) = (usize::from(tuple.l4_offset), usize::from(tuple.total_len));
        let transport = packet.get(start..end.min(packet.len())).unwrap_or_default();
        match tuple.proto {
            proto::TCP => self.intersects(Self::TCP_CONNECTION) && asks_for_connection(transport),
            proto::UDP => {
                self.intersects(Self::DNS_REQUEST) && tuple.dst_port == DNS_PORT && is_dns_request(transport)
            }
            _ => false,
        }
    }
}

fn asks_for_connection(segment: &[u8]) -> bool {
    let flags = segment.get(tcp::FLAGS_AT);
    flags.is_some_and(|flags| flags & (tcp::flags::SYN | tcp::flags::ACK) == tcp::flags::SYN)
}

fn is_dns_request(datagram: &[u8]) -> bool {
    let message = datagram.get(udp::HEADER_LEN..).unwrap_or_default();
    message.len() >= DNS_HEADER && message[2] & 0x80 == 0
}

/// What is an event, by the Application ID whose packets it is among.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct EventTable(BTreeMap<Box<[u8]>, EventLogic>);

impl EventTable {
    /// # Errors
    /// [`NetworkError::Event`]: the first whose application has no identifier or another's, or that detects nothing.
    pub(super) fn new(events: Vec<(Box<[u8]>, EventLogic)>) -> Result<Self, NetworkError> {
        let mut table = BTreeMap::new();
        for (application, logic) in events {
            let is_bad = application.is_empty() || logic == EventLogic::default();
            if is_bad || table.contains_key(&application) {
                return Err(NetworkError::Event(application.escape_ascii().to_string()));
            }
            table.insert(application, logic);
        }
        Ok(Self(table))
    }

    /// The events of the application with this identifier.
    pub(super) fn of(&self, application: &[u8]) -> Option<EventLogic> {
        self.0.get(application).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Network;

    fn ipv4(proto: u8, fragment: [u8; 2], transport: &[u8]) -> Vec<u8> {
        let length = 20 + transport.len() as u16;
        let [high, low] = length.to_be_bytes();
        let mut packet = vec![
            0x45,
            0,
            high,
            low,
            0,
            1,
            fragment[0],
            fragment[1],
            64,
            proto,
            0,
            0,
            10,
            45,
            0,
            2,
            8,
            8,
            8,
            8,
        ];
        packet.extend_from_slice(transport);
        packet
    }

    fn detects(logic: EventLogic, packet: &[u8]) -> bool {
        let tuple = IpTuple::parse(packet, packet.len()).expect("a packet");
        logic.detects(&tuple, packet)
    }

    fn segment(flags: u8) -> Vec<u8> {
        let mut segment = vec![0; 20];
        (segment[12], segment[13]) = (0x50, flags);
        segment
    }

    fn query(port: u16, flags: u8) -> Vec<u8> {
        let [high, low] = port.to_be_bytes();
        let mut datagram = vec![0x30, 0x39, high, low, 0, 20, 0, 0, 0, 7, flags, 0];
        datagram.resize(20, 0);
        datagram
    }

    #[test]
    fn a_connection_is_asked_for_by_syn_without_ack() {
        let logic = EventLogic::TCP_CONNECTION;
        for (flags, is_event) in [
            (0x02, true),
            (0x12, false),
            (0x10, false),
            (0xc2, true),
            (0x06, true),
            (0, false),
        ] {
            assert_eq!(
                detects(logic, &ipv4(6, [0, 0], &segment(flags))),
                is_event,
                "{flags:#x}"
            );
        }
        assert!(
            !detects(logic, &ipv4(6, [0x20, 0], &segment(2))),
            "a first fragment"
        );
        assert!(!detects(logic, &ipv4(6, [0x20, 9], &segment(2))), "one behind it");
        assert!(!detects(logic, &ipv4(17, [0, 0], &query(53, 0))));
        let mut padded = ipv4(6, [0, 0], &segment(2)[..12]);
        padded.extend([0x50, 2, 0, 0]);
        let tuple = IpTuple::parse(&padded[..32], 32);
        assert!(
            tuple.is_err() || !logic.detects(&tuple.unwrap(), &padded),
            "what is behind the end says nothing"
        );
    }

    #[test]
    fn a_request_of_dns_is_no_response_and_to_its_port() {
        let logic = EventLogic::DNS_REQUEST;
        assert!(detects(logic, &ipv4(17, [0, 0], &query(53, 1))));
        assert!(!detects(logic, &ipv4(17, [0, 0], &query(53, 0x81))));
        assert!(!detects(logic, &ipv4(17, [0, 0], &query(5353, 0))));
        let mut short = query(53, 0);
        short.truncate(19);
        short[5] = 19;
        assert!(!detects(logic, &ipv4(17, [0, 0], &short)));
        assert!(!detects(logic, &ipv4(6, [0, 0], &segment(2))));
    }

    #[test]
    fn any_logic_of_several_is_enough_and_a_packet_is_one_of_all() {
        let both = EventLogic::DNS_REQUEST.with(EventLogic::TCP_CONNECTION);
        assert!(
            detects(both, &ipv4(17, [0, 0], &query(53, 0))) && detects(both, &ipv4(6, [0, 0], &segment(2)))
        );
        assert!(detects(EventLogic::PACKET, &ipv4(6, [0x20, 9], &[1, 2, 3])));
        assert!(!detects(both, &ipv4(1, [0, 0], &[8, 0, 0, 0, 0, 0, 0, 0])));
    }

    #[test]
    fn an_application_has_events_once() {
        let one = |id: &[u8], logic| (id.into(), logic);
        let with = |events| Network::default().with_events(events);
        let network = with(vec![one(b"web", EventLogic::TCP_CONNECTION)]).expect("nothing is wrong");
        assert_eq!(network.events(b"web"), Some(EventLogic::TCP_CONNECTION));
        assert_eq!(network.events(b"Web"), None);
        let twice = vec![one(b"web", EventLogic::PACKET), one(b"web", EventLogic::PACKET)];
        for bad in [
            twice,
            vec![one(b"", EventLogic::PACKET)],
            vec![one(b"web", EventLogic::default())],
        ] {
            assert!(matches!(with(bad), Err(NetworkError::Event(_))));
        }
    }
}
