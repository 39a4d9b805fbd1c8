//! The published traffic models: how many sessions, bearers and flows there are, who of them sends, and how long the
//! packets are.
//!
//! A *flow* is one direction of a 5-tuple. Flows are numbered; everything about one follows from its number by
//! arithmetic, so that sixteen million of them take no memory here. Nothing in this module knows a worker.

use std::net::Ipv4Addr;

use flow::Direction;

/// Octets of the Ethernet frame, without FCS, that the model's sizes are about: as received.
pub type FrameSize = u16;

/// The frames' sizes in profiles 1 to 3 of model V, both directions.
pub const SIZES_SMALL: [FrameSize; 6] = [128, 256, 512, 650, 1_024, 1_528];
/// The uplink frames' sizes in profiles 4 to 6 of model V.
pub const SIZES_UPLINK: [FrameSize; 5] = [128, 256, 512, 576, 750];
/// The downlink frames' sizes in profiles 4 to 6 of model V, each with the uplink size at its place.
pub const SIZES_DOWNLINK: [FrameSize; 5] = [1_408, 2_816, 5_632, 6_336, 8_250];

/// Bearers whose maximum bit rate lets nothing pass, so that all their packets are red: one in this number. The share
/// of red packets is that of these bearers then, however fast the machine is.
pub const LIMITED_BEARERS: u32 = 32;
/// The maximum bit rate of those, bits per second.
pub const LIMITED_RATE: u64 = 0;
/// The maximum bit rate of all others, which no packet ever reaches.
pub const AMPLE_RATE: u64 = 100_000_000_000;

/// QERs and URRs of a session's rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// A QER with a maximum bit rate and QFI for each bearer.
    pub bearer_qer: bool,
    /// A QER with a maximum bit rate over all bearers of the session.
    pub session_qer: bool,
    /// Slices, whose rate all their sessions share; 0: none.
    pub slices: u16,
    /// URRs that each packet counts in: 0, 1 (of its bearer) or 2 (and of the session).
    pub urrs: u8,
    /// Some bearers have a rate that makes their packets red ([`LIMITED_BEARERS`]).
    pub limits: bool,
}

impl Policy {
    /// PDR and FAR alone, with the QFI that downlink packets need.
    pub const BARE: Self = Self {
        bearer_qer: false,
        session_qer: false,
        slices: 0,
        urrs: 0,
        limits: false,
    };

    /// Meters that each packet has to pass.
    pub const fn meters(self) -> u32 {
        self.bearer_qer as u32 + self.session_qer as u32 + (self.slices > 0) as u32
    }

    /// The slice of a session, from 1; 0 where there are none.
    pub const fn slice(self, session: u32) -> u16 {
        match self.slices {
            0 => 0,
            slices => (session % slices as u32) as u16 + 1,
        }
    }
}

/// One traffic model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// Its name in reports.
    pub name: &'static str,
    /// PDU sessions.
    pub sessions: u32,
    /// Sessions with traffic, spread evenly.
    pub active: u32,
    /// Bearers (QoS flows) of each session; each has an uplink and a downlink PDR.
    pub bearers: u32,
    /// Flows of each bearer, uplink and downlink in turn; even.
    pub flows_per_bearer: u32,
    /// Packets uplink of a thousand.
    pub uplink_per_mille: u32,
    /// Frame sizes, uplink and downlink.
    pub sizes: [FrameSize; 2],
    /// QERs and URRs.
    pub policy: Policy,
    /// Every flow has an entry of its own, also where a wider one would do.
    pub force_five_tuple: bool,
}

impl Model {
    /// Model V: 131,072 subscribers with 2 bearers of 32 flows; `profile` 1 to 6, `size` the place in its list.
    /// `None` for a profile or size that it does not have.
    #[must_use]
    pub fn v(profile: u8, size: usize) -> Option<Self> {
        let sizes = match profile {
            1..=3 => [*SIZES_SMALL.get(size)?; 2],
            4..=6 => [*SIZES_UPLINK.get(size)?, *SIZES_DOWNLINK.get(size)?],
            _ => return None,
        };
        Some(Self {
            name: ["V1", "V2", "V3", "V4", "V5", "V6"][usize::from(profile) - 1],
            sessions: 131_072,
            active: 131_072,
            bearers: 2,
            flows_per_bearer: 32,
            uplink_per_mille: 250 * u32::from((profile - 1) % 3 + 1),
            sizes,
            policy: Policy {
                bearer_qer: true,
                session_qer: true,
                slices: 8,
                urrs: 2,
                limits: true,
            },
            force_five_tuple: true,
        })
    }

    /// Model S: 600,000 sessions, 10,000 of them active, 920 octets. Its 1000 PDR, 200 QER and 100 URR are rules in
    /// all, not of each session: here each session has the least that makes it forward, and a QER and a URR.
    #[must_use]
    pub const fn s() -> Self {
        Self {
            name: "S",
            sessions: 600_000,
            active: 10_000,
            bearers: 1,
            flows_per_bearer: 2,
            uplink_per_mille: 500,
            sizes: [920; 2],
            policy: Self::ONE_QER_ONE_URR,
            force_five_tuple: false,
        }
    }

    /// Model I: 50,000 subscribers with a session each, UL:DL 1:3, 600 octets.
    #[must_use]
    pub const fn i() -> Self {
        Self {
            name: "I",
            sessions: 50_000,
            active: 50_000,
            uplink_per_mille: 250,
            sizes: [600; 2],
            ..Self::s()
        }
    }

    /// The model of open UPFs' measurements: 10,000 sessions, 2 PDR, 2 FAR, 1 QER, 1 URR, an entry for each tunnel.
    #[must_use]
    pub const fn open() -> Self {
        Self {
            name: "T3",
            sessions: 10_000,
            active: 10_000,
            sizes: [128, 128],
            ..Self::s()
        }
    }

    const ONE_QER_ONE_URR: Policy = Policy {
        bearer_qer: true,
        session_qer: false,
        slices: 0,
        urrs: 1,
        limits: false,
    };

    /// The model with another number of sessions, all active.
    #[must_use]
    pub const fn with_sessions(self, sessions: u32) -> Self {
        Self {
            sessions,
            active: sessions,
            ..self
        }
    }

    /// The same with this number of flows, by the number of sessions; by that of flows for each where there is less
    /// than one session's worth.
    #[must_use]
    pub fn with_flows(self, flows: u32) -> Self {
        let sessions = (flows / (self.bearers * self.flows_per_bearer)).max(1);
        self.with_sessions(sessions)
    }

    /// The model with another policy.
    #[must_use]
    pub const fn with_policy(self, policy: Policy) -> Self {
        Self { policy, ..self }
    }

    /// Flows that send.
    #[must_use]
    pub const fn flows(&self) -> u32 {
        self.active * self.bearers * self.flows_per_bearer
    }

    /// Bearers of all sessions.
    #[must_use]
    pub const fn all_bearers(&self) -> u32 {
        self.sessions * self.bearers
    }

    /// Flow entries that the flows make.
    #[must_use]
    pub const fn entries(&self) -> u32 {
        if self.force_five_tuple {
            self.flows()
        } else {
            self.active * self.bearers * 2
        }
    }

    /// PDRs of one session.
    #[must_use]
    pub const fn pdrs(&self) -> u32 {
        self.bearers * 2
    }

    /// The flow with this number, below [`flows`](Self::flows).
    #[inline]
    #[must_use]
    pub const fn flow(&self, number: u32) -> Flow {
        let pairs = self.flows_per_bearer / 2;
        let (pair, direction) = (number >> 1, number & 1);
        let bearer = pair / pairs;
        let active = bearer / self.bearers;
        Flow {
            session: active * (self.sessions / self.active),
            bearer: (bearer % self.bearers) as u8,
            pair: (pair % pairs) as u16,
            direction: if direction == 0 {
                Direction::Uplink
            } else {
                Direction::Downlink
            },
        }
    }

    /// The size of received frames.
    #[must_use]
    pub const fn size(&self, direction: Direction) -> FrameSize {
        self.sizes[direction as usize]
    }

    /// Mean octets of a frame received.
    #[must_use]
    pub fn mean_size(&self) -> f64 {
        let uplink = f64::from(self.uplink_per_mille) / 1000.0;
        f64::from(self.sizes[0]) * uplink + f64::from(self.sizes[1]) * (1.0 - uplink)
    }
}

/// One flow: one direction of a 5-tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The session's number.
    pub session: u32,
    /// The bearer in it.
    pub bearer: u8,
    /// Which of the bearer's 5-tuples it is.
    pub pair: u16,
    /// Which way it goes.
    pub direction: Direction,
}

impl Flow {
    /// The server at the other end, of 64.
    #[inline]
    #[must_use]
    pub const fn server(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(SERVERS + self.pair as u32 % 64)
    }

    /// The UE's port.
    #[inline]
    #[must_use]
    pub const fn ue_port(&self) -> u16 {
        1_024 + self.pair
    }

    /// The server's port, which identifies the bearer.
    #[inline]
    #[must_use]
    pub const fn server_port(&self) -> u16 {
        server_port(self.bearer)
    }
}

/// The port of servers of this bearer.
#[must_use]
pub const fn server_port(bearer: u8) -> u16 {
    5_000 + bearer as u16
}

/// The QFI of a bearer.
#[must_use]
pub const fn qfi(bearer: u8) -> u8 {
    bearer + 1
}

/// Servers have the addresses from here on, in the range for benchmarks (RFC 2544 appendix C.2.2, RFC 6890).
pub const SERVERS: u32 = 0xc612_0000;

/// The numbers below a bound, each once, in an order that jumps about: a step that has no divisor with the bound.
#[derive(Clone, Copy, Debug)]
pub struct Scattered {
    bound: u32,
    step: u32,
    next: u32,
}

impl Scattered {
    /// All numbers below `bound`, which is above 0.
    #[must_use]
    pub fn new(bound: u32) -> Self {
        let golden = (f64::from(bound) * 0.618_033_988_75) as u32;
        let step = (golden.max(1)..).find(|&step| gcd(step, bound) == 1).unwrap_or(1);
        Self {
            bound,
            step,
            next: step % bound,
        }
    }

    /// The next number; it starts again after the last.
    #[inline]
    pub fn draw(&mut self) -> u32 {
        let number = self.next;
        self.next = ((u64::from(self.next) + u64::from(self.step)) % u64::from(self.bound)) as u32;
        number
    }
}

const fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn model_v_has_the_published_numbers() {
        let v2 = Model::v(2, 1).unwrap();
        assert_eq!((v2.flows(), v2.entries()), (8_388_608, 8_388_608));
        assert_eq!((v2.sessions, v2.all_bearers(), v2.pdrs()), (131_072, 262_144, 4));
        assert_eq!(v2.sizes, [256, 256]);
        let shares: Vec<u32> = (1..=6)
            .map(|profile| Model::v(profile, 0).unwrap().uplink_per_mille)
            .collect();
        assert_eq!(shares, [250, 500, 750, 250, 500, 750]);
        assert_eq!(Model::v(6, 4).unwrap().sizes, [750, 8_250]);
        assert_eq!(Model::v(1, 5).unwrap().sizes, [1_528, 1_528]);
        assert_eq!(
            (Model::v(0, 0), Model::v(7, 0), Model::v(1, 6), Model::v(4, 5)),
            (None, None, None, None)
        );
        assert!((Model::v(4, 0).unwrap().mean_size() - 1_088.0).abs() < 0.001);
    }

    #[test]
    fn the_other_models_have_theirs() {
        assert_eq!((Model::s().sessions, Model::s().flows()), (600_000, 20_000));
        assert_eq!((Model::i().sessions, Model::i().uplink_per_mille), (50_000, 250));
        assert_eq!(Model::open().entries(), 20_000);
        assert_eq!(Model::v(2, 1).unwrap().with_flows(16_777_216).sessions, 262_144);
    }

    #[test]
    fn flows_are_distinguished_and_only_active_sessions_have_some() {
        let model = Model {
            sessions: 10,
            active: 5,
            ..Model::v(2, 0).unwrap()
        };
        let tuples: HashSet<_> = (0..model.flows())
            .map(|number| {
                let flow = model.flow(number);
                assert_eq!(flow.session % 2, 0);
                (
                    flow.session,
                    flow.bearer,
                    flow.ue_port(),
                    flow.direction == Direction::Uplink,
                )
            })
            .collect();
        assert_eq!(tuples.len() as u32, model.flows());
    }

    #[test]
    fn scattered_numbers_come_once_each() {
        for bound in [1, 2, 3, 64, 1_000, 1_023] {
            let mut order = Scattered::new(bound);
            let drawn: HashSet<u32> = (0..bound).map(|_| order.draw()).collect();
            assert_eq!(drawn.len() as u32, bound);
            assert!(drawn.iter().all(|&number| number < bound));
        }
    }
}
