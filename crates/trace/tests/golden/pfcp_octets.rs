//! PFCP requests in octets, from the names of TS 29.244 in a script. Written without the codec, so that the two check
//! each other, and so that a script can say what no good SMF says.

use serde_json::Value;

use crate::value::{self, Fault, Fields, Taker};

/// What an IE's value looks like in a script, and in octets.
#[derive(Clone, Copy)]
enum Form {
    /// IEs in an IE.
    Group,
    /// A number of a given length in octets.
    Number(usize),
    /// One of these texts, counted from 0.
    Code(&'static [&'static str]),
    /// Any of these texts, from bit 1 of octet 5 on, in a given number of octets.
    Flags(&'static [&'static str], usize),
    /// Octets as text.
    Text,
    /// Whatever the function makes.
    Made(fn(&str, &Value) -> Result<Vec<u8>, Fault>),
}

const INTERFACES: Form = Form::Code(&["Access", "Core", "SGi-LAN", "CP-function", "LI-function"]);
const ACTIONS: Form = Form::Flags(&["DROP", "FORW", "BUFF", "NOCP", "DUPL"], 1);
const TRIGGERS: Form = Form::Flags(
    &[
        "PERIO", "VOLTH", "TIMTH", "QUHTI", "START", "STOPT", "DROTH", "LIUSA", "VOLQU", "TIMQU", "ENVCL",
        "MACAR", "EVETH", "EVEQU",
    ],
    3,
);

/// Name, type and form of the IEs that scripts use.
const IES: &[(&str, u16, Form)] = &[
    ("create_pdr", 1, Form::Group),
    ("pdi", 2, Form::Group),
    ("create_far", 3, Form::Group),
    ("forwarding_parameters", 4, Form::Group),
    ("duplicating_parameters", 5, Form::Group),
    ("create_urr", 6, Form::Group),
    ("create_qer", 7, Form::Group),
    ("update_pdr", 9, Form::Group),
    ("update_far", 10, Form::Group),
    ("update_forwarding_parameters", 11, Form::Group),
    ("update_urr", 13, Form::Group),
    ("update_qer", 14, Form::Group),
    ("remove_pdr", 15, Form::Group),
    ("remove_far", 16, Form::Group),
    ("remove_urr", 17, Form::Group),
    ("remove_qer", 18, Form::Group),
    ("source_interface", 20, INTERFACES),
    ("f_teid", 21, Form::Made(f_teid)),
    ("network_instance", 22, Form::Text),
    ("sdf_filter", 23, Form::Made(sdf_filter)),
    ("application_id", 24, Form::Text),
    ("gate_status", 25, Form::Made(gate_status)),
    ("mbr", 26, Form::Made(bit_rate)),
    ("gbr", 27, Form::Made(bit_rate)),
    ("precedence", 29, Form::Number(4)),
    ("transport_level_marking", 30, Form::Made(value::hex)),
    ("volume_threshold", 31, Form::Made(volume)),
    ("reporting_triggers", 37, TRIGGERS),
    ("redirect_information", 38, Form::Made(redirect_information)),
    ("forwarding_policy", 41, Form::Made(forwarding_policy)),
    ("destination_interface", 42, INTERFACES),
    ("apply_action", 44, ACTIONS),
    (
        "pfcpsmreq_flags",
        49,
        Form::Flags(&["DROBU", "SNDEM", "QAURR", "SUMPC", "RUMUC"], 1),
    ),
    ("pdr_id", 56, Form::Number(2)),
    ("cp_f_seid", 57, Form::Made(f_seid)),
    ("application_ids_pfds", 58, Form::Group),
    ("pfd_context", 59, Form::Group),
    ("node_id", 60, Form::Made(node_id)),
    ("pfd_contents", 61, Form::Made(flow_of_application)),
    (
        "measurement_method",
        62,
        Form::Flags(&["DURAT", "VOLUM", "EVENT"], 1),
    ),
    ("dropped_dl_traffic_threshold", 72, Form::Made(dropped)),
    ("volume_quota", 73, Form::Made(volume)),
    ("query_urr", 77, Form::Group),
    ("urr_id", 81, Form::Number(4)),
    ("linked_urr_id", 82, Form::Number(4)),
    ("outer_header_creation", 84, Form::Made(outer_header_creation)),
    ("create_bar", 85, Form::Group),
    ("bar_id", 88, Form::Number(1)),
    ("ue_ip_address", 93, Form::Made(ue_ip_address)),
    ("packet_rate", 94, Form::Made(packet_rate)),
    ("outer_header_removal", 95, Form::Made(outer_header_removal)),
    ("recovery_time_stamp", 96, Form::Number(4)),
    (
        "measurement_information",
        100,
        Form::Flags(
            &["MBQE", "INAM", "RADI", "ISTM", "MNOP", "SSPOC", "ASPOC", "CIAM"],
            1,
        ),
    ),
    ("update_duplicating_parameters", 105, Form::Group),
    ("activate_predefined_rules", 106, Form::Text),
    ("deactivate_predefined_rules", 107, Form::Text),
    ("far_id", 108, Form::Number(4)),
    ("qer_id", 109, Form::Number(4)),
    ("user_plane_inactivity_timer", 117, Form::Number(4)),
    ("aggregated_urrs", 118, Form::Group),
    ("multiplier", 119, Form::Made(multiplier)),
    ("aggregated_urr_id", 120, Form::Number(4)),
    ("rqi", 123, Form::Number(1)),
    ("qfi", 124, Form::Number(1)),
    ("event_quota", 148, Form::Number(4)),
    ("event_threshold", 149, Form::Number(4)),
    ("paging_policy_indicator", 158, Form::Number(1)),
    ("source_interface_type", 160, Form::Number(1)),
    ("packet_rate_status", 193, Form::Made(packet_rate_status)),
    ("qer_control_indications", 251, Form::Flags(&["RCSR"], 1)),
    ("query_packet_rate_status", 263, Form::Group),
    ("qer_correlation_id", 28, Form::Number(4)),
    ("destination_interface_type", 160, Form::Number(1)),
];

/// A whole message.
pub fn message(kind: u8, seid: Option<u64>, sequence: u32, ies: &Fields) -> Result<Vec<u8>, Fault> {
    let body = group(ies)?;
    let mut octets = vec![0x20 | u8::from(seid.is_some()), kind];
    let length = body.len() + if seid.is_some() { 12 } else { 4 };
    octets.extend((length as u16).to_be_bytes());
    octets.extend(seid.into_iter().flat_map(u64::to_be_bytes));
    octets.extend(&sequence.to_be_bytes()[1..]);
    octets.push(0);
    octets.extend(body);
    Ok(octets)
}

/// The IEs of a mapping. A list is the same IE several times, `hex` whole IEs in octets.
fn group(ies: &Fields) -> Result<Vec<u8>, Fault> {
    let mut octets = Vec::new();
    for (name, value) in ies {
        if name == "hex" {
            octets.extend(value::hex(name, value)?);
            continue;
        }
        let known = IES.iter().find(|(known, ..)| known == name);
        let (_, kind, form) = known.ok_or_else(|| format!("{name}: no IE that scripts know"))?;
        let one = std::slice::from_ref(value);
        let is_one = matches!(form, Form::Flags(..));
        let several = value.as_array().filter(|_| !is_one);
        for value in several.map_or(one, Vec::as_slice) {
            let inner = octets_of(name, *form, value)?;
            octets.extend(kind.to_be_bytes());
            octets.extend((inner.len() as u16).to_be_bytes());
            octets.extend(inner);
        }
    }
    Ok(octets)
}

fn octets_of(name: &str, form: Form, value: &Value) -> Result<Vec<u8>, Fault> {
    match form {
        Form::Group => group(value::fields(name, value)?),
        Form::Number(octets) => Ok(value::number(name, value)?.to_be_bytes()[8 - octets..].to_vec()),
        Form::Code(texts) => {
            let place = texts.iter().position(|text| value == text);
            let place = place.ok_or_else(|| format!("{name}: {value} is none of {texts:?}"))?;
            Ok(vec![place as u8])
        }
        Form::Flags(texts, octets) => {
            let mut bits = 0_u32;
            for flag in value
                .as_array()
                .map_or(std::slice::from_ref(value), Vec::as_slice)
            {
                let place = texts.iter().position(|text| flag == text);
                bits |= 1 << place.ok_or_else(|| format!("{name}: {flag} is none of {texts:?}"))?;
            }
            Ok(bits.to_le_bytes()[..octets].to_vec())
        }
        Form::Text => Ok(value::text(name, value)?.as_bytes().to_vec()),
        Form::Made(make) => make(name, value),
    }
}

/// `{teid, ipv4, ipv6}`, or `{choose: [v4, v6], choose_id}` (TS 29.244 §8.2.3).
fn f_teid(name: &str, value: &Value) -> Result<Vec<u8>, Fault> {
    let mut taker = Taker::new(name, value::fields(name, value)?);
    if let Some(families) = taker.take("choose") {
        let has = |family: &str| {
            families
                .as_array()
                .is_some_and(|list| list.iter().any(|one| one == family))
        };
        let id = taker.maybe("choose_id", value::number)?;
        taker.done()?;
        let flags = 4 | u8::from(has("v4")) | u8::from(has("v6")) << 1 | u8::from(id.is_some()) << 3;
        return Ok(std::iter::once(flags).chain(id.map(|id| id as u8)).collect());
    }
    let teid = taker.need("teid", value::number)? as u32;
    let (ipv4, ipv6) = (
        taker.maybe("ipv4", value::ipv4)?,
        taker.maybe("ipv6", value::ipv6)?,
    );
    taker.done()?;
    let mut octets = vec![u8::from(ipv4.is_some()) | u8::from(ipv6.is_some()) << 1];
    octets.extend(teid.to_be_bytes());
    octets.extend(ipv4.iter().flat_map(|address| address.octets()));
    octets.extend(ipv6.iter().flat_map(|address| address.octets()));
    Ok(octets)
}

/// `{packets, octets}` (TS 29.244 §8.2.49).
fn dropped(name: &str, value: &Value) -> Result<Vec<u8>, Fault> {
    let mut taker = Taker::new(name, value::fields(name, value)?);
    let mut octets = vec![0];
    for (bit, field) in [(1, "packets"), (2, "octets")] {
        if let Some(number) = taker.maybe(field, value::number)? {
            octets[0] |= bit;
            octets.extend(number.to_be_bytes());
        }
    }
    taker.done()?;
    Ok(octets)
}

/// Digits and exponent, as in `5e-1` (TS 29.244 §8.2.84).
fn multiplier(name: &str, value: &Value) -> Result<Vec<u8>, Fault> {
    let text = value::text(name, value)?;
    let parts = text.split_once('e');
    let parts = parts.and_then(|(digits, exponent)| {
        let (digits, exponent): (i64, i32) = (digits.parse().ok()?, exponent.parse().ok()?);
        Some([&digits.to_be_bytes()[..], &exponent.to_be_bytes()].concat())
    });
    parts.ok_or_else(|| format!("{name}: {text} is no multiplier such as 5e-1"))
}

/// A URL (TS 29.244 §8.2.20), with no other address.
fn redirect_information(name: &str, value: &Value) -> Result<Vec<u8>, Fault> {
    let url = value::text(name, value)?.as_bytes();
    Ok([&[2], &(url.len() as u16).to_be_bytes()[..], url, &[0, 0]].concat())
}

/// Its identifier (TS 29.244 §8.2.23).
fn forwarding_policy(name: &str, value: &Value) -> Result<Vec<u8>, Fault> {
    let identifier = value::text(name, value)?.as_bytes();
    Ok([&[identifier.len() as u8], identifier].concat())
}

/// A Flow Description as text (TS 29.244 §8.2.39).
fn flow_of_application(name: &str, value: &Value) -> Result<Vec<u8>, Fault> {
    let flow = value::text(name, value)?.as_bytes();
    Ok([&[1, 0], &(flow.len() as u16).to_be_bytes()[..], flow].concat())
}

/// `{seid, ipv4}` (TS 29.244 §8.2.37).
fn f_seid(name: &str, value: &Value) -> Result<Vec<u8>, Fault> {
    let mut taker = Taker::new(name, value::fields(name, value)?);
    let mut octets = vec![2];
    octets.extend(taker.need("seid", value::number)?.to_be_bytes());
    octets.extend(taker.need("ipv4", value::ipv4)?.octets());
    taker.done()?;
    Ok(octets)
}

/// A Flow Description as text, or `{flow_description, tos_traffic_class, spi, flow_label}` (TS 29.244 §8.2.5).
fn sdf_filter(name: &str, value: &Value) -> Result<Vec<u8>, Fault> {
    let mut fields = Fields::new();
    if value.is_string() {
        fields.insert("flow_description".into(), value.clone());
    } else {
        fields = value::fields(name, value)?.clone();
    }
    let mut taker = Taker::new(name, &fields);
    let mut octets = vec![0, 0];
    if let Some(description) = taker.take("flow_description") {
        let text = value::text(name, &description)?;
        octets[0] |= 1;
        octets.extend((text.len() as u16).to_be_bytes());
        octets.extend(text.as_bytes());
    }
    for (bit, field) in [(2, "tos_traffic_class"), (4, "spi"), (8, "flow_label")] {
        if let Some(more) = taker.maybe(field, value::hex)? {
            octets[0] |= bit;
            octets.extend(more);
        }
    }
    taker.done()?;
    Ok(octets)
}

/// `{uplink: open or closed, downlink: open or closed}` (TS 29.244 §8.2.7).
fn gate_status(name: &str, value: &Value) -> Result<Vec<u8>, Fault> {
    let mut taker = Taker::new(name, value::fields(name, value)?);
    let closed = |name: &str, value: &Value| match value::text(name, value)? {
        "open" => Ok(0),
        "closed" => Ok(1),
        other => Err(format!("{name}: {other} is neither open nor closed")),
    };
    let (uplink, downlink) = (taker.need("uplink", closed)?, taker.need("downlink", closed)?);
    taker.done()?;
    Ok(vec![uplink << 2 | downlink])
}

/// `{uplink, downlink}` in kbit/s (TS 29.244 §8.2.8, §8.2.9).
fn bit_rate(name: &str, value: &Value) -> Result<Vec<u8>, Fault> {
    let mut taker = Taker::new(name, value::fields(name, value)?);
    let rates = [
        taker.need("uplink", value::number)?,
        taker.need("downlink", value::number)?,
    ];
    taker.done()?;
    Ok(rates
        .iter()
        .flat_map(|rate| rate.to_be_bytes()[3..].to_vec())
        .collect())
}

/// `{uplink: {packets, unit}, downlink, additional_uplink, additional_downlink}`, those that there are; units of time
/// by number (TS 29.244 §8.2.63).
fn packet_rate(name: &str, value: &Value) -> Result<Vec<u8>, Fault> {
    let mut taker = Taker::new(name, value::fields(name, value)?);
    let per = |name: &str, value: &Value| {
        let mut taker = Taker::new(name, value::fields(name, value)?);
        let packets = taker.need("packets", value::number)? as u16;
        let unit = taker.need("unit", value::number)? as u8;
        taker.done()?;
        Ok([&[unit], &packets.to_be_bytes()[..]].concat())
    };
    let (uplink, downlink) = (taker.maybe("uplink", per)?, taker.maybe("downlink", per)?);
    let (more_up, more_down) = (
        taker.maybe("additional_uplink", per)?,
        taker.maybe("additional_downlink", per)?,
    );
    taker.done()?;
    let has_more = more_up.is_some() || more_down.is_some();
    let flags = u8::from(uplink.is_some()) | u8::from(downlink.is_some()) << 1 | u8::from(has_more) << 2;
    let rates = [uplink, downlink, more_up, more_down];
    Ok(std::iter::once(flags)
        .chain(rates.into_iter().flatten().flatten())
        .collect())
}

/// `{uplink, additional_uplink, downlink, additional_downlink, valid_until}`: packets, and seconds since 1900
/// (TS 29.244 §8.2.139).
fn packet_rate_status(name: &str, value: &Value) -> Result<Vec<u8>, Fault> {
    let mut taker = Taker::new(name, value::fields(name, value)?);
    let mut left = |field: &str| Ok::<_, Fault>(taker.maybe(field, value::number)?.map(|left| left as u16));
    let (uplink, more_up) = (left("uplink")?, left("additional_uplink")?);
    let (downlink, more_down) = (left("downlink")?, left("additional_downlink")?);
    let until = taker.need("valid_until", value::number)? as u32;
    taker.done()?;
    let has_more = more_up.is_some() || more_down.is_some();
    let flags = u8::from(uplink.is_some()) | u8::from(downlink.is_some()) << 1 | u8::from(has_more) << 2;
    let numbers = [uplink, more_up, downlink, more_down];
    let numbers = numbers.into_iter().flatten().flat_map(u16::to_be_bytes);
    let until = (u64::from(until) << 32).to_be_bytes();
    Ok(std::iter::once(flags).chain(numbers).chain(until).collect())
}

/// `{total}`, octets (TS 29.244 §8.2.13).
fn volume(name: &str, value: &Value) -> Result<Vec<u8>, Fault> {
    let mut taker = Taker::new(name, value::fields(name, value)?);
    let total = taker.need("total", value::number)?;
    taker.done()?;
    Ok([&[1], &total.to_be_bytes()[..]].concat())
}

/// An address (TS 29.244 §8.2.38).
fn node_id(name: &str, value: &Value) -> Result<Vec<u8>, Fault> {
    Ok([&[0], &value::ipv4(name, value)?.octets()[..]].concat())
}

/// `{teid, ipv4}` or `{teid, ipv6}`: GTP-U (TS 29.244 §8.2.56).
fn outer_header_creation(name: &str, value: &Value) -> Result<Vec<u8>, Fault> {
    let mut taker = Taker::new(name, value::fields(name, value)?);
    let teid = taker.need("teid", value::number)? as u32;
    let (ipv4, ipv6) = (
        taker.maybe("ipv4", value::ipv4)?,
        taker.maybe("ipv6", value::ipv6)?,
    );
    taker.done()?;
    let mut octets = vec![u8::from(ipv4.is_some()) | u8::from(ipv6.is_some()) << 1, 0];
    octets.extend(teid.to_be_bytes());
    octets.extend(ipv4.iter().flat_map(|address| address.octets()));
    octets.extend(ipv6.iter().flat_map(|address| address.octets()));
    Ok(octets)
}

/// `{ipv4, ipv6, destination: true}`: S/D, as in PDRs for the downlink (TS 29.244 §8.2.62).
fn ue_ip_address(name: &str, value: &Value) -> Result<Vec<u8>, Fault> {
    let mut taker = Taker::new(name, value::fields(name, value)?);
    let (ipv4, ipv6) = (
        taker.maybe("ipv4", value::ipv4)?,
        taker.maybe("ipv6", value::ipv6)?,
    );
    let destination = taker.take("destination") == Some(Value::Bool(true));
    taker.done()?;
    let mut octets =
        vec![u8::from(ipv6.is_some()) | u8::from(ipv4.is_some()) << 1 | u8::from(destination) << 2];
    octets.extend(ipv4.iter().flat_map(|address| address.octets()));
    octets.extend(ipv6.iter().flat_map(|address| address.octets()));
    Ok(octets)
}

/// A name, or `{description: NAME, deletes: pdu_session_container}` (TS 29.244 §8.2.64).
fn outer_header_removal(name: &str, value: &Value) -> Result<Vec<u8>, Fault> {
    const HEADERS: [&str; 7] = [
        "GTP-U/UDP/IPv4",
        "GTP-U/UDP/IPv6",
        "UDP/IPv4",
        "UDP/IPv6",
        "IPv4",
        "IPv6",
        "GTP-U/UDP/IP",
    ];
    let code = |name: &str, value: &Value| {
        let place = HEADERS.iter().position(|text| value == text);
        place.ok_or_else(|| format!("{name}: {value} is none of {HEADERS:?}"))
    };
    if value.is_string() {
        return Ok(vec![code(name, value)? as u8]);
    }
    let mut taker = Taker::new(name, value::fields(name, value)?);
    let header = taker.need("description", code)? as u8;
    let deletes = taker.need("deletes", |name, value| match value::text(name, value)? {
        "pdu_session_container" => Ok(1),
        other => Err(format!("{name}: {other} cannot be deleted")),
    })?;
    taker.done()?;
    Ok(vec![header, deletes])
}
