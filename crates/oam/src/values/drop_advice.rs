//! What an operator can do about dropped packets, by the reason. The reasons themselves are those of
//! [`packet::DropReason`]; a test fails for one without advice.

use packet::DropReason;

/// What to do about packets dropped for `reason`, in a sentence or two.
#[must_use]
pub const fn drop_advice(reason: DropReason) -> &'static str {
    match about_frames(reason) {
        Some(advice) => advice,
        None => match about_tunnels(reason) {
            Some(advice) => advice,
            None => match about_rules(reason) {
                Some(advice) => advice,
                None => about_resources(reason),
            },
        },
    }
}

/// Headers of layers 2 to 4, and addresses.
const fn about_frames(reason: DropReason) -> Option<&'static str> {
    use DropReason as D;
    Some(match reason {
        D::TruncatedEthernet | D::TruncatedArp | D::BadArp => {
            "A station on the link sends damaged frames: find it by its MAC address in a capture of the port."
        }
        D::UnknownEtherType => "Nothing: LLDP, spanning tree and the like are usual on a link.",
        D::VlanNotConfigured => {
            "Give an instance that VLAN (instances.*.vlan), or take it off the switch's port."
        }
        D::MemberNotCollecting => {
            "Nothing while a LAG's link comes up. Else compare both ends: sluice show ports."
        }
        D::BadSlowProtocol => "Compare the settings of LACP at both ends of the link.",
        D::TruncatedIpv4
        | D::BadIpv4Header
        | D::BadIpv4Checksum
        | D::TruncatedIpv6
        | D::BadIpv6Header
        | D::Ipv6ExtensionChain
        | D::BadIpLength => {
            "A sender makes such packets, or the link damages them: sluice trace shows from where they are."
        }
        D::TruncatedUdp | D::BadUdpLength | D::TruncatedTcp | D::TruncatedTransport => {
            "A few are scans. Many from one sender are a fault of it: sluice trace shows which."
        }
        D::TruncatedIcmp | D::BadIcmp => "A few are scans. Many from one station are a fault of it.",
        D::BadUdpChecksum => {
            "Look at the link and at the sender's checksum offload: sluice trace shows the sender."
        }
        D::NotForUs => {
            "A few are usual on shared links. If there are many: does the neighbour have the right address and MAC address of Sluice?"
        }
        D::MartianSource => {
            "The sender, or a router, lets packets with impossible sources through: filter them there."
        }
        D::MartianDestination => {
            "A UE or a host sends to addresses that no router forwards. Nothing, if there are few."
        }
        D::TtlExpired => "Traceroutes make a few. If there are many, routes at the two ends form a loop.",
        D::NoRoute => "Add a route (instances.*.routes): sluice show routes has those that there are.",
        D::NoNeighbour => {
            "The next hop does not answer ARP or Neighbour Discovery: sluice show neighbours, sluice show routes."
        }
        D::Fragment => {
            "The sender should not fragment packets to this node: lower its MTU (docs/guide/sizes.md)."
        }
        _ => return None,
    })
}

/// GTP-U.
const fn about_tunnels(reason: DropReason) -> Option<&'static str> {
    use DropReason as D;
    Some(match reason {
        D::TruncatedGtpu
        | D::BadGtpuVersion
        | D::BadGtpuLength
        | D::BadGtpuExtension
        | D::UnknownGtpuExtension
        | D::UnsupportedGtpuMessage
        | D::BadGtpuIe
        | D::BadPduSessionContainer => {
            "A GTP-U peer sends what TS 29.281 or TS 38.415 does not allow: sluice trace shows the peer; capture it there."
        }
        D::EmptyTunnelPayload | D::UnknownInnerProtocol => {
            "The gNB sends G-PDUs without an IP packet: is the PDU session of another type (Ethernet, unstructured)?"
        }
        D::ForeignErrorIndication => {
            "A station claims errors of tunnels that are not its own: find it by its address."
        }
        D::UnknownTeid => {
            "gNB and SMF disagree about a session, or Sluice has restarted: sluice show sessions --teid TEID."
        }
        D::EndMarkerReported | D::PauseOfChargingHeeded => "Nothing: this is its purpose.",
        D::RelayLimit => "A peer floods End Markers or Tunnel Status messages: look at that gNB.",
        _ => return None,
    })
}

/// Sessions and their rules.
const fn about_rules(reason: DropReason) -> Option<&'static str> {
    use DropReason as D;
    Some(match reason {
        D::UnknownUeAddress => {
            "No session has the destination: compare the instance's name with the DNN; sluice show sessions --ue ADDRESS."
        }
        D::AbsentSession => {
            "Sluice restores the sessions of before its restart: if it does not end soon, see its log."
        }
        D::NoMatchingPdr => {
            "sluice trace --ue ADDRESS -v shows for each PDR what does not match; the SMF made them."
        }
        D::AccessList => {
            "`sluice show access-lists` says which rules deny how much; change `access_lists` if they should not."
        }
        D::NatNoMapping => "Nothing: it is unsolicited, or its mapping has expired (nat.lifetime_s).",
        D::NatUnsolicited => {
            "Nothing: the UE is idle, or has used up a quota. nat_pools.*.unsolicited says whether such packets page and are charged."
        }
        D::NatNoPort => {
            "sluice show nat says what is left of pools; nat_pools.*.per_session and addresses limit what sessions have."
        }
        D::NatProtocol => "NAT takes TCP, UDP and ICMP; untranslated names destinations that need none.",
        D::NatBypassed => {
            "The data network routes the UEs' own addresses here: it should route those of nat_pools."
        }
        D::ConnectionLimit => "connections.per_session and connections.per_worker limit connections of UEs.",
        D::SpoofedSource => "A tethered network behind the UE needs a framed route; else the UE misbehaves.",
        D::UeToUe => "instances.*.hairpin says whether UEs may reach each other.",
        D::GateClosed => "The SMF has closed the gate of a QER: ask SMF and PCF why.",
        D::FarDrop => "The SMF wants it so: ask it why.",
        D::FarNoTunnel => {
            "The SMF has not sent the gNB's tunnel: the set-up was not completed; see SMF and AMF."
        }
        D::FarBuffer => "The FAR buffers and has no BAR or session to do it with: see the SMF's rules.",
        D::BufferLimit | D::BufferExpired => {
            "UEs are not paged in time: see whether Session Report Requests are answered (sluice show n4); buffering.*."
        }
        D::BufferDiscarded => "Nothing: the SMF gave the packets up, or the session ended.",
        D::NotRedirected | D::RedirectLimit => {
            "Nothing: a UE that is redirected sends more than HTTP requests, or repeats them."
        }
        D::MissingQfi => "The SMF's rules name no QFI for this tunnel: see the SMF.",
        D::MeterRed => {
            "The rate of a QER or policer is exceeded: sluice show session SEID has the rates; SMF and PCF set them."
        }
        D::QuotaExhausted => {
            "The SMF has given no new quota: see it and the charging system (docs/guide/charging.md)."
        }
        D::Away => "Is the link to the accelerator overloaded, or does it lose frames?",
        D::UnsupportedAction => {
            "The SMF asks for an action that this node did not announce: docs/compliance."
        }
        _ => return None,
    })
}

/// What this node has, and what is left of it.
const fn about_resources(reason: DropReason) -> &'static str {
    use DropReason as D;
    match reason {
        D::SlowPathBudget => {
            "Too many new flows at once: a scan or an attack, else more workers (workers.slow_path_per_burst)."
        }
        D::StaleBudget => "Rules that many sessions share have changed: it ends by itself.",
        D::Overload => {
            "The workers are at their limit: more cores (workers.count, workers.cores) that no other program uses."
        }
        D::HostRate | D::HostQueueFull => {
            "More for the host's network stack than it may have: instances.*.host."
        }
        D::FragmentsFull | D::FragmentTimeout => {
            "Fragments are lost on their way, or there are too many: raise the MTU of the path (docs/guide/sizes.md)."
        }
        D::BadFragment => "A sender makes fragments that overlap: an attack, or a fault of it.",
        D::FlowTableFull => "Raise limits.flows_ipv4 or limits.flows_ipv6.",
        D::InboxFull => {
            "Packets arrive at other workers than their sessions': see the log for what RSS the NIC has."
        }
        D::NoBuffer => "All packet buffers are in use: raise dpdk.buffers.",
        D::NoHeadroom => {
            "Packets come with less room before them than headers need: report it with the port's driver."
        }
        D::TooBig => {
            "The path's MTU is too small, and the packet may not be fragmented: docs/guide/sizes.md."
        }
        D::TxFull => "The port does not send as fast as packets come: look at the link; ports.*.descriptors.",
        D::EgressQueueFull => {
            "More comes for a UE, an instance or a port than may leave: sluice show queues says where. Longer queues (egress.classes.*.bytes) delay more."
        }
        D::EgressDelay => {
            "Nothing: senders slow down by it. It is usual where a UE gets less than its senders would send."
        }
        D::EgressReleased => "Nothing: the session has ended.",
        D::RecirculationLimit => {
            "Rules lead packets from instance to instance in a circle: see the SMF's FARs."
        }
        D::RateLimited => {
            "More echo requests, pings or errors than are answered: gtpu.answers, icmp; else look for a scan."
        }
        D::PortDown => "The link is down: sluice show ports.",
        // Named by the functions before this one.
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_advice() {
        let without: Vec<_> = DropReason::ALL
            .into_iter()
            .filter(|reason| !drop_advice(*reason).ends_with(['.', '?']))
            .collect();
        assert_eq!(without, [], "these have none");
    }
}
