//! Forwarding Action Rules and Buffering Action Rules: what is done with a packet, or with one that waits.

use crate::ie::*;
use crate::wire::Edit;

groups! {
    /// Forwarding Parameters.
    ForwardingParameters = 4, "7.5.2.3-2" {
        42 M destination_interface: DestinationInterface,
        22 O network_instance: NetworkInstance<'a>,
        38 C redirect_information: RedirectInformation<'a>,
        84 C outer_header_creation: OuterHeaderCreation,
        30 C transport_level_marking: TransportLevelMarking,
        41 C forwarding_policy: ForwardingPolicy<'a>,
        98 O header_enrichment: HeaderEnrichment<'a>,
        131 C linked_traffic_endpoint_id: TrafficEndpointId,
        137 C proxying: Proxying,
        160 O destination_interface_type: ThreeGppInterfaceType,
        232 C data_network_access_identifier: DataNetworkAccessIdentifier<'a>,
        293 C ip_address_and_port_number_replacement: IpAddressAndPortNumberReplacement,
        32783 O bbf_apply_action: BbfApplyAction,
        32786 O bbf_nat_port_block: BbfNatPortBlock<'a>,
    }

    /// Duplicating Parameters.
    DuplicatingParameters = 5, "7.5.2.3-3" {
        42 M destination_interface: DestinationInterface,
        84 C outer_header_creation: OuterHeaderCreation,
        30 C transport_level_marking: TransportLevelMarking,
        41 C forwarding_policy: ForwardingPolicy<'a>,
    }

    /// Redundant Transmission Forwarding Parameters.
    RedundantTransmissionForwardingParameters = 270, "7.5.2.3-4" {
        84 M outer_header_creation: OuterHeaderCreation,
        22 C network_instance_for_redundant_transmission: NetworkInstance<'a>,
    }

    /// Create FAR.
    CreateFar = 3, "7.5.2.3-1" {
        108 M far_id: FarId,
        44 M apply_action: ApplyAction,
        4 C forwarding_parameters: ForwardingParameters<'a>,
        5 Cn duplicating_parameters: DuplicatingParameters<'a>,
        88 O bar_id: BarId,
        270 C redundant_transmission_forwarding_parameters: RedundantTransmissionForwardingParameters<'a>,
        301 C mbs_multicast_parameters: MbsMulticastParameters<'a>,
        302 Cn add_mbs_unicast_parameters: AddMbsUnicastParameters<'a>,
    }

    /// Update Forwarding Parameters.
    UpdateForwardingParameters = 11, "7.5.4.3-2" {
        42 C destination_interface: DestinationInterface,
        22 C network_instance: Edit<NetworkInstance<'a>>,
        38 C redirect_information: Edit<RedirectInformation<'a>>,
        84 C outer_header_creation: Edit<OuterHeaderCreation>,
        30 C transport_level_marking: Edit<TransportLevelMarking>,
        41 C forwarding_policy: Edit<ForwardingPolicy<'a>>,
        98 C header_enrichment: Edit<HeaderEnrichment<'a>>,
        49 C pfcpsmreq_flags: PfcpSmReqFlags,
        131 C linked_traffic_endpoint_id: Edit<TrafficEndpointId>,
        160 C destination_interface_type: Edit<ThreeGppInterfaceType>,
        232 C data_network_access_identifier: Edit<DataNetworkAccessIdentifier<'a>>,
        293 C ip_address_and_port_number_replacement: Edit<IpAddressAndPortNumberReplacement>,
        32783 O bbf_apply_action: Edit<BbfApplyAction>,
        32786 O bbf_nat_port_block: Edit<BbfNatPortBlock<'a>>,
    }

    /// Update Duplicating Parameters.
    UpdateDuplicatingParameters = 105, "7.5.4.3-3" {
        42 C destination_interface: DestinationInterface,
        84 C outer_header_creation: Edit<OuterHeaderCreation>,
        30 C transport_level_marking: Edit<TransportLevelMarking>,
        41 C forwarding_policy: Edit<ForwardingPolicy<'a>>,
    }

    /// Update FAR.
    UpdateFar = 10, "7.5.4.3-1" {
        108 M far_id: FarId,
        44 C apply_action: ApplyAction,
        11 C update_forwarding_parameters: UpdateForwardingParameters<'a>,
        105 Cn update_duplicating_parameters: UpdateDuplicatingParameters<'a>,
        270 C redundant_transmission_forwarding_parameters: Edit<RedundantTransmissionForwardingParameters<'a>>,
        88 C bar_id: Edit<BarId>,
        302 Cn add_mbs_unicast_parameters: AddMbsUnicastParameters<'a>,
        304 Cn remove_mbs_unicast_parameters: RemoveMbsUnicastParameters<'a>,
    }

    /// Remove FAR.
    RemoveFar = 16, "7.5.4.7-1" {
        108 M far_id: FarId,
    }

    /// Create BAR.
    CreateBar = 85, "7.5.2.6-1" {
        88 M bar_id: BarId,
        46 C downlink_data_notification_delay: DownlinkDataNotificationDelay,
        140 C suggested_buffering_packets_count: SuggestedBufferingPacketsCount,
        249 O mt_edt_control_information: MtEdtControlInformation,
    }

    /// Update BAR (Session Modification Request).
    UpdateBar = 86, "7.5.4.11-1" {
        88 M bar_id: BarId,
        46 C downlink_data_notification_delay: Edit<DownlinkDataNotificationDelay>,
        140 C suggested_buffering_packets_count: Edit<SuggestedBufferingPacketsCount>,
        249 O mt_edt_control_information: Edit<MtEdtControlInformation>,
    }

    /// Update BAR (PFCP Session Report Response).
    UpdateBarSessionReport = 12, "7.5.9.2-1" {
        88 M bar_id: BarId,
        46 C downlink_data_notification_delay: DownlinkDataNotificationDelay,
        47 C dl_buffering_duration: DlBufferingDuration,
        48 O dl_buffering_suggested_packet_count: DlBufferingSuggestedPacketCount,
        140 C suggested_buffering_packets_count: SuggestedBufferingPacketsCount,
    }

    /// Remove BAR.
    RemoveBar = 87, "7.5.4.12-1" {
        88 M bar_id: BarId,
    }
}
