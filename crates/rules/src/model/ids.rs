//! The numbers that rules go by. Each is unique within one session and one kind of rule (TS 29.244 §5.2.1).

use core::fmt;

/// Makes a newtype for the id of a rule.
macro_rules! rule_id {
    ($(#[$doc:meta])* $name:ident($int:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        #[repr(transparent)]
        pub struct $name(pub $int);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

rule_id! {
    /// A Packet Detection Rule (TS 29.244 §8.2.36), 0..=65535.
    PdrId(u16)
}
rule_id! {
    /// A Forwarding Action Rule (TS 29.244 §8.2.74). The top bit set names a rule predefined in the user plane.
    FarId(u32)
}
rule_id! {
    /// A QoS Enforcement Rule (TS 29.244 §8.2.75). The top bit set names a rule predefined in the user plane.
    QerId(u32)
}
rule_id! {
    /// A Usage Reporting Rule (TS 29.244 §8.2.54). The top bit set names a rule predefined in the user plane.
    UrrId(u32)
}
rule_id! {
    /// A Buffering Action Rule (TS 29.244 §8.2.57), 0..=255.
    BarId(u8)
}
rule_id! {
    /// A Traffic Endpoint (TS 29.244 §8.2.92), 0..=255.
    TrafficEndpointId(u8)
}
rule_id! {
    /// What QERs of several sessions have in common that keep one rate together (TS 29.244 §8.2.10): no rule's number.
    /// It means something among the sessions of one control plane function.
    CorrelationId(u32)
}

/// A configured forwarding policy that FARs name (TS 29.244 §8.2.23): its place in the configuration, dense from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PolicyId(pub u16);

/// A PDR's place in the order of matching: **the lower value is tried first** (TS 29.244 §8.2.11).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Precedence(pub u32);

impl Precedence {
    /// Tried after all others: for a PDR that came without a precedence, as on Sxa.
    pub const LOWEST: Self = Self(u32::MAX);
}

/// A rule of a session by kind and id: what a Failed Rule ID names (TS 29.244 §8.2.80), or a Traffic Endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RuleRef {
    /// A PDR.
    Pdr(PdrId),
    /// A FAR.
    Far(FarId),
    /// A QER.
    Qer(QerId),
    /// A URR.
    Urr(UrrId),
    /// A BAR.
    Bar(BarId),
    /// A Traffic Endpoint.
    Endpoint(TrafficEndpointId),
}

impl RuleRef {
    /// Whether the number is one of a rule that is predefined in the user plane: a FAR, QER or URR with the top bit set
    /// (TS 29.244 §8.2.54, §8.2.74, §8.2.75).
    pub const fn is_predefined(self) -> bool {
        match self {
            Self::Far(FarId(id)) | Self::Qer(QerId(id)) | Self::Urr(UrrId(id)) => id >> 31 != 0,
            Self::Pdr(_) | Self::Bar(_) | Self::Endpoint(_) => false,
        }
    }
}

impl fmt::Display for RuleRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pdr(id) => write!(f, "PDR {id}"),
            Self::Far(id) => write!(f, "FAR {id}"),
            Self::Qer(id) => write!(f, "QER {id}"),
            Self::Urr(id) => write!(f, "URR {id}"),
            Self::Bar(id) => write!(f, "BAR {id}"),
            Self::Endpoint(id) => write!(f, "Traffic Endpoint {id}"),
        }
    }
}

impl From<PdrId> for RuleRef {
    fn from(id: PdrId) -> Self {
        Self::Pdr(id)
    }
}

impl From<FarId> for RuleRef {
    fn from(id: FarId) -> Self {
        Self::Far(id)
    }
}

impl From<QerId> for RuleRef {
    fn from(id: QerId) -> Self {
        Self::Qer(id)
    }
}

impl From<UrrId> for RuleRef {
    fn from(id: UrrId) -> Self {
        Self::Urr(id)
    }
}

impl From<BarId> for RuleRef {
    fn from(id: BarId) -> Self {
        Self::Bar(id)
    }
}

impl From<TrafficEndpointId> for RuleRef {
    fn from(id: TrafficEndpointId) -> Self {
        Self::Endpoint(id)
    }
}
