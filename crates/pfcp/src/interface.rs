//! What depends on the interface that a message came over, which a codec cannot know by itself: presence rules, and
//! which IEs have a place there at all (column "Appl." of the tables of TS 29.244 §7.5).

use core::fmt;

use crate::error::Error;
use crate::group::{
    AdditionalMonitoringTime, CreateFar, CreatePdr, CreateQer, CreateTrafficEndpoint, CreateUrr,
    ForwardingParameters, Pdi, UpdateFar, UpdateForwardingParameters, UpdatePdr, UpdateQer,
    UpdateTrafficEndpoint, UpdateUrr,
};
use crate::ie_type::IeType;
use crate::message::{SessionEstablishmentRequest, SessionModificationRequest};
use crate::wire::Repeated;

/// The reference point that a message came over (TS 29.244 §4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Interface {
    /// SMF and UPF.
    N4,
    /// SGW-C and SGW-U.
    Sxa,
    /// PGW-C and PGW-U.
    Sxb,
}

/// The reference points that messages of one peer may be of: one, or several that are not distinguished, as Sxa and Sxb
/// of a combined SGW-C and PGW-C (TS 29.244 §5.2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Interfaces(u8);

impl Interfaces {
    /// Any of them: it is unknown which.
    pub const ANY: Self = Self(0b111);
    /// N4 alone.
    pub const N4: Self = Self(0b001);
    /// Sxa alone.
    pub const SXA: Self = Self(0b010);
    /// Sxb alone.
    pub const SXB: Self = Self(0b100);
    /// Sxa and Sxb.
    pub const SXA_SXB: Self = Self(0b110);
    /// N4 and Sxa.
    const N4_SXA: Self = Self(0b011);
    /// N4 and Sxb.
    const N4_SXB: Self = Self(0b101);

    /// Whether `interface` is among them.
    pub const fn has(self, interface: Interface) -> bool {
        let of = match interface {
            Interface::N4 => Self::N4,
            Interface::Sxa => Self::SXA,
            Interface::Sxb => Self::SXB,
        };
        self.meets(of)
    }

    /// Whether one of them is among `others`.
    pub const fn meets(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }
}

impl fmt::Display for Interfaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = [(Self::N4, "n4"), (Self::SXA, "sxa"), (Self::SXB, "sxb")];
        let mut names = of
            .into_iter()
            .filter(|(one, _)| self.meets(*one))
            .map(|(_, name)| name);
        f.write_str(names.next().unwrap_or_default())?;
        names.try_for_each(|name| write!(f, ", {name}"))
    }
}

impl Default for Interfaces {
    fn default() -> Self {
        Self::ANY
    }
}

impl CreatePdr<'_> {
    /// Checks what Table 7.5.2.2-1 says for `interface` only: Precedence is mandatory on N4 and Sxb, and has no place
    /// on Sxa.
    ///
    /// # Errors
    /// Cause 66 and Precedence.
    pub fn check(&self, interface: Interface) -> Result<(), Error> {
        match (interface, self.precedence) {
            (Interface::Sxa, _) | (_, Some(_)) => Ok(()),
            (Interface::N4 | Interface::Sxb, None) => Err(Error::missing(IeType::PRECEDENCE)),
        }
    }
}

/// An IE, or a list of IEs, that may be taken out.
trait Discard {
    /// Takes it out; whether it was there.
    fn discard(&mut self) -> bool;
}

impl<T> Discard for Option<T> {
    fn discard(&mut self) -> bool {
        self.take().is_some()
    }
}

impl<T> Discard for Repeated<'_, T> {
    fn discard(&mut self) -> bool {
        let was_there = !self.is_empty() || self.removes_all();
        *self = Self::NONE;
        was_there
    }
}

/// A message or group some of whose IEs have a place on some interfaces only.
pub trait Restrict {
    /// Takes out the IEs that have no place on any of `on` (TS 29.244 §7.6.9), but for those within lists, which are
    /// groups of their own; answers how many those were.
    fn restrict(&mut self, on: Interfaces) -> usize;
}

/// For each set of interfaces the IEs that have a place on these alone; groups within a group follow.
macro_rules! restrict {
    (@ $group:ident { $($place:ident: $($ie:ident),+;)+ $(=> $($inner:ident),+)? }) => {
        impl Restrict for $group<'_> {
            fn restrict(&mut self, on: Interfaces) -> usize {
                let mut discarded = 0;
                $(if !on.meets(Interfaces::$place) {
                    $(discarded += usize::from(self.$ie.discard());)+
                })+
                $($(discarded += self.$inner.restrict(on);)+)?
                discarded
            }
        }
    };
    () => {};
    ($created:ident, $updated:ident $body:tt $($rest:tt)*) => {
        restrict!(@ $created $body);
        restrict!(@ $updated $body);
        restrict!($($rest)*);
    };
    ($group:ident $body:tt $($rest:tt)*) => {
        restrict!(@ $group $body);
        restrict!($($rest)*);
    };
}

impl<T: Restrict> Restrict for Option<T> {
    fn restrict(&mut self, on: Interfaces) -> usize {
        self.as_mut().map_or(0, |group| group.restrict(on))
    }
}

restrict! {
    SessionEstablishmentRequest {
        N4_SXB: create_qer, user_plane_inactivity_timer, provide_rds_configuration_information,
            l2tp_tunnel_information, l2tp_session_information, group_id;
        N4_SXA: create_bar;
        N4: create_mar, create_bridge_info_for_tsc, create_srr, provide_atsss_control_information, s_nssai,
            mbs_session_n4_control_information, dscp_to_ppi_control_information;
    }
    SessionModificationRequest {
        N4_SXB: remove_qer, create_qer, update_qer, user_plane_inactivity_timer, query_packet_rate_status, group_id;
        N4_SXA: remove_bar, create_bar, update_bar;
        N4: remove_mar, update_mar, create_mar, node_id, tsc_management_information, remove_srr, create_srr, update_srr,
            provide_atsss_control_information, ethernet_context_information, access_availability_information, s_nssai,
            mbs_session_n4_control_information, dscp_to_ppi_control_information;
    }
    CreatePdr {
        N4_SXB: precedence, qer_id, activate_predefined_rules, activation_time, deactivation_time,
            ue_ip_address_pool_identity;
        N4: mar_id, packet_replication_and_detection_carry_on_information, ip_multicast_addressing_info,
            mptcp_applicable_indication, transport_delay_reporting, rat_type;
        => pdi
    }
    UpdatePdr {
        N4_SXB: precedence, qer_id, activate_predefined_rules, deactivate_predefined_rules, activation_time,
            deactivation_time;
        N4: ip_multicast_addressing_info, transport_delay_reporting, rat_type;
        => pdi
    }
    Pdi {
        N4_SXB: ue_ip_address, sdf_filter, application_id, framed_route, framed_routing, framed_ipv6_route;
        N4: redundant_transmission_detection_parameters, ethernet_pdu_session_information, ethernet_packet_filter, qfi,
            ip_multicast_addressing_info, dns_query_filter, mbs_session_identifier, area_session_id;
    }
    CreateTrafficEndpoint {
        N4_SXB: ue_ip_address, framed_route, framed_routing, framed_ipv6_route;
        N4: redundant_transmission_detection_parameters, ethernet_pdu_session_information, qfi, mbs_session_identifier,
            area_session_id, rat_type;
    }
    UpdateTrafficEndpoint {
        N4_SXB: ue_ip_address, framed_route, framed_routing, framed_ipv6_route;
        N4_SXA: local_f_teid;
        N4: redundant_transmission_detection_parameters, qfi, rat_type;
    }
    CreateFar {
        SXA_SXB: duplicating_parameters;
        N4_SXA: bar_id;
        N4: redundant_transmission_forwarding_parameters;
        => forwarding_parameters
    }
    UpdateFar {
        SXA_SXB: update_duplicating_parameters;
        N4_SXA: bar_id;
        N4: redundant_transmission_forwarding_parameters;
        => update_forwarding_parameters
    }
    ForwardingParameters {
        N4_SXB: redirect_information, forwarding_policy, header_enrichment, bbf_apply_action, bbf_nat_port_block;
        N4: proxying, ip_address_and_port_number_replacement;
    }
    UpdateForwardingParameters {
        N4_SXB: redirect_information, forwarding_policy, header_enrichment, bbf_apply_action, bbf_nat_port_block;
        N4: ip_address_and_port_number_replacement;
    }
    CreateUrr, UpdateUrr {
        N4_SXB: volume_quota, event_threshold, event_quota, time_quota, quota_holding_time, quota_validity_time,
            subsequent_volume_quota, subsequent_time_quota, subsequent_event_threshold, subsequent_event_quota,
            inactivity_detection_time, linked_urr_id, far_id_for_quota_action,
            exempted_application_id_for_quota_action, exempted_sdf_filter_for_quota_action;
        N4_SXA: dropped_dl_traffic_threshold;
        SXB: time_quota_mechanism, aggregated_urrs;
        N4: ethernet_inactivity_timer, user_plane_inactivity_timer;
    }
    AdditionalMonitoringTime {
        N4_SXB: subsequent_volume_quota, subsequent_time_quota, subsequent_event_threshold, subsequent_event_quota;
    }
    CreateQer, UpdateQer {
        SXB: dl_flow_level_marking;
        N4: qfi, rqi, paging_policy_indicator, averaging_window;
    }
}
