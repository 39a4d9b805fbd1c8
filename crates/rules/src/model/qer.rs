//! QoS Enforcement Rules (TS 29.244 §5.4, Table 7.5.2.5-1).

use flow::Direction;
use flow::meter::{MeterSpec, PacketRate, Rate};
use packet::{Ppi, Qfi};

use super::ids::{CorrelationId, QerId};
use crate::boxed_option::{Absent, BoxedOption};

/// Whether packets pass in one direction (TS 29.244 §8.2.7).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Gate {
    /// They pass.
    #[default]
    Open,
    /// They are discarded.
    Closed,
}

impl Gate {
    /// The gate with this two-bit value: every value but 0 is closed.
    pub const fn from_value(value: u8) -> Self {
        if value & 3 == 0 { Self::Open } else { Self::Closed }
    }

    /// Whether packets are discarded.
    pub const fn is_closed(self) -> bool {
        matches!(self, Self::Closed)
    }
}

/// A rate in bits per second. On the wire it is in kilobits of 1000 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct BitsPerSecond(pub u64);

impl BitsPerSecond {
    /// The rate of an MBR or GBR field in kbit/s (TS 29.244 §8.2.8, five octets). Saturates.
    pub const fn from_kbit(kbit: u64) -> Self {
        Self(kbit.saturating_mul(1000))
    }
}

/// A pair of rates.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BitRates {
    /// Uplink.
    pub ul: BitsPerSecond,
    /// Downlink.
    pub dl: BitsPerSecond,
}

impl BitRates {
    /// Whether one of them is above [`Rate::REACHABLE`].
    pub const fn is_beyond_reach(self) -> bool {
        let most = Rate::REACHABLE.kbit() * 1000;
        self.ul.0 > most || self.dl.0 > most
    }
}

/// How many packets pass, for each direction that has a limit (TS 29.244 §8.2.63).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PacketRates {
    /// Uplink.
    pub ul: Option<PacketRate>,
    /// Downlink.
    pub dl: Option<PacketRate>,
}

impl PacketRates {
    /// The rate of a direction.
    pub const fn of(self, direction: Direction) -> Option<PacketRate> {
        match direction {
            Direction::Uplink => self.ul,
            Direction::Downlink => self.dl,
        }
    }
}

/// What few QERs say.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct OptionalRates {
    /// The guaranteed bit rate: within it packets are green.
    pub gbr: Option<BitRates>,
    /// The time over which guaranteed and maximum bit rates hold, in milliseconds (TS 29.244 §8.2.115). It is for
    /// QERs with a GBR.
    pub averaging_window: Option<u32>,
    /// How many packets pass (TS 29.244 §5.4.15).
    pub packet_rates: Option<PacketRates>,
    /// What is left of them is reported when the session is released (RCSR, TS 29.244 §8.2.174).
    pub reports_rate: bool,
    /// Packets of scalable senders are marked by what the RAN reports of congestion (EML4S, TS 29.244 §5.38.1).
    pub marks_l4s: bool,
}

impl Absent for OptionalRates {
    const ABSENT: &'static Self = &Self {
        gbr: None,
        averaging_window: None,
        packet_rates: None,
        reports_rate: false,
        marks_l4s: false,
    };
}

impl From<OptionalRates> for BoxedOption<OptionalRates> {
    /// Nothing is absent.
    fn from(rates: OptionalRates) -> Self {
        let mut boxed = Self::NONE;
        if rates != OptionalRates::default() {
            *boxed.get_or_insert_default() = rates;
        }
        boxed
    }
}

/// A QoS Enforcement Rule (TS 29.244 Table 7.5.2.5-1).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Qer {
    /// Its number in the session.
    pub id: QerId,
    /// With which QERs of other sessions it keeps its maximum bit rate together.
    pub correlation: Option<CorrelationId>,
    /// The uplink gate.
    pub gate_ul: Gate,
    /// The downlink gate.
    pub gate_dl: Gate,
    /// The QoS flow that forwarded packets are marked with.
    pub qfi: Option<Qfi>,
    /// Whether downlink packets carry the Reflective QoS Indication.
    pub rqi: bool,
    /// The Paging Policy Indicator of downlink packets.
    pub ppi: Option<Ppi>,
    /// The Service Class Indicator that downlink packets are marked with in tunnels, for GERAN (TS 29.244 §5.4.12); not
    /// beside a QFI.
    pub sci: Option<u8>,
    /// The maximum bit rate; `None` is no limit, and 0 lets nothing pass.
    pub mbr: Option<BitRates>,
    /// What few QERs say.
    pub optional: BoxedOption<OptionalRates>,
}

const _: () = assert!(size_of::<Qer>() <= 56, "there are very many");

impl Qer {
    /// Lets everything pass and marks nothing.
    pub const fn new(id: QerId) -> Self {
        Self {
            id,
            correlation: None,
            gate_ul: Gate::Open,
            gate_dl: Gate::Open,
            qfi: None,
            rqi: false,
            ppi: None,
            sci: None,
            mbr: None,
            optional: BoxedOption::NONE,
        }
    }

    /// Whether packets are marked with something of it: several QERs of a PDR do not add up, the first that marks does.
    pub const fn marks(&self) -> bool {
        self.qfi.is_some() || self.sci.is_some()
    }

    /// Whether the GBR of a direction is above its MBR. Without an MBR any GBR will do.
    pub fn guarantees_too_much(&self) -> bool {
        matches!((self.optional.gbr, self.mbr), (Some(gbr), Some(mbr)) if gbr.ul > mbr.ul || gbr.dl > mbr.dl)
    }

    /// The maximum bit rate of each direction as a meter keeps it.
    pub fn maximum(&self) -> [Rate; 2] {
        let rate = |rate: BitsPerSecond| match Rate::from_bits_per_second(rate.0) {
            rate if rate > Rate::REACHABLE => Rate::UNLIMITED,
            rate => rate,
        };
        self.mbr
            .map_or([Rate::UNLIMITED; 2], |mbr| [rate(mbr.ul), rate(mbr.dl)])
    }

    /// The time that its buckets hold the rates of, in milliseconds: the Averaging Window of a QoS flow with a GBR, for
    /// which that is defined (TS 23.501 §5.7.3.6); else 50 ms.
    pub fn burst_millis(&self) -> u64 {
        let window = self.optional.averaging_window;
        let window = window.filter(|_| self.optional.gbr.is_some());
        window.map_or(MeterSpec::BURST_MILLIS, u64::from)
    }

    /// Whether the MBR of a direction is so high that nothing reaches it, and no meter keeps it.
    pub fn is_beyond_reach(&self) -> bool {
        self.mbr.is_some_and(BitRates::is_beyond_reach)
    }
}
