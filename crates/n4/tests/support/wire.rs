//! PFCP in octets, written without the codec: what peers send, the odd things included.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub type Octets = Vec<u8>;

/// One IE: type, length, value.
pub fn ie(ie_type: u16, value: impl AsRef<[u8]>) -> Octets {
    let value = value.as_ref();
    let mut octets = ie_type.to_be_bytes().to_vec();
    octets.extend(u16::try_from(value.len()).unwrap().to_be_bytes());
    octets.extend(value);
    octets
}

/// A grouped IE.
pub fn group(ie_type: u16, ies: &[Octets]) -> Octets {
    ie(ie_type, ies.concat())
}

/// A whole message.
pub fn message(message_type: u8, seid: Option<u64>, sequence: u32, ies: &[Octets]) -> Octets {
    let body = ies.concat();
    let mut octets = vec![0x20 | u8::from(seid.is_some()), message_type];
    let length = body.len() + if seid.is_some() { 12 } else { 4 };
    octets.extend(u16::try_from(length).unwrap().to_be_bytes());
    octets.extend(seid.into_iter().flat_map(u64::to_be_bytes));
    octets.extend(&sequence.to_be_bytes()[1..]);
    octets.push(0);
    octets.extend(body);
    octets
}

pub fn node_v4(address: Ipv4Addr) -> Octets {
    ie(60, [&[0], &address.octets()[..]].concat())
}

pub fn node_v6(address: Ipv6Addr) -> Octets {
    ie(60, [&[1], &address.octets()[..]].concat())
}

/// A Node ID that is a name, in the octets given.
pub fn node_name(name: &[u8]) -> Octets {
    ie(60, [&[2], name].concat())
}

/// A dotted name in DNS labels.
pub fn labels(name: &str) -> Octets {
    name.split('.')
        .flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat())
        .collect()
}

pub fn recovery(seconds: u32) -> Octets {
    ie(96, seconds.to_be_bytes())
}

pub fn cp_features(bits: u8) -> Octets {
    ie(89, [bits])
}

pub fn f_seid(seid: u64, address: IpAddr) -> Octets {
    let (flags, address) = match address {
        IpAddr::V4(address) => (2, address.octets().to_vec()),
        IpAddr::V6(address) => (1, address.octets().to_vec()),
    };
    ie(57, [&[flags], &seid.to_be_bytes()[..], &address].concat())
}

pub fn pdr_id(id: u16) -> Octets {
    ie(56, id.to_be_bytes())
}

pub fn precedence(value: u32) -> Octets {
    ie(29, value.to_be_bytes())
}

pub fn far_id(id: u32) -> Octets {
    ie(108, id.to_be_bytes())
}

pub fn qer_id(id: u32) -> Octets {
    ie(109, id.to_be_bytes())
}

pub fn urr_id(id: u32) -> Octets {
    ie(81, id.to_be_bytes())
}

pub fn bar_id(id: u8) -> Octets {
    ie(88, [id])
}

pub const ACCESS: u8 = 0;
pub const CORE: u8 = 1;
pub const SGI_LAN: u8 = 2;
pub const CP: u8 = 3;

pub fn source_if(side: u8) -> Octets {
    ie(20, [side])
}

pub fn destination_if(side: u8) -> Octets {
    ie(42, [side])
}

pub fn network_instance(name: impl AsRef<[u8]>) -> Octets {
    ie(22, name)
}

/// S/D bit and IPv4 address.
pub fn ue_ip(is_destination: bool, address: Ipv4Addr) -> Octets {
    ie(
        93,
        [&[2 | u8::from(is_destination) << 2], &address.octets()[..]].concat(),
    )
}

pub fn f_teid(teid: u32, address: Ipv4Addr) -> Octets {
    ie(21, [&[1], &teid.to_be_bytes()[..], &address.octets()].concat())
}

pub const V4: u8 = 1;
pub const V6: u8 = 2;

/// CHOOSE with these family flags, and a CHOOSE ID if one is given.
pub fn choose(families: u8, id: Option<u8>) -> Octets {
    let flags = 4 | families | u8::from(id.is_some()) << 3;
    ie(21, std::iter::once(flags).chain(id).collect::<Octets>())
}

pub fn qfi(value: u8) -> Octets {
    ie(124, [value])
}

pub fn sdf(description: &str) -> Octets {
    let length = u16::try_from(description.len()).unwrap().to_be_bytes();
    ie(23, [&[1, 0], &length[..], description.as_bytes()].concat())
}

/// A filter with its SDF Filter ID alone.
pub fn sdf_id(id: u32) -> Octets {
    ie(23, [&[0x10, 0], &id.to_be_bytes()[..]].concat())
}

pub fn interface_type(value: u8) -> Octets {
    ie(160, [value])
}

pub fn outer_header_removal(value: u8) -> Octets {
    ie(95, [value])
}

pub fn outer_header_creation(teid: u32, address: Ipv4Addr) -> Octets {
    ie(84, [&[1, 0], &teid.to_be_bytes()[..], &address.octets()].concat())
}

pub const DROP: u8 = 1;
pub const FORW: u8 = 2;
pub const BUFF: u8 = 4;
pub const NOCP: u8 = 8;

/// One octet, as up to release 15, or two.
pub fn apply_action(octets: &[u8]) -> Octets {
    ie(44, octets)
}

pub fn gate(uplink: u8, downlink: u8) -> Octets {
    ie(25, [uplink << 2 | downlink])
}

pub fn mbr(uplink_kbps: u64, downlink_kbps: u64) -> Octets {
    ie(
        26,
        [&uplink_kbps.to_be_bytes()[3..], &downlink_kbps.to_be_bytes()[3..]].concat(),
    )
}

pub fn gbr(uplink_kbps: u64, downlink_kbps: u64) -> Octets {
    ie(
        27,
        [&uplink_kbps.to_be_bytes()[3..], &downlink_kbps.to_be_bytes()[3..]].concat(),
    )
}

pub fn pdi(ies: &[Octets]) -> Octets {
    group(2, ies)
}

pub fn create_pdr(ies: &[Octets]) -> Octets {
    group(1, ies)
}

pub fn create_far(ies: &[Octets]) -> Octets {
    group(3, ies)
}

pub fn forwarding(ies: &[Octets]) -> Octets {
    group(4, ies)
}

pub fn create_urr(ies: &[Octets]) -> Octets {
    group(6, ies)
}

pub fn create_qer(ies: &[Octets]) -> Octets {
    group(7, ies)
}

pub fn update_pdr(ies: &[Octets]) -> Octets {
    group(9, ies)
}

pub fn update_far(ies: &[Octets]) -> Octets {
    group(10, ies)
}

pub fn update_forwarding(ies: &[Octets]) -> Octets {
    group(11, ies)
}

pub fn create_bar(ies: &[Octets]) -> Octets {
    group(85, ies)
}

/// Measurement Method: 1 duration, 2 volume.
pub fn method(bits: u8) -> Octets {
    ie(62, [bits])
}

pub fn triggers(octets: &[u8]) -> Octets {
    ie(37, octets)
}
