//! When sessions leave for an accelerator.

use std::time::Duration;

use flow::InstanceId;
use rules::SessionRules;

/// When sessions leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffloadPolicy {
    /// None leaves: the accelerator gives all packets to the worker.
    pub is_partial: bool,
    /// Packets of a session that pass here before it leaves; 0: it leaves with its first packet.
    pub after_packets: u16,
    /// Octets of user packets of a session that pass here before it leaves, too.
    pub after_octets: u32,
    /// The QFIs whose packets have a session leave, a bit each; `None`: all packets do, also those without one.
    pub qfis: Option<u64>,
    /// The instances by which packets come in or leave that have a session leave; `None`: all do.
    pub instances: Option<Vec<InstanceId>>,
    /// The rulebases, by their names, of which PDRs of a session activate one at least that leaves; `None`: all leave.
    pub rulebases: Option<Vec<Box<[u8]>>>,
    /// How long a session stays that had to come home, or was refused.
    pub stays_for: Duration,
    /// Sessions that are away, at most.
    pub sessions: usize,
}

impl Default for OffloadPolicy {
    fn default() -> Self {
        Self {
            is_partial: false,
            after_packets: 0,
            after_octets: 0,
            qfis: None,
            instances: None,
            rulebases: None,
            stays_for: Duration::from_secs(10),
            sessions: usize::MAX,
        }
    }
}

/// A packet of a session at home, as far as a policy looks at it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PassingPacket {
    /// Octets of the user packet.
    pub octets: u16,
    /// Of the tunnel that it came in, or that it goes into.
    pub qfi: Option<u8>,
    /// By which it came in, and by which it leaves.
    pub instances: [InstanceId; 2],
    /// Its session has one of the policy's rulebases, or needs none.
    pub has_rulebase: bool,
}

impl OffloadPolicy {
    /// Whether it looks at more of a packet than its octets.
    pub(crate) const fn is_selective(&self) -> bool {
        self.qfis.is_some() || self.instances.is_some() || self.rulebases.is_some()
    }

    /// Whether a session has one of its rulebases, or needs none.
    pub(crate) fn takes(&self, rules: &SessionRules) -> bool {
        let Some(names) = &self.rulebases else { return true };
        let mut active = rules.pdrs().iter().flat_map(|pdr| pdr.rulebases.iter());
        active.any(|rulebase| names.iter().any(|name| **name == *rulebase.name()))
    }

    /// Whether a packet has its session leave, once enough of them have passed.
    pub(crate) fn counts(&self, packet: &PassingPacket) -> bool {
        let has_qfi = |qfis: u64| packet.qfi.is_some_and(|qfi| qfis >> (qfi & 63) & 1 == 1);
        let has_instance =
            |instances: &[InstanceId]| packet.instances.iter().any(|one| instances.contains(one));
        packet.has_rulebase
            && self.qfis.is_none_or(has_qfi)
            && self.instances.as_deref().is_none_or(has_instance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_count_by_qfi_and_instance() {
        let packet = PassingPacket {
            octets: 100,
            qfi: Some(9),
            instances: [InstanceId(0), InstanceId(2)],
            has_rulebase: true,
        };
        let policy = |qfis: Option<u64>, instances: Option<&[u16]>| OffloadPolicy {
            qfis,
            instances: instances.map(|ids| ids.iter().map(|id| InstanceId(*id)).collect()),
            ..OffloadPolicy::default()
        };
        for (policy, counts) in [
            (policy(None, None), true),
            (policy(Some(1 << 9), None), true),
            (policy(Some(1 << 8), None), false),
            (policy(None, Some(&[2])), true),
            (policy(None, Some(&[0, 1])), true),
            (policy(None, Some(&[1])), false),
            (policy(Some(1 << 9), Some(&[1])), false),
            (policy(Some(0), None), false),
        ] {
            assert_eq!(policy.counts(&packet), counts, "{policy:?}");
        }
        let without = PassingPacket { qfi: None, ..packet };
        assert!(policy(None, None).counts(&without));
        let other = PassingPacket {
            has_rulebase: false,
            ..packet
        };
        assert!(!policy(None, None).counts(&other));
        assert!(!policy(Some(u64::MAX), None).counts(&without));
    }
}
