//! What happens: steps, and how eight octets of a fuzzer become one.

/// What the network does to datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Per cent that are lost.
    pub loss: u8,
    /// Per cent that come twice.
    pub duplication: u8,
    /// Milliseconds of delay at most; unequal ones reorder.
    pub delay: u16,
}

impl Trouble {
    /// All arrives after a millisecond, in order.
    pub const NONE: Self = Self {
        loss: 0,
        duplication: 0,
        delay: 1,
    };
}

/// Which session an establishment asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// F-TEID with CHOOSE, UE address of the SMF.
    Plain,
    /// As `Plain`; the downlink is buffered, and reported if `true`.
    Idle(bool),
    /// The UE's IPv4 address, and a prefix if `true`, come from the UPF's pools.
    Pooled(bool),
    /// The SMF chose the TEID.
    GivenTeid,
    /// Two Traffic Endpoints.
    Endpoints,
    /// Two uplink PDRs with one CHOOSE ID; one drops a service.
    SharedTunnel,
    /// A PDR names a FAR that is not there.
    NoFar,
    /// A FAR has two actions.
    TwoActions,
    /// A UE address that another session of the SMF may have.
    TakenAddress,
    /// A network instance that is not configured.
    UnknownInstance,
    /// A FAR without Apply Action.
    NoAction,
    /// Octets that are no IE.
    Torn,
    /// A rule that this node does not do (Create MAR).
    Unsupported,
    /// The Node ID of an unknown node.
    UnknownNode,
}

/// One change of a session's rules; the numbers pick among few.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// FAR, and which tunnel it sends into.
    Tunnel(u8, u8),
    /// FAR, and which action it takes.
    Action(u8, u8),
    /// FAR, its Outer Header Creation with null length.
    NoTunnel(u8),
    /// BARs of FARs: FAR, BAR or none.
    Buffering(u8, u8),
    /// QER, gates closed: bit 0 downlink, bit 1 uplink.
    Gates(u8, u8),
    /// QER, QFI; 0 takes it away.
    Qfi(u8, u8),
    /// QER, a rate that is never reached, or none.
    Rate(u8, bool),
    /// PDR, another precedence.
    Precedence(u8, u8),
    /// PDR, a PDI of source interface and SDF filters only; the last number: none.
    Filters(u8, u8),
    /// PDR, a whole PDI.
    Pdi(u8, u8),
    /// PDR, the QERs and URRs that it names: bits 0 to 2, 3 to 5.
    Names(u8, u8),
    /// PDR, Outer Header Removal or none.
    Removal(u8, bool),
    /// PDR that is new, and what it looks for.
    CreatePdr(u8, u8),
    RemovePdr(u8),
    /// FAR that is new, and what it does.
    CreateFar(u8, u8),
    RemoveFar(u8),
    CreateQer(u8),
    RemoveQer(u8),
    CreateUrr(u8),
    RemoveUrr(u8),
    CreateBar(u8),
    RemoveBar(u8),
    RemoveEndpoint(u8),
    /// Endpoint, with a PDR that names it.
    CreateEndpoint(u8),
    Query(u8),
    QueryAll,
    /// DROBU.
    DropBuffered,
    /// Another CP F-SEID.
    Rename,
}

/// One thing that happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Establish {
        smf: u8,
        slot: u8,
        shape: Shape,
    },
    Modify {
        smf: u8,
        slot: u8,
        edits: Vec<Edit>,
    },
    Delete {
        smf: u8,
        slot: u8,
    },
    /// Packets of a session while procedures may be under way.
    Packets {
        smf: u8,
        slot: u8,
        up: bool,
        count: u8,
    },
    /// The session's bucket goes to the other worker.
    Move {
        smf: u8,
        slot: u8,
    },
    Setup {
        smf: u8,
    },
    Update {
        smf: u8,
    },
    Release {
        smf: u8,
    },
    RestartSmf {
        smf: u8,
    },
    RestartUpf,
    Network(Trouble),
    /// Whether an SMF answers requests of the UPF.
    Deaf {
        smf: u8,
        is_deaf: bool,
    },
    /// Milliseconds.
    Wait(u16),
    /// All is brought to rest and compared.
    Check,
}

impl Shape {
    const ALL: [Self; 16] = [
        Self::Plain,
        Self::Idle(false),
        Self::Idle(true),
        Self::Pooled(false),
        Self::Pooled(true),
        Self::GivenTeid,
        Self::Endpoints,
        Self::SharedTunnel,
        Self::NoFar,
        Self::TwoActions,
        Self::TakenAddress,
        Self::UnknownInstance,
        Self::NoAction,
        Self::Torn,
        Self::Unsupported,
        Self::UnknownNode,
    ];

    /// Good ones three times as often as bad ones.
    fn from_octet(octet: u8) -> Self {
        let place = usize::from(octet % 32);
        if place < 24 {
            Self::ALL[place % 8]
        } else {
            Self::ALL[place - 16]
        }
    }
}

impl Edit {
    fn from_octets(which: u8, on: u8) -> Self {
        let (rule, how) = (on & 7, on >> 3);
        match which % 40 {
            0..=2 => Self::Tunnel(rule, how),
            3..=8 => Self::Action(rule, how),
            9 => Self::NoTunnel(rule),
            10 => Self::Buffering(rule, how),
            11..=13 => Self::Gates(rule, how),
            14 => Self::Qfi(rule, how),
            15 => Self::Rate(rule, how & 1 != 0),
            16 => Self::Precedence(rule, how),
            17 | 18 => Self::Filters(rule, how),
            19 | 20 => Self::Pdi(rule, how),
            21 => Self::Names(rule, on.wrapping_mul(37) >> 2),
            22 => Self::Removal(rule, how & 1 != 0),
            23 | 24 => Self::CreatePdr(rule, how),
            25 | 26 => Self::RemovePdr(rule),
            27 => Self::CreateFar(rule, how),
            28 => Self::RemoveFar(rule),
            29 => Self::CreateQer(rule),
            30 => Self::RemoveQer(rule),
            31 => Self::CreateUrr(rule),
            32 => Self::RemoveUrr(rule),
            33 => Self::CreateBar(rule),
            34 => Self::RemoveBar(rule),
            35 => Self::CreateEndpoint(rule),
            36 => Self::RemoveEndpoint(rule),
            37 => Self::Query(rule),
            38 => [Self::QueryAll, Self::Rename][usize::from(on & 1)],
            _ => Self::DropBuffered,
        }
    }
}

impl Step {
    /// A step from eight octets, whatever they are.
    pub fn decode([kind, who, a, b, c, d, e, f]: [u8; 8]) -> Self {
        let (smf, slot) = (who & 1, who >> 1 & 3);
        match kind % 64 {
            0..=15 => Self::Establish {
                smf,
                slot,
                shape: Shape::from_octet(a),
            },
            16..=37 => {
                let all = [(a, b), (c, d), (e, f)].map(|(which, on)| Edit::from_octets(which, on));
                let edits = all[..1 + usize::from(who >> 6) % 3].to_vec();
                Self::Modify { smf, slot, edits }
            }
            38..=42 => Self::Delete { smf, slot },
            43..=46 => Self::Packets {
                smf,
                slot,
                up: a & 1 != 0,
                count: 1 + b % 4,
            },
            47..=49 => Self::Move { smf, slot },
            50 => Self::Setup { smf },
            51 => Self::Update { smf },
            52 => Self::Release { smf },
            53 => Self::RestartSmf { smf },
            54 => Self::RestartUpf,
            55..=57 => Self::Network(Trouble {
                loss: a % 40,
                duplication: b % 60,
                delay: 1 + u16::from(c) * 3 / 2,
            }),
            58 => Self::Deaf {
                smf,
                is_deaf: a & 1 != 0,
            },
            59..=61 => Self::Wait(u16::from_be_bytes([a, b]) % 4_000),
            _ => Self::Check,
        }
    }
}
