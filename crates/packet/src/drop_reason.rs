//! Why a packet goes no further: one list for the whole program.
//!
//! The same enum is the index of each worker's drop counters, the label of the metric and the text of a trace, so
//! that the three can never disagree. It holds no counts: who drops a packet counts it.

/// Writes the enum and its tables from one list of (variant, label, clause, sentence).
macro_rules! drop_reasons {
    ($($name:ident, $label:literal, $clause:literal, $explain:literal;)*) => {
        /// Why a packet was dropped.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum DropReason {
            $(#[doc = $explain] $name,)*
        }

        impl DropReason {
            /// Every reason, in the order of its number: `ALL[reason as usize] == reason`.
            pub const ALL: [DropReason; Self::COUNT] = [$(DropReason::$name,)*];

            /// How many reasons there are.
            pub const COUNT: usize = [$($label,)*].len();

            /// The reason as a metric label, snake_case.
            pub const fn label(self) -> &'static str {
                match self {
                    $(DropReason::$name => $label,)*
                }
            }

            /// The clause or RFC that makes it a drop; "local policy" where only this node's resources do.
            pub const fn clause(self) -> &'static str {
                match self {
                    $(DropReason::$name => $clause,)*
                }
            }

            /// The reason as a sentence.
            pub const fn explain(self) -> &'static str {
                match self {
                    $(DropReason::$name => $explain,)*
                }
            }
        }
    };
}

drop_reasons! {
    // Malformed: layer 2.
    TruncatedEthernet, "truncated_ethernet", "IEEE 802.3 §3",
        "The frame ends inside its Ethernet header or a VLAN tag.";
    UnknownEtherType, "unknown_ether_type", "RFC 894, RFC 2464",
        "The frame carries neither ARP, IPv4 nor IPv6.";
    VlanNotConfigured, "vlan_not_configured", "IEEE 802.1Q",
        "No network instance is configured on the frame's port and VLAN.";
    MemberNotCollecting, "member_not_collecting", "IEEE 802.1AX §6.2.7",
        "The port is a member of a LAG that takes nothing by it now.";
    BadSlowProtocol, "bad_slow_protocol", "IEEE 802.1AX §6.4.2, §6.5.3",
        "The frame of a slow protocol is neither an LACPDU nor a Marker PDU.";
    TruncatedArp, "truncated_arp", "RFC 826",
        "The frame ends inside its ARP packet.";
    BadArp, "bad_arp", "RFC 826, RFC 5227",
        "The ARP packet is not about IPv4 over Ethernet, has an unknown operation or an impossible sender.";
    // Malformed: IP.
    TruncatedIpv4, "truncated_ipv4", "RFC 1812 §5.2.2",
        "The packet is shorter than the IPv4 header it announces.";
    BadIpv4Header, "bad_ipv4_header", "RFC 1812 §5.2.2",
        "The IPv4 version is not 4, the header length is under 20 octets, or an option overruns the header.";
    BadIpv4Checksum, "bad_ipv4_checksum", "RFC 1812 §5.2.2",
        "The IPv4 header checksum is wrong.";
    TruncatedIpv6, "truncated_ipv6", "RFC 8200 §3",
        "The packet is shorter than the 40 octets of an IPv6 header.";
    BadIpv6Header, "bad_ipv6_header", "RFC 8200 §3",
        "The IPv6 version is not 6.";
    Ipv6ExtensionChain, "ipv6_extension_chain", "RFC 8200 §4",
        "An IPv6 extension header overruns the packet, is out of place, or the chain is longer than the bound.";
    BadIpLength, "bad_ip_length", "RFC 791 §3.1, RFC 8200 §3",
        "The IP length is less than the headers need or more than what was received.";
    // Malformed: transport.
    TruncatedUdp, "truncated_udp", "RFC 768",
        "The packet ends inside its UDP header.";
    BadUdpLength, "bad_udp_length", "RFC 768",
        "The UDP length is under 8 octets or more than the IP packet holds.";
    BadUdpChecksum, "bad_udp_checksum", "RFC 1122 §4.1.3.4, RFC 8200 §8.1",
        "The UDP checksum is wrong, or zero over IPv6 where that was not agreed.";
    TruncatedTcp, "truncated_tcp", "RFC 9293 §3.1",
        "The packet ends inside its TCP header, or the data offset is out of range.";
    TruncatedIcmp, "truncated_icmp", "RFC 792, RFC 4443 §2.1",
        "The packet ends inside its ICMP header.";
    BadIcmp, "bad_icmp", "RFC 792, RFC 4443 §2.3, RFC 4861 §7.1",
        "The ICMP checksum is wrong, or a Neighbour Discovery message breaks its rules.";
    TruncatedTransport, "truncated_transport", "RFC 9260 §3, RFC 3828 §3.1",
        "The packet ends before the ports or the SPI of its transport header.";
    // Malformed: GTP-U.
    TruncatedGtpu, "truncated_gtpu", "TS 29.281 §5.1",
        "The datagram ends inside its GTP-U header.";
    BadGtpuVersion, "bad_gtpu_version", "TS 29.281 §5.1",
        "The GTP version is not 1 or the protocol type is GTP'.";
    BadGtpuLength, "bad_gtpu_length", "TS 29.281 §5.1",
        "The GTP-U length is more than the datagram holds or less than its own headers.";
    BadGtpuExtension, "bad_gtpu_extension", "TS 29.281 §5.2.1",
        "A GTP-U extension header has length 0 or overruns the message, or the chain is longer than the bound.";
    UnknownGtpuExtension, "unknown_gtpu_extension", "TS 29.281 §5.2.1",
        "A GTP-U extension header is unknown and its type says that it must be understood.";
    UnsupportedGtpuMessage, "unsupported_gtpu_message", "TS 29.281 §6.1",
        "The GTP-U message type is not one that a user plane node handles.";
    BadGtpuIe, "bad_gtpu_ie", "TS 29.281 §8.1",
        "An information element of a GTP-U signalling message is missing, truncated or out of range.";
    BadPduSessionContainer, "bad_pdu_session_container", "TS 38.415 §5.5.2",
        "The PDU Session Container has an unknown PDU type or ends before the fields it announces.";
    EmptyTunnelPayload, "empty_tunnel_payload", "TS 29.281 §6.1",
        "The G-PDU carries no user packet.";
    UnknownInnerProtocol, "unknown_inner_protocol", "TS 29.281 §6.1",
        "The user packet in the tunnel is neither IPv4 nor IPv6.";
    // Addressing.
    NotForUs, "not_for_us", "RFC 1122 §3.2.1.3",
        "The packet is addressed to a station or an address that is not this node's.";
    MartianSource, "martian_source", "RFC 1812 §5.3.7",
        "The source address is one that no packet may come from.";
    MartianDestination, "martian_destination", "RFC 1812 §5.3.7, RFC 6890 §2.2, RFC 4291 §2.4",
        "The destination is loopback, a group, link-local or reserved, and the packet would be routed.";
    TtlExpired, "ttl_expired", "RFC 1812 §5.3.1, RFC 8200 §3",
        "The TTL or hop limit reached zero.";
    NoRoute, "no_route", "RFC 1812 §5.2.4",
        "No route leads to the destination.";
    NoNeighbour, "no_neighbour", "RFC 1122 §2.3.2.2, RFC 4861 §7.2.2",
        "The next hop's link layer address is not known (yet).";
    Fragment, "fragment", "RFC 1122 §3.3.2",
        "The packet is a fragment for this node and of nothing that is put together here.";
    ForeignErrorIndication, "foreign_error_indication", "TS 29.281 §7.3.1",
        "The Error Indication is about a tunnel to another node than its sender.";
    // Session.
    UnknownTeid, "unknown_teid", "TS 29.281 §7.3.1",
        "No session owns the TEID.";
    UnknownUeAddress, "unknown_ue_address", "TS 29.244 §5.2.1",
        "No session owns the UE address.";
    AbsentSession, "absent_session", "local policy",
        "No session owns the TEID or UE address, and sessions are still being restored.";
    NoMatchingPdr, "no_matching_pdr", "TS 29.244 §5.2.1",
        "The session has no PDR that matches the packet.";
    AccessList, "access_list", "local policy",
        "The access list of the session's slice or data network denies the packet.";
    ConnectionLimit, "connection_limit", "RFC 6092 §3",
        "The packet would begin a connection beyond what the UE, or the worker, may have, and the access list asks for connections.";
    NatNoMapping, "nat_no_mapping", "RFC 4787 §5",
        "The packet is for a public address of a NAT pool, and belongs to no mapping that lets it pass.";
    NatUnsolicited, "nat_unsolicited", "RFC 6888 §4",
        "The packet comes through a NAT mapping from an address that the UE has not sent to, and would wait for the UE, or go beyond a quota.";
    NatNoPort, "nat_no_port", "RFC 6888 REQ-4, REQ-11",
        "The packet would need a new mapping, and its session has no public port left, or may have no more.";
    NatProtocol, "nat_protocol", "RFC 6888 REQ-1",
        "The packet is of a protocol whose packets cannot share a public address.";
    NatBypassed, "nat_bypassed", "local policy",
        "The data network sent it to the UE's own address, and the session has a public one.";
    SpoofedSource, "spoofed_source", "TS 29.244 §5.2.1",
        "The UE sent from an address that is not its own.";
    UeToUe, "ue_to_ue", "local policy",
        "The packet is from UE to UE, and the network instance lets none pass.";
    GateClosed, "gate_closed", "TS 29.244 §8.2.7",
        "A QER's gate is closed in this direction.";
    FarDrop, "far_drop", "TS 29.244 §8.2.26",
        "The FAR says DROP.";
    FarNoTunnel, "far_no_tunnel", "TS 29.244 §8.2.56",
        "The FAR says FORW towards Access and has no outer header to create.";
    FarBuffer, "far_buffer", "TS 29.244 §5.2.4",
        "The FAR says BUFF and the packet cannot be buffered.";
    BufferLimit, "buffer_limit", "local policy",
        "The FAR says BUFF, and as much waits for the FARs of the session as may.";
    BufferDiscarded, "buffer_discarded", "TS 29.244 §8.2.31",
        "It was buffered, and the control plane or the end of the session threw it away.";
    BufferExpired, "buffer_expired", "local policy",
        "It was buffered for as long as any packet is.";
    NotRedirected, "not_redirected", "TS 29.244 §5.4.7",
        "The FAR redirects HTTP, and the packet is none of a request or needs no answer.";
    RedirectLimit, "redirect_limit", "local policy",
        "The FAR redirects HTTP, and the session, or the worker, has had its answers of this second.";
    RelayLimit, "relay_limit", "local policy",
        "Of End Markers and Tunnel Status the session, or the worker, has passed on those of this second.";
    EndMarkerReported, "end_marker_reported", "TS 29.244 §5.2.2.5",
        "It is an End Marker whose reception is reported to the control plane, which ends here.";
    PauseOfChargingHeeded, "pause_of_charging_heeded", "TS 29.244 §5.30",
        "It is a Tunnel Status that pauses the charging of its session, which ends here.";
    MissingQfi, "missing_qfi", "TS 29.244 §8.2.89",
        "The tunnel needs a QFI and no QER gives one.";
    MeterRed, "meter_red", "TS 29.244 §8.2.8",
        "A bit rate or packet rate is exceeded.";
    QuotaExhausted, "quota_exhausted", "TS 29.244 §5.2.2.2",
        "A quota is used up.";
    Away, "away", "local policy",
        "Its session is on its way between this node and an accelerator, and there is no room or time for it to wait.";
    UnsupportedAction, "unsupported_action", "TS 29.244 §8.2.26",
        "The rules ask for an action that this node does not carry out.";
    // Resources.
    SlowPathBudget, "slow_path_budget", "local policy",
        "The burst's budget for new flows is used up.";
    StaleBudget, "stale_budget", "local policy",
        "The burst's budget for flows whose rules changed is used up.";
    Overload, "overload", "local policy",
        "Packets come in faster than they can be worked on, and as many wait as may.";
    HostRate, "host_rate", "local policy",
        "The packet is for the host's own network stack, and its network instance has had those of this second.";
    HostQueueFull, "host_queue_full", "local policy",
        "The packet is for the host's own network stack, whose queue is full.";
    FragmentsFull, "fragments_full", "local policy",
        "The packet is a fragment that has to wait for others, and there is no room to wait.";
    FragmentTimeout, "fragment_timeout", "RFC 791 §3.2, RFC 8200 §4.5",
        "The packet is a fragment that waited for others, which did not come in time.";
    BadFragment, "bad_fragment", "RFC 5722 §4, RFC 8200 §4.5",
        "The packet is a fragment of GTP-U that no sender makes, came twice, or overlaps another of its datagram.";
    FlowTableFull, "flow_table_full", "local policy",
        "The flow table has no room and the packet cannot go without an entry.";
    InboxFull, "inbox_full", "local policy",
        "The owning worker's inbox is full.";
    NoBuffer, "no_buffer", "local policy",
        "The buffer pool is empty.";
    NoHeadroom, "no_headroom", "local policy",
        "The buffer has no room for the new headers.";
    TooBig, "too_big", "RFC 1812 §5.3.3, RFC 8200 §5",
        "The packet is longer than the MTU and may not be fragmented.";
    TxFull, "tx_full", "local policy",
        "The transmit queue is full.";
    EgressQueueFull, "egress_queue_full", "local policy",
        "The queue in which the packet would wait to leave is full, or as many packets wait as may.";
    EgressDelay, "egress_delay", "RFC 8289 §4, RFC 9332 §2.5, RFC 2309 §3",
        "Packets have waited in its queue for too long, or it is too long on average, and its sender does not heed ECN.";
    EgressReleased, "egress_released", "TS 29.244 §7.5.7",
        "The packet waited to leave when its session ended.";
    RecirculationLimit, "recirculation_limit", "local policy",
        "The packet went round inside this node more often than allowed.";
    RateLimited, "rate_limited", "local policy",
        "The budget for replies of this kind is used up.";
    PortDown, "port_down", "local policy",
        "The port that the packet should leave by is down.";
}

impl DropReason {
    /// The place in a table of [`COUNT`](Self::COUNT) counters.
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The reason with this label.
    pub fn from_label(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.label() == label)
    }
}

impl core::fmt::Display for DropReason {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.label())
    }
}

impl core::error::Error for DropReason {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_in_order_and_labels_are_unique_snake_case() {
        for (index, reason) in DropReason::ALL.into_iter().enumerate() {
            assert_eq!(reason.index(), index);
            assert_eq!(DropReason::from_label(reason.label()), Some(reason));
            assert!(
                reason
                    .label()
                    .bytes()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_')
            );
            assert!(reason.explain().ends_with('.'));
            assert!(!reason.clause().is_empty());
        }
        assert_eq!(DropReason::from_label("no_such_reason"), None);
    }

    #[test]
    fn a_label_is_the_name_of_its_variant() {
        for reason in DropReason::ALL {
            let name = format!("{reason:?}").to_lowercase();
            assert_eq!(reason.label().replace('_', ""), name);
        }
    }
}
