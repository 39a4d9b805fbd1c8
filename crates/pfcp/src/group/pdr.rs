//! Packet Detection Rules and traffic endpoints: what a packet is recognised by.

use crate::ie::*;
use crate::wire::Edit;

groups! {
    /// PDI.
    Pdi = 2, "7.5.2.2-2" {
        20 M source_interface: SourceInterface,
        21 O local_f_teid: FTeid,
        308 C local_ingress_tunnel: LocalIngressTunnel<'a>,
        22 O network_instance: NetworkInstance<'a>,
        255 O redundant_transmission_detection_parameters: RedundantTransmissionDetectionParameters<'a>,
        93 On ue_ip_address: UeIpAddress,
        131 Cn traffic_endpoint_id: TrafficEndpointId,
        23 On sdf_filter: SdfFilter<'a>,
        24 O application_id: ApplicationId<'a>,
        142 O ethernet_pdu_session_information: EthernetPduSessionInformation,
        132 On ethernet_packet_filter: EthernetPacketFilter<'a>,
        124 On qfi: Qfi,
        153 On framed_route: FramedRoute<'a>,
        154 O framed_routing: FramedRouting,
        155 On framed_ipv6_route: FramedIpv6Route<'a>,
        160 O source_interface_type: ThreeGppInterfaceType,
        188 On ip_multicast_addressing_info: IpMulticastAddressingInfo<'a>,
        294 On dns_query_filter: DnsQueryFilter<'a>,
        305 C mbs_session_identifier: MbsSessionIdentifier<'a>,
        314 C area_session_id: AreaSessionId<'a>,
    }

    /// Create PDR.
    CreatePdr = 1, "7.5.2.2-1" {
        56 M pdr_id: PdrId,
        29 C precedence: Precedence,
        2 M pdi: Pdi<'a>,
        95 C outer_header_removal: OuterHeaderRemoval,
        108 C far_id: FarId,
        81 Cn urr_id: UrrId,
        109 Cn qer_id: QerId,
        106 Cn activate_predefined_rules: ActivatePredefinedRules<'a>,
        163 O activation_time: ActivationTime,
        164 O deactivation_time: DeactivationTime,
        170 C mar_id: MarId,
        179 C packet_replication_and_detection_carry_on_information: PacketReplicationAndDetectionCarryOnInformation,
        188 On ip_multicast_addressing_info: IpMulticastAddressingInfo<'a>,
        177 On ue_ip_address_pool_identity: UeIpAddressPoolIdentity<'a>,
        265 C mptcp_applicable_indication: MptcpApplicableIndication,
        271 C transport_delay_reporting: TransportDelayReporting<'a>,
        275 O rat_type: RatType,
    }

    /// Update PDR.
    UpdatePdr = 9, "7.5.4.2-1" {
        56 M pdr_id: PdrId,
        95 C outer_header_removal: Edit<OuterHeaderRemoval>,
        29 C precedence: Precedence,
        2 C pdi: Pdi<'a>,
        108 C far_id: Edit<FarId>,
        81 Cn urr_id: UrrId,
        109 Cn qer_id: QerId,
        106 Cn activate_predefined_rules: ActivatePredefinedRules<'a>,
        107 Cn deactivate_predefined_rules: DeactivatePredefinedRules<'a>,
        163 O activation_time: Edit<ActivationTime>,
        164 O deactivation_time: Edit<DeactivationTime>,
        188 On ip_multicast_addressing_info: IpMulticastAddressingInfo<'a>,
        271 C transport_delay_reporting: Edit<TransportDelayReporting<'a>>,
        275 O rat_type: Edit<RatType>,
    }

    /// Remove PDR.
    RemovePdr = 15, "7.5.4.6-1" {
        56 M pdr_id: PdrId,
    }

    /// Created PDR.
    CreatedPdr = 8, "7.5.3.2-1" {
        56 M pdr_id: PdrId,
        21 C local_f_teid: FTeid,
        21 C local_f_teid_for_redundant_transmission: FTeid,
        93 Cn ue_ip_address: UeIpAddress,
        308 C local_ingress_tunnel: LocalIngressTunnel<'a>,
    }

    /// Updated PDR.
    UpdatedPdr = 256, "7.5.5.5-1" {
        56 M pdr_id: PdrId,
        21 C local_f_teid_for_redundant_transmission: FTeid,
        21 C local_f_teid: FTeid,
        93 Cn ue_ip_address: UeIpAddress,
    }

    /// Ethernet Packet Filter.
    EthernetPacketFilter = 132, "7.5.2.2-3" {
        138 C ethernet_filter_id: EthernetFilterId,
        139 C ethernet_filter_properties: EthernetFilterProperties,
        133 O mac_address: MacAddress,
        136 O ethertype: Ethertype,
        134 O c_tag: CTag,
        135 O s_tag: STag,
        23 On sdf_filter: SdfFilter<'a>,
    }

    /// IP Multicast Addressing Info.
    IpMulticastAddressingInfo = 188, "7.5.2.2-4" {
        191 M ip_multicast_address: IpMulticastAddress,
        192 On source_ip_address: SourceIpAddress,
    }

    /// Redundant Transmission Detection Parameters.
    RedundantTransmissionDetectionParameters = 255, "7.5.2.2-5" {
        21 M local_f_teid_for_redundant_transmission: FTeid,
        22 C network_instance_for_redundant_transmission: NetworkInstance<'a>,
    }

    /// Transport Delay Reporting.
    TransportDelayReporting = 271, "7.5.2.2-6" {
        103 M preceding_ul_gtp_u_peer: RemoteGtpUPeer<'a>,
        30 O dscp: TransportLevelMarking,
    }

    /// Create Traffic Endpoint.
    CreateTrafficEndpoint = 127, "7.5.2.7-1" {
        131 M traffic_endpoint_id: TrafficEndpointId,
        21 O local_f_teid: FTeid,
        22 O network_instance: NetworkInstance<'a>,
        255 O redundant_transmission_detection_parameters: RedundantTransmissionDetectionParameters<'a>,
        93 On ue_ip_address: UeIpAddress,
        142 O ethernet_pdu_session_information: EthernetPduSessionInformation,
        153 On framed_route: FramedRoute<'a>,
        154 O framed_routing: FramedRouting,
        155 On framed_ipv6_route: FramedIpv6Route<'a>,
        124 On qfi: Qfi,
        160 O source_interface_type: ThreeGppInterfaceType,
        308 C local_ingress_tunnel: LocalIngressTunnel<'a>,
        188 C ip_multicast_addressing_info: IpMulticastAddressingInfo<'a>,
        305 C mbs_session_identifier: MbsSessionIdentifier<'a>,
        314 C area_session_id: AreaSessionId<'a>,
        275 O rat_type: RatType,
    }

    /// Update Traffic Endpoint.
    UpdateTrafficEndpoint = 129, "7.5.4.13-1" {
        131 M traffic_endpoint_id: TrafficEndpointId,
        21 C local_f_teid: Edit<FTeid>,
        22 O network_instance: Edit<NetworkInstance<'a>>,
        255 C redundant_transmission_detection_parameters: Edit<RedundantTransmissionDetectionParameters<'a>>,
        93 Cn ue_ip_address: UeIpAddress,
        153 Cn framed_route: FramedRoute<'a>,
        154 C framed_routing: Edit<FramedRouting>,
        155 Cn framed_ipv6_route: FramedIpv6Route<'a>,
        124 Cn qfi: Qfi,
        160 C source_interface_type: Edit<ThreeGppInterfaceType>,
        275 O rat_type: Edit<RatType>,
    }

    /// Remove Traffic Endpoint.
    RemoveTrafficEndpoint = 130, "7.5.4.14-1" {
        131 M traffic_endpoint_id: TrafficEndpointId,
    }

    /// Created Traffic Endpoint.
    CreatedTrafficEndpoint = 128, "7.5.3.5-1" {
        131 M traffic_endpoint_id: TrafficEndpointId,
        21 C local_f_teid: FTeid,
        21 C local_f_teid_for_redundant_transmission: FTeid,
        93 Cn ue_ip_address: UeIpAddress,
        308 C local_ingress_tunnel: LocalIngressTunnel<'a>,
    }
}
