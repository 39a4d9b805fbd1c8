//! What a request asks for, rule by rule, and its octets. Rules are the plain structs of `rules::model`; the octets are
//! written here, without the codec.

use packet::Teid;
use rules::model::{
    Bar, BarUpdate, Edit, FTeid, Far, FarUpdate, ForwardingParametersUpdate, OuterHeaderCreation, Pdi,
    PdiUpdate, Pdr, PdrUpdate, Qer, QerUpdate, SdfFilter, SourceInterface, TrafficEndpoint, UeIpAddress,
};

use super::upf::N3;
use super::wire::{self, Octets, group, ie};

/// The filters that PDRs have.
pub const DESCRIPTIONS: [&str; 4] = [
    "permit out ip from any to assigned",
    "permit out 17 from any 53 to assigned",
    "permit out 17 from 192.0.2.0/24 80 to assigned",
    "permit out 6 from any to assigned",
];

/// What the UPF is to choose for a PDR or Traffic Endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// An F-TEID, with a CHOOSE ID or without.
    pub f_teid: Option<Option<u8>>,
    /// A UE IPv4 address.
    pub ue_v4: bool,
    /// A UE IPv6 prefix.
    pub ue_v6: bool,
}

impl Wish {
    pub const NONE: Self = Self {
        f_teid: None,
        ue_v4: false,
        ue_v6: false,
    };

    pub fn has_ue(self) -> bool {
        self.ue_v4 || self.ue_v6
    }
}

/// One change.
#[derive(Clone, Debug)]
pub enum Op {
    CreatePdr(Pdr, Wish),
    UpdatePdr(PdrUpdate),
    RemovePdr(u16),
    CreateFar(Far),
    UpdateFar(FarUpdate),
    RemoveFar(u32),
    CreateQer(Qer),
    UpdateQer(QerUpdate),
    RemoveQer(u32),
    CreateUrr(u32),
    RemoveUrr(u32),
    CreateBar(Bar),
    UpdateBar(BarUpdate),
    RemoveBar(u8),
    CreateEndpoint(TrafficEndpoint, Wish),
    RemoveEndpoint(u8),
    Query(u32),
    QueryAll,
    DropBuffered,
    Rename(u64),
    /// Octets for which the whole request must be refused.
    Bad(Octets),
}

/// The filter of this number.
pub fn filter(number: u8) -> SdfFilter {
    let text = DESCRIPTIONS[usize::from(number) % DESCRIPTIONS.len()];
    SdfFilter {
        flow_description: Some(text.parse().expect("a description")),
        ..SdfFilter::default()
    }
}

impl Op {
    /// The IE, but for what goes into flags and other IEs of the message.
    pub fn encode(&self) -> Octets {
        match self {
            Self::CreatePdr(pdr, wish) => create_pdr(pdr, *wish),
            Self::UpdatePdr(update) => update_pdr(update),
            Self::RemovePdr(id) => group(15, &[wire::pdr_id(*id)]),
            Self::CreateFar(far) => create_far(far),
            Self::UpdateFar(update) => update_far(update),
            Self::RemoveFar(id) => group(16, &[wire::far_id(*id)]),
            Self::CreateQer(qer) => create_qer(qer),
            Self::UpdateQer(update) => update_qer(update),
            Self::RemoveQer(id) => group(18, &[wire::qer_id(*id)]),
            Self::CreateUrr(id) => {
                wire::create_urr(&[wire::urr_id(*id), wire::method(2), wire::triggers(&[2, 0, 0])])
            }
            Self::RemoveUrr(id) => group(17, &[wire::urr_id(*id)]),
            Self::CreateBar(bar) => bar_group(85, bar.id.0, bar.suggested_packets.map(Edit::Set)),
            Self::UpdateBar(update) => bar_group(86, update.id.0, Some(update.suggested_packets)),
            Self::RemoveBar(id) => group(87, &[wire::bar_id(*id)]),
            Self::CreateEndpoint(endpoint, wish) => create_endpoint(endpoint, *wish),
            Self::RemoveEndpoint(id) => group(130, &[ie(131, [*id])]),
            Self::Query(id) => group(77, &[wire::urr_id(*id)]),
            Self::Bad(octets) => octets.clone(),
            Self::QueryAll | Self::DropBuffered | Self::Rename(_) => Octets::new(),
        }
    }

    /// Its bit in PFCPSMReq-Flags (TS 29.244 §8.2.31).
    pub fn flag(&self) -> u8 {
        match self {
            Self::DropBuffered => 1,
            Self::QueryAll => 4,
            _ => 0,
        }
    }
}

/// A parameter that an update leaves, sets, or takes away with a null length.
fn edited<T>(edit: &Edit<T>, ie_type: u16, encode: impl FnOnce(&T) -> Octets) -> Octets {
    match edit {
        Edit::Keep => Octets::new(),
        Edit::Set(value) => encode(value),
        Edit::Clear => ie(ie_type, []),
    }
}

/// A list in an update: none of it if it stays, a null length if it goes.
fn list<T>(sent: Option<&[T]>, ie_type: u16, encode: impl Fn(&T) -> Octets) -> Octets {
    match sent {
        None => Octets::new(),
        Some([]) => ie(ie_type, []),
        Some(all) => all.iter().flat_map(encode).collect(),
    }
}

fn ue_ip(ue: &UeIpAddress) -> Octets {
    let flags =
        u8::from(ue.ipv6.is_some()) | u8::from(ue.ipv4.is_some()) << 1 | u8::from(ue.is_destination) << 2;
    let v4 = ue.ipv4.iter().flat_map(|address| address.octets());
    let v6 = ue.ipv6.iter().flat_map(|(address, _)| address.octets());
    ie(93, std::iter::once(flags).chain(v4).chain(v6).collect::<Octets>())
}

fn wished_ue(wish: Wish, is_destination: bool) -> Octets {
    let flags = u8::from(wish.ue_v4) << 4 | u8::from(wish.ue_v6) << 5 | u8::from(is_destination) << 2;
    if wish.has_ue() {
        ie(93, [flags])
    } else {
        Octets::new()
    }
}

fn f_teid(own: Option<FTeid>, wish: Wish) -> Octets {
    match (own, wish.f_teid) {
        (Some(own), _) => wire::f_teid(own.teid.0, N3),
        (None, Some(id)) => wire::choose(wire::V4, id),
        (None, None) => Octets::new(),
    }
}

fn sdf(filter: &SdfFilter) -> Octets {
    let is_it = |text: &&&str| text.parse().ok().as_ref() == filter.flow_description.as_ref();
    let text = DESCRIPTIONS.iter().find(is_it).expect("one of ours");
    wire::sdf(text)
}

fn pdi(pdi: &Pdi, wish: Wish) -> Octets {
    let is_destination = pdi.source_interface != SourceInterface::Access;
    let mut ies = vec![wire::source_if(pdi.source_interface.value())];
    if let Some(endpoint) = pdi.endpoint {
        ies.push(ie(131, [endpoint.0]));
    } else {
        ies.push(f_teid(pdi.f_teid, wish));
        ies.extend(pdi.ue_ip.iter().map(ue_ip));
        ies.push(wished_ue(wish, is_destination));
    }
    ies.extend(pdi.sdf_filters.iter().map(sdf));
    wire::pdi(&ies)
}

fn create_pdr(pdr: &Pdr, wish: Wish) -> Octets {
    let mut ies = vec![
        wire::pdr_id(pdr.id.0),
        wire::precedence(pdr.precedence.0),
        pdi(&pdr.pdi, wish),
    ];
    ies.extend(
        pdr.outer_header_removal
            .map(|removal| wire::outer_header_removal(removal.header.value())),
    );
    ies.extend(pdr.far.map(|far| wire::far_id(far.0)));
    ies.extend(pdr.urrs.iter().map(|urr| wire::urr_id(urr.0)));
    ies.extend(pdr.qers.iter().map(|qer| wire::qer_id(qer.0)));
    wire::create_pdr(&ies)
}

fn update_pdr(update: &PdrUpdate) -> Octets {
    wire::update_pdr(&[
        wire::pdr_id(update.id.0),
        edited(&update.outer_header_removal, 95, |removal| {
            wire::outer_header_removal(removal.header.value())
        }),
        update
            .precedence
            .map_or(Octets::new(), |precedence| wire::precedence(precedence.0)),
        update.pdi.as_ref().map_or(Octets::new(), pdi_update),
        edited(&update.far, 108, |far| wire::far_id(far.0)),
        list(update.urrs.as_deref(), 81, |urr| wire::urr_id(urr.0)),
        list(update.qers.as_deref(), 109, |qer| wire::qer_id(qer.0)),
    ])
}

fn pdi_update(update: &PdiUpdate) -> Octets {
    let source = update.source_interface.expect("a PDI has one");
    wire::pdi(&[
        wire::source_if(source.value()),
        edited(&update.f_teid, 21, |own| wire::f_teid(own.teid.0, N3)),
        list(update.ue_ip.as_deref(), 93, ue_ip),
        list(update.sdf_filters.as_deref(), 23, sdf),
    ])
}

fn tunnel(header: &OuterHeaderCreation) -> Octets {
    wire::outer_header_creation(header.teid.0, header.ipv4.expect("IPv4"))
}

fn create_far(far: &Far) -> Octets {
    let mut ies = vec![
        wire::far_id(far.id.0),
        wire::apply_action(&far.action.0.to_le_bytes()),
    ];
    ies.extend(far.bar.map(|bar| wire::bar_id(bar.0)));
    if let Some(to) = &far.forwarding {
        let mut parameters = vec![wire::destination_if(to.destination.value())];
        parameters.extend(to.outer_header_creation.as_ref().map(tunnel));
        ies.push(wire::forwarding(&parameters));
    }
    wire::create_far(&ies)
}

fn update_far(update: &FarUpdate) -> Octets {
    let action = update
        .action
        .map(|action| wire::apply_action(&action.0.to_le_bytes()));
    let forwarding = match &update.forwarding {
        Edit::Set(parameters) => forwarding_update(parameters),
        Edit::Keep | Edit::Clear => Octets::new(),
    };
    wire::update_far(&[
        wire::far_id(update.id.0),
        action.unwrap_or_default(),
        forwarding,
        edited(&update.bar, 88, |bar| wire::bar_id(bar.0)),
    ])
}

fn forwarding_update(update: &ForwardingParametersUpdate) -> Octets {
    let destination = update.destination.map(|to| wire::destination_if(to.value()));
    wire::update_forwarding(&[
        destination.unwrap_or_default(),
        edited(&update.outer_header_creation, 84, tunnel),
    ])
}

fn rate(rates: &rules::model::BitRates) -> Octets {
    wire::mbr(rates.ul.0 / 1000, rates.dl.0 / 1000)
}

fn gates(ul: rules::model::Gate, dl: rules::model::Gate) -> Octets {
    wire::gate(u8::from(ul.is_closed()), u8::from(dl.is_closed()))
}

fn create_qer(qer: &Qer) -> Octets {
    let mut ies = vec![wire::qer_id(qer.id.0), gates(qer.gate_ul, qer.gate_dl)];
    ies.extend(qer.mbr.as_ref().map(rate));
    ies.extend(qer.qfi.map(|qfi| wire::qfi(qfi.get())));
    wire::create_qer(&ies)
}

fn update_qer(update: &QerUpdate) -> Octets {
    group(
        14,
        &[
            wire::qer_id(update.id.0),
            update.gates.map_or(Octets::new(), |(ul, dl)| gates(ul, dl)),
            edited(&update.mbr, 26, rate),
            edited(&update.qfi, 124, |qfi| wire::qfi(qfi.get())),
        ],
    )
}

fn bar_group(ie_type: u16, id: u8, count: Option<Edit<u8>>) -> Octets {
    let count = count.map_or(Octets::new(), |count| {
        edited(&count, 140, |count| ie(140, [*count]))
    });
    group(ie_type, &[wire::bar_id(id), count])
}

fn create_endpoint(endpoint: &TrafficEndpoint, wish: Wish) -> Octets {
    let mut ies = vec![ie(131, [endpoint.id.0]), f_teid(endpoint.f_teid, wish)];
    ies.extend(endpoint.ue_ip.iter().map(ue_ip));
    ies.push(wished_ue(wish, true));
    group(127, &ies)
}

/// An F-TEID on N3.
pub const fn own(teid: u32) -> FTeid {
    FTeid {
        teid: Teid(teid),
        ipv4: Some(N3),
        ipv6: None,
    }
}
