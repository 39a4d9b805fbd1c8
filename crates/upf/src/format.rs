//! Rules, rates and numbers as text for people.

use std::net::IpAddr;

use rules::compile::egress_of;
use rules::model::{
    ApplyAction, DestinationInterface, Far, ForwardingParameters, MeasurementMethod, OptionalPdi,
    OuterHeader, OuterHeaderCreation, OuterHeaderKind, OuterHeaderRemoval, Pdi, SdfFilter, SessionRules,
    SourceInterface, TrafficEndpoint, Verb,
};
use rules::network::{InstanceId, Network};
use rules::prefix::IpPrefix;

/// A prefix; one address without its length.
#[must_use]
pub fn prefix(prefix: &IpPrefix) -> String {
    if *prefix == IpPrefix::host(prefix.address()) {
        prefix.address().to_string()
    } else {
        prefix.to_string()
    }
}

/// The name of a network instance; its number where it is not configured.
#[must_use]
pub fn instance(network: &Network, id: InstanceId) -> String {
    let known = network.instance(id);
    known.map_or_else(|| format!("#{id}"), |one| one.name.clone())
}

/// The source interface of a PDR (TS 29.244 §8.2.2).
#[must_use]
pub fn source(source: SourceInterface) -> String {
    match source {
        SourceInterface::Access => "Access".into(),
        SourceInterface::Core => "Core".into(),
        SourceInterface::SgiLan => "SGi-LAN".into(),
        SourceInterface::CpFunction => "CP-function".into(),
        SourceInterface::Other(value) => format!("interface {value}"),
    }
}

fn destination(destination: DestinationInterface) -> String {
    match destination {
        DestinationInterface::Access => "Access".into(),
        DestinationInterface::Core => "Core".into(),
        DestinationInterface::SgiLan => "SGi-LAN".into(),
        DestinationInterface::CpFunction => "CP-function".into(),
        DestinationInterface::Other(value) => format!("interface {value}"),
    }
}

/// Alternatives.
fn any(name: &str, values: impl IntoIterator<Item = String>) -> Option<String> {
    let values: Vec<String> = values.into_iter().collect();
    (!values.is_empty()).then(|| format!("{name} {}", values.join(" or ")))
}

/// What a packet must have for a PDI; one of each line, all lines.
#[must_use]
pub fn matches(network: &Network, rules: &SessionRules, pdi: &Pdi) -> Vec<String> {
    let tunnel = pdi.f_teid.map(|f_teid| {
        let at: Vec<String> = f_teid.addresses().map(|address| address.to_string()).collect();
        format!("TEID {} at {}", f_teid.teid, at.join(" or "))
    });
    let instance = pdi
        .instance
        .filter(|_| pdi.f_teid.is_none())
        .map(|id| format!("network instance {}", instance(network, id)));
    let ue = any("UE", pdi.ue_prefixes().map(|own| prefix(&own)));
    let qfis = any("QFI", pdi.qfis.iter().map(|qfi| qfi.to_string()));
    let filters = pdi
        .sdf_filters
        .iter()
        .map(|one| filter(rules.resolve(one).unwrap_or(one)));
    let endpoint = pdi.endpoint.map(|id| format!("(as Traffic Endpoint {id} says)"));
    let mut lines: Vec<String> = [tunnel, instance, ue, qfis].into_iter().flatten().collect();
    for (place, filter) in filters.enumerate() {
        lines.push(if place == 0 {
            filter
        } else {
            format!("or {filter}")
        });
    }
    let application = pdi.optional.application.as_ref();
    lines.extend(application.map(|one| format!("application {}", one.id.escape_ascii())));
    if lines.is_empty() {
        lines.push("everything".into());
    }
    lines.extend(endpoint);
    lines
}

/// What a Traffic Endpoint says of a packet.
#[must_use]
pub fn endpoint(network: &Network, rules: &SessionRules, endpoint: &TrafficEndpoint) -> Vec<String> {
    let pdi = Pdi {
        f_teid: endpoint.f_teid,
        instance: endpoint.instance,
        ue_ip: endpoint.ue_ip.clone(),
        optional: OptionalPdi {
            framed_routes: endpoint.framed_routes.clone(),
            application: None,
        }
        .into(),
        qfis: endpoint.qfis,
        ..Pdi::new(SourceInterface::Access)
    };
    matches(network, rules, &pdi)
}

fn filter(filter: &SdfFilter) -> String {
    let parts = [
        filter.flow_description.as_ref().map(ToString::to_string),
        filter
            .tos_traffic_class
            .map(|class| format!("TOS {:#04x} under mask {:#04x}", class.value, class.mask)),
        filter.spi.map(|spi| format!("SPI {spi:#010x}")),
        filter.flow_label.map(|label| format!("flow label {label:#07x}")),
        filter.filter_id.map(|id| format!("(SDF filter {id})")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// An Outer Header Removal (TS 29.244 §8.2.64).
#[must_use]
pub fn removal(removal: OuterHeaderRemoval) -> String {
    let header = match removal.header {
        OuterHeader::GtpuUdpIpv4 => "GTP-U/UDP/IPv4",
        OuterHeader::GtpuUdpIpv6 => "GTP-U/UDP/IPv6",
        OuterHeader::UdpIpv4 => "UDP/IPv4",
        OuterHeader::UdpIpv6 => "UDP/IPv6",
        OuterHeader::Ipv4 => "IPv4",
        OuterHeader::Ipv6 => "IPv6",
        OuterHeader::GtpuUdpIp => "GTP-U/UDP/IP",
        OuterHeader::VlanPop => "one VLAN tag",
        OuterHeader::VlanPopPop => "two VLAN tags",
    };
    let psc = if removal.deletes_psc {
        ", and the PDU Session Container for good"
    } else {
        ""
    };
    format!("{header}{psc}")
}

/// The flags of an Apply Action.
#[must_use]
pub fn flags(action: ApplyAction) -> Vec<String> {
    let names = [
        (ApplyAction::DROP, "DROP"),
        (ApplyAction::FORW, "FORW"),
        (ApplyAction::BUFF, "BUFF"),
        (ApplyAction::NOCP, "NOCP"),
        (ApplyAction::DUPL, "DUPL"),
        (ApplyAction::IPMA, "IPMA"),
        (ApplyAction::IPMD, "IPMD"),
        (ApplyAction::DFRT, "DFRT"),
        (ApplyAction::EDRT, "EDRT"),
        (ApplyAction::BDPN, "BDPN"),
        (ApplyAction::DDPN, "DDPN"),
        (ApplyAction::FSSM, "FSSM"),
        (ApplyAction::MBSU, "MBSU"),
    ];
    let set = names.into_iter().filter(|(flag, _)| action.contains(*flag));
    set.map(|(_, name)| name.to_owned()).collect()
}

/// What a FAR does with a packet now.
#[must_use]
pub fn action(network: &Network, rules: &SessionRules, far: &Far) -> String {
    let notifies = far.action.contains(ApplyAction::NOCP);
    match far.action.verb() {
        Some(Verb::Drop) if notifies => "drop, and tell the control plane".into(),
        Some(Verb::Drop) => "drop".into(),
        Some(Verb::Buffer) if notifies => "buffer, and tell the control plane".into(),
        Some(Verb::Buffer) => "buffer".into(),
        Some(Verb::MulticastAccept) => "accept multicast requests".into(),
        Some(Verb::MulticastDeny) => "deny multicast requests".into(),
        Some(Verb::Forward) => match &far.forwarding {
            Some(to) => forward(network, to, egress_of(far, rules, network)),
            None => "forward".into(),
        },
        None => "nothing that can be done".into(),
    }
}

/// `way` is where its packets really leave: SMFs name the DNN in rules towards Access, too.
fn forward(
    network: &Network,
    to: &ForwardingParameters,
    way: Option<(InstanceId, Option<IpAddr>)>,
) -> String {
    let mut words = format!("forward to {}", destination(to.destination));
    if let Some((egress, next_hop)) = way {
        words.push_str(&format!(" by {}", instance(network, egress)));
        let header = to.outer_header_creation.as_ref();
        let is_peer = |hop: &IpAddr| {
            header.is_some_and(|header| {
                let mut peers = header
                    .ipv4
                    .map(IpAddr::V4)
                    .into_iter()
                    .chain(header.ipv6.map(IpAddr::V6));
                peers.any(|peer| peer == *hop)
            })
        };
        if let Some(router) = next_hop.filter(|hop| !is_peer(hop)) {
            words.push_str(&format!(" over {router}"));
        }
    }
    if let Some(header) = &to.outer_header_creation {
        words.push_str(&format!(", {}", creation(header)));
    }
    if let Some(class) = to.transport_level_marking {
        words.push_str(&format!(", DSCP {}", class.value >> 2));
    }
    words
}

fn creation(header: &OuterHeaderCreation) -> String {
    let v4 = header.ipv4.map(|address| address.to_string());
    let v6 = header.ipv6.map(|address| address.to_string());
    let peers: Vec<String> = v4.into_iter().chain(v6).collect();
    let peers = if peers.is_empty() {
        "nowhere".into()
    } else {
        peers.join(" or ")
    };
    let has = |kind| header.kind.contains(kind);
    if header.kind.is_gtpu() {
        return format!("in TEID {} at {peers}", header.teid);
    }
    if has(OuterHeaderKind::UDP_IPV4) || has(OuterHeaderKind::UDP_IPV6) {
        return format!("in UDP to {peers} port {}", header.port.unwrap_or_default());
    }
    format!("in outer headers {:#06x} to {peers}", header.kind.0)
}

/// What a URR measures.
#[must_use]
pub fn methods(method: MeasurementMethod) -> Vec<String> {
    let names = [
        (MeasurementMethod::DURAT, "time"),
        (MeasurementMethod::VOLUM, "volume"),
        (MeasurementMethod::EVENT, "events"),
    ];
    let set = names.into_iter().filter(|(flag, _)| method.contains(*flag));
    set.map(|(_, name)| name.to_owned()).collect()
}

/// A number with a mark before each three digits.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A rate in the largest unit that says it exactly.
#[must_use]
pub fn rate(bits: u64) -> String {
    let units = [
        (1_000_000_000, "Gbit/s"),
        (1_000_000, "Mbit/s"),
        (1_000, "kbit/s"),
    ];
    let unit = units
        .into_iter()
        .find(|(unit, _)| bits > 0 && bits.is_multiple_of(*unit));
    unit.map_or_else(
        || format!("{bits} bit/s"),
        |(unit, name)| format!("{} {name}", bits / unit),
    )
}

#[cfg(test)]
mod tests {
    use packet::Teid;
    use rules::model::{Edit, FarId, FarUpdate, ForwardingParametersUpdate};
    use rules::testing::{self, GNB, N6, pdu_session};

    use super::*;

    #[test]
    fn numbers_are_easy_to_read() {
        assert_eq!(
            [0, 999, 1_000, 12_345, 1_234_567].map(grouped),
            ["0", "999", "1,000", "12,345", "1,234,567"]
        );
        assert_eq!(
            [0, 500, 64_000, 1_500_000, 100_000_000, 2_000_000_000].map(rate),
            [
                "0 bit/s",
                "500 bit/s",
                "64 kbit/s",
                "1500 kbit/s",
                "100 Mbit/s",
                "2 Gbit/s"
            ]
        );
    }

    #[test]
    fn a_far_is_known_by_where_its_packets_leave() {
        let network = testing::network();
        let name = |id| instance(&network, id);
        let told = |peer: std::net::Ipv4Addr| {
            let header = OuterHeaderCreation::gtpu_ipv4(Teid(7), peer);
            let mut rules = pdu_session(0x1001, header);
            // As Open5GS writes it: the DNN in the FAR towards Access.
            let update = FarUpdate {
                forwarding: Edit::Set(ForwardingParametersUpdate {
                    instance: Edit::Set(N6),
                    ..ForwardingParametersUpdate::default()
                }),
                ..FarUpdate::new(FarId(2))
            };
            rules.update_far(update).expect("it is there");
            let far = rules.far(FarId(2)).expect("it is there");
            action(&network, &rules, far)
        };
        let (access, tunnel) = (name(testing::N3), "in TEID 0x00000007 at");
        assert_eq!(
            told(GNB),
            format!("forward to Access by {access}, {tunnel} {GNB}")
        );
        let far_away = [10, 200, 7, 7].into();
        assert_eq!(
            told(far_away),
            format!("forward to Access by {access} over 10.0.3.254, {tunnel} {far_away}")
        );
    }
}
