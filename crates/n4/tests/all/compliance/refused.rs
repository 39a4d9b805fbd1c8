//! Good requests, and IEs that are put into them to be refused.

use std::net::Ipv4Addr;

use crate::support::wire::*;
use crate::support::*;

/// Where an IE is put: a request's type, and the groups from the outermost to the one that gets it.
pub type Place = (u8, &'static [u16]);

/// Where the IEs of a table stand in requests.
pub fn places(table: &str) -> &'static [Place] {
    match table {
        "7.5.2.1-1" => &[(50, &[])],
        "7.5.4.1-1" => &[(52, &[])],
        "7.5.2.2-1" => &[(50, &[1]), (52, &[1])],
        "7.5.2.2-2" => &[(50, &[1, 2]), (52, &[1, 2]), (52, &[9, 2])],
        "7.5.4.2-1" => &[(52, &[9])],
        "7.5.2.3-1" => &[(50, &[3]), (52, &[3])],
        "7.5.2.3-2" => &[(50, &[3, 4]), (52, &[3, 4])],
        "7.5.4.3-1" => &[(52, &[10])],
        "7.5.4.3-2" => &[(52, &[10, 11])],
        "7.5.2.4-1" => &[(50, &[6]), (52, &[6])],
        "7.5.4.4-1" => &[(52, &[13])],
        "7.5.2.5-1" => &[(50, &[7]), (52, &[7])],
        "7.5.4.5-1" => &[(52, &[14])],
        "7.5.2.6-1" => &[(50, &[85])],
        "7.5.4.11-1" => &[(52, &[86])],
        "7.5.2.7-1" => &[(50, &[127]), (52, &[127])],
        "7.5.4.13-1" => &[(52, &[129])],
        other => panic!("nothing is refused in {other} as yet"),
    }
}

/// A session with one of everything.
pub fn establishment(cp: u64, ue: Ipv4Addr) -> Vec<Octets> {
    let mut session = plain_session(cp, ue);
    session.push(create_bar(&[bar_id(1)]));
    session.push(group(127, &[ie(131, [1]), choose(V4, None)]));
    session
}

/// A change of everything in it, and something new of every kind.
pub fn modification() -> Vec<Octets> {
    vec![
        create_pdr(&[
            pdr_id(9),
            precedence(50),
            pdi(&[source_if(ACCESS), choose(V4, None)]),
            outer_header_removal(0),
            far_id(9),
        ]),
        create_far(&[
            far_id(9),
            apply_action(&[FORW]),
            forwarding(&[destination_if(CORE)]),
        ]),
        create_urr(&[urr_id(9), method(2), triggers(&[2, 0, 0])]),
        create_qer(&[qer_id(9), gate(0, 0)]),
        group(127, &[ie(131, [9]), choose(V4, None)]),
        update_pdr(&[pdr_id(2), precedence(90), pdi(&[source_if(CORE)])]),
        update_far(&[far_id(2), update_forwarding(&[destination_if(ACCESS)])]),
        group(13, &[urr_id(1), triggers(&[0, 0, 0])]),
        group(14, &[qer_id(1), gate(1, 1)]),
        group(86, &[bar_id(1), ie(140, [7])]),
        group(129, &[ie(131, [1]), qfi(5)]),
    ]
}

/// What is known of the one session.
pub fn rules(world: &World) -> String {
    let session = world.only_session();
    format!("{:?} {:?}", session.cp(), session.rules())
}

/// Sends a good request with one IE more, and sees to it that nothing has changed.
pub fn ask(world: &mut World, seid: u64, (message_type, groups): Place, ie_type: u16) -> Reply {
    let (seid, mut request) = match message_type {
        50 => (0, establishment(2, Ipv4Addr::new(10, 45, 0, 3))),
        _ => (seid, modification()),
    };
    put(&mut request, groups, &ie(ie_type, value(ie_type)));
    let before = rules(world);
    let reply = world.ask(message_type, Some(seid), &request);
    assert_eq!(rules(world), before, "{ie_type} changed something");
    reply
}

/// Puts an IE at the end of the first group of these types.
fn put(ies: &mut Vec<Octets>, groups: &[u16], added: &[u8]) {
    let Some((outermost, inner)) = groups.split_first() else {
        ies.push(added.to_vec());
        return;
    };
    let place = ies.iter_mut().find(|ie| tlvs(ie)[0].0 == *outermost).unwrap();
    let members = tlvs(&place[4..]).into_iter();
    let mut members: Vec<Octets> = members.map(|(ie_type, value)| ie(ie_type, value)).collect();
    put(&mut members, inner, added);
    *place = group(*outermost, &members);
}

/// IEs as types and values.
pub fn tlvs(mut octets: &[u8]) -> Vec<(u16, &[u8])> {
    let mut all = Vec::new();
    while let [a, b, c, d, behind @ ..] = octets {
        let length = u16::from_be_bytes([*c, *d]);
        let (value, rest) = behind.split_at(length.into());
        all.push((u16::from_be_bytes([*a, *b]), value));
        octets = rest;
    }
    all
}

/// A good value of an IE.
fn value(ie_type: u16) -> Octets {
    let filled: &[Octets] = match ie_type {
        // Ethernet Packet Filter: Ethertype.
        132 => &[ie(136, [8, 0])],
        // Additional Monitoring Time.
        147 => &[ie(33, [0, 0, 0, 9])],
        // MARs: ID, functionality, mode.
        165 | 168 | 169 => &[ie(170, [0, 1]), ie(171, [1]), ie(172, [1])],
        // IP Multicast Addressing Info.
        188 => &[ie(191, [2, 239, 0, 0, 1])],
        // TSC Management Information: NW-TT port.
        199 => &[ie(197, [0, 0, 0, 1])],
        // SRRs.
        211..=213 => &[ie(215, [1])],
        // ATSSS: MPTCP.
        220 => &[ie(222, [1])],
        // Ethernet Context Information: one MAC address.
        254 => &[ie(144, [1, 2, 0, 0, 0, 0, 1])],
        // Redundant transmission: F-TEID; outer header.
        255 => &[f_teid(7, N3)],
        270 => &[outer_header_creation(7, GNB)],
        261 => &[ie(262, [1])],
        263 => &[qer_id(1)],
        // Transport Delay Reporting: peer.
        271 => &[ie(103, [2, 192, 0, 2, 20])],
        // L2TP: LNS; indications.
        276 => &[ie(280, [192, 0, 2, 30])],
        277 => &[ie(284, [1])],
        // MBS: session.
        300 | 310 => &[ie(305, [1, 1, 2, 3, 4, 5, 6])],
        301 => &[destination_if(ACCESS), outer_header_creation(7, GNB)],
        302 => &[
            destination_if(ACCESS),
            ie(309, [0, 1]),
            outer_header_creation(7, GNB),
        ],
        304 => &[ie(309, [0, 1])],
        // DSCP to PPI.
        316 => &[ie(317, [1, 46])],
        _ => return leaf(ie_type),
    };
    filled.concat()
}

fn leaf(ie_type: u16) -> Octets {
    let value: &[u8] = match ie_type {
        // SDF Filter.
        23 => return tlvs(&sdf("permit out ip from any to assigned"))[0].1.to_vec(),
        // Application ID; Activate and Deactivate Predefined Rules.
        24 | 106 | 107 => b"name",
        // URL.
        38 => b"\x02\x00\x0ehttp://a.test/",
        // Forwarding Policy, by name.
        41 => b"\x06policy",
        // Dropped DL Traffic Threshold: packets.
        72 => &[1, 0, 0, 0, 0, 0, 0, 0, 9],
        // Subsequent thresholds and quotas: octets in total.
        34 | 121 => &[1, 0, 0, 0, 0, 0, 0, 0, 9],
        // Packet rates, uplink: 9 a minute; 9 left until a time.
        94 => &[1, 0, 0, 9],
        193 => &[1, 0, 9, 0, 0, 0, 9, 0, 0, 0, 0],
        // HTTP header.
        98 => b"\x00\x01a\x01b",
        // Time Quota Mechanism.
        115 => &[0, 0, 0, 0, 9],
        // Replacement of the destination.
        293 => &[1, 0, 192, 0, 2, 40],
        294 => b"\x00\x02{}",
        // TMGI.
        305 => &[1, 1, 2, 3, 4, 5, 6],
        // CHOOSE.
        308 => &[5],
        // One octet of flags.
        137 | 142 | 179 | 194 | 219 | 249 | 251 | 265 => &[1],
        // Numbers of two octets, and of four.
        170 | 182 | 314 => &[0, 1],
        28 | 33 | 35 | 36 | 71 | 82 | 108 | 117 | 122 | 146 | 148 | 149 | 150 | 151 | 163 | 164 => {
            &[0, 0, 0, 1]
        }
        other => panic!("no value of {other} is known"),
    };
    value.to_vec()
}
