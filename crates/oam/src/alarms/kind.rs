//! What can be wrong: one line for each alarm.

use crate::values::Severity;

/// Each alarm: its name in the API, how bad it is, its type and probable cause (TS 28.111, ITU-T X.733 §8.1).
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident $label:literal $severity:ident $event_type:literal $cause:literal;)*) => {
        /// What can be wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Kind {
            $($(#[$doc])* $kind,)*
        }

        impl Kind {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// Its name in the API.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self {
                    $(Self::$kind => $label,)*
                }
            }

            /// How bad it is.
            #[must_use]
            pub const fn severity(self) -> Severity {
                match self {
                    $(Self::$kind => Severity::$severity,)*
                }
            }

            /// The type of the alarm (TS 28.111, ITU-T X.733 §8.1.1).
            #[must_use]
            pub const fn event_type(self) -> &'static str {
                match self {
                    $(Self::$kind => concat!($event_type, " Alarm"),)*
                }
            }

            /// The probable cause (ITU-T X.733 §8.1.2.1).
            #[must_use]
            pub const fn probable_cause(self) -> &'static str {
                match self {
                    $(Self::$kind => $cause,)*
                }
            }
        }
    };
}

kinds! {
    /// An SMF does not answer heartbeats.
    SmfLost "smf_lost" Critical "Communications" "Communications Subsystem Failure";
    /// GTP-U peers do not answer Echo Requests.
    PathsDown "paths_down" Major "Communications" "Communications Subsystem Failure";
    /// A port has no link, or a LAG none of its members.
    LinkDown "link_down" Critical "Equipment" "Loss of Signal";
    /// A member carries no frames of its LAG.
    MemberDown "lag_member_down" Minor "Equipment" "Loss of Signal";
    /// A worker's accelerator is not in contact.
    AcceleratorLost "accelerator_lost" Critical "Communications" "Communications Subsystem Failure";
    /// A worker makes no progress.
    WorkerStalled "worker_stalled" Critical "Processing Error" "Application Subsystem Failure";
    /// A pool of UE addresses has few left.
    PoolNearEnd "pool_near_end" Warning "Quality of Service" "Threshold Crossed";
    /// A pool of public addresses has refused a port block of late.
    NatPoolExhausted "nat_pool_exhausted" Major "Quality of Service" "Resource At or Nearing Capacity";
    /// The number of sessions is near its limit.
    SessionsNearLimit "sessions_near_limit" Warning "Quality of Service" "Threshold Crossed";
    /// The flow entries of the workers are near their limit.
    FlowsNearLimit "flows_near_limit" Warning "Quality of Service" "Threshold Crossed";
    /// A worker has room for few more queues before ports.
    EgressQueuesNearLimit "egress_queues_near_limit" Warning "Quality of Service" "Threshold Crossed";
    /// Sessions have no queues before ports, because there was no room for them.
    EgressQueuesLacking "egress_queues_lacking" Major "Quality of Service" "Resource At or Nearing Capacity";
    /// Nearly as many packets wait before ports as may.
    EgressPoolNearFull "egress_pool_near_full" Minor "Quality of Service" "Congestion";
    /// A count has reached what the configuration says.
    Watermark "watermark" Warning "Quality of Service" "Threshold Crossed";
    /// The disk takes no usage records.
    RecordsHeld "records_held" Major "Processing Error" "Storage Capacity Problem";
    /// Usage records are lost.
    RecordsLost "records_lost" Critical "Processing Error" "Storage Capacity Problem";
    /// The disk takes no changes of sessions.
    StoreFailing "store_failing" Critical "Processing Error" "Storage Capacity Problem";
    /// The disk takes no lines of the audit log.
    AuditNotWritten "audit_not_written" Major "Processing Error" "Storage Capacity Problem";
    /// A file system that the daemon writes to has little room left.
    DiskNearFull "disk_near_full" Minor "Processing Error" "Storage Capacity Problem";
    /// The host's clock was stepped.
    ClockStepped "clock_stepped" Minor "Processing Error" "Timing Problem";
    /// New sessions are refused because control is overloaded.
    Overload "overload" Major "Quality of Service" "Congestion";
    /// A receiver of alarms takes none.
    AlarmsUndelivered "alarms_undelivered" Minor "Communications" "Communications Subsystem Failure";
}

impl Kind {
    /// The one with this name.
    #[must_use]
    pub fn of_label(label: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.label() == label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_name_of_its_own() {
        for kind in Kind::ALL {
            assert_eq!(Kind::of_label(kind.label()), Some(*kind));
        }
        assert_eq!(Kind::of_label("none"), None);
    }

    #[test]
    fn the_guide_has_each_with_its_severity() {
        let guide = include_str!("../../../../docs/guide/metrics.md");
        for kind in Kind::ALL {
            let row = format!("| `{}` | {} |", kind.label(), kind.severity().word());
            assert!(guide.contains(&row), "{row}");
        }
    }
}
