//! How packets wait that leave by a network instance: the classes of queues, by QoS flow, and the rates of instances.
//!
//! It is configuration. PFCP says rates, and no priorities: which QoS flows are urgent, and which share what is left,
//! is the operator's mapping of QFIs, as that of DSCPs is ([`DscpTable`](super::DscpTable)).

use core::fmt;

use flow::meter::Rate;
use packet::Qfi;

/// QoS flows that there can be.
const FLOWS: usize = Qfi::MAX.get() as usize + 1;

/// What limits a queue besides its octets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum QueueManagement {
    /// Nothing: packets that find no room are dropped.
    #[default]
    TailDrop,
    /// CoDel: packets that have waited for too long for too much time are marked, if their senders heed ECN, or dropped
    /// (RFC 8289).
    CoDel,
    /// Two queues with one capacity: one for senders that heed the marks of L4S, one for all others (RFC 9332).
    L4s,
    /// WRED: packets are hit by a chance that grows with the average length of the queue, and marked, if their senders
    /// heed ECN, or dropped (RFC 2309).
    Wred(Wred),
}

/// A curve of WRED, by the average of the octets in the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WredCurve {
    /// Below these octets no packet is hit.
    pub min: u32,
    /// From these on each is dropped.
    pub max: u32,
    /// Just below `max`, of this many packets one is hit.
    pub one_in: u8,
}

/// The parameters of WRED.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wred {
    /// Of packets within their guaranteed rates, and of those that have none.
    pub green: WredCurve,
    /// Of packets above their guaranteed rates.
    pub yellow: WredCurve,
    /// A packet that comes is worth 2^-n in the average.
    pub weight_log2: u8,
}

impl Wred {
    /// The most octets of a threshold.
    pub const MOST_OCTETS: u32 = (1 << 26) - 1;
    /// The largest [`weight_log2`](Self::weight_log2).
    pub const MOST_WEIGHT: u8 = 12;

    /// Whether all is within its bounds, in queues of up to `octets`.
    fn is_valid(&self, octets: u32) -> bool {
        let most = octets.min(Self::MOST_OCTETS);
        let is_valid = |of: &WredCurve| of.min < of.max && of.max <= most && of.one_in > 0;
        is_valid(&self.green) && is_valid(&self.yellow) && (1..=Self::MOST_WEIGHT).contains(&self.weight_log2)
    }
}

/// A class of queues.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EgressClass {
    /// Its name in the configuration.
    pub name: String,
    /// The QoS flows of the class.
    pub qfis: Vec<Qfi>,
    /// 0 goes first: strictly, before every class with a higher number of the same port.
    pub priority: u8,
    /// Its part of what classes of the same priority and session get, of their weights together.
    pub weight: u8,
    /// The most octets that wait in one queue.
    pub octets: u32,
    /// What else limits them.
    pub management: QueueManagement,
}

impl EgressClass {
    /// The highest [`priority`](Self::priority).
    pub const LAST_PRIORITY: u8 = 7;
}

/// All classes. Packets of QoS flows that none names, and of none, are of the last one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EgressClasses {
    all: Vec<EgressClass>,
    of_qfi: [u8; FLOWS],
}

/// What is wrong with classes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EgressClassError {
    /// There are none, or more than [`EgressClasses::MAX`].
    Number(usize),
    /// Two have this name, or it is empty.
    Name(String),
    /// Two have this QoS flow.
    Qfi(Qfi),
    /// The class with this name has a priority beyond [`EgressClass::LAST_PRIORITY`], or a weight of 0.
    Bounds(String),
    /// The class with this name has a curve of WRED that does not rise, or a threshold beyond its octets.
    Wred(String),
}

impl fmt::Display for EgressClassError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(0) => f.write_str("there is no class"),
            Self::Number(number) => {
                write!(f, "{number} classes are more than {}", EgressClasses::MAX)
            }
            Self::Name(name) if name.is_empty() => f.write_str("a class has no name"),
            Self::Name(name) => write!(f, "two classes are named `{name}`"),
            Self::Qfi(qfi) => write!(f, "QFI {} is in two classes", qfi.get()),
            Self::Bounds(name) => write!(
                f,
                "class `{name}`: its priority is above {} or its weight is 0",
                EgressClass::LAST_PRIORITY
            ),
            Self::Wred(name) => write!(
                f,
                "class `{name}`: wred: min_bytes must be below max_bytes, and that no more than bytes of the class and \
                 {}",
                Wred::MOST_OCTETS
            ),
        }
    }
}

impl core::error::Error for EgressClassError {}

impl EgressClasses {
    /// The most classes.
    pub const MAX: usize = 8;

    /// Of these classes.
    ///
    /// # Errors
    /// The first class that contradicts another, or its bounds.
    pub fn new(all: Vec<EgressClass>) -> Result<Self, EgressClassError> {
        if all.is_empty() || all.len() > Self::MAX {
            return Err(EgressClassError::Number(all.len()));
        }
        let mut of_qfi = [u8::MAX; FLOWS];
        for (place, class) in (0..).zip(&all) {
            let named = all.iter().filter(|other| other.name == class.name).count();
            if class.name.is_empty() || named > 1 {
                return Err(EgressClassError::Name(class.name.clone()));
            }
            if class.priority > EgressClass::LAST_PRIORITY || class.weight == 0 {
                return Err(EgressClassError::Bounds(class.name.clone()));
            }
            if let QueueManagement::Wred(wred) = class.management
                && !wred.is_valid(class.octets)
            {
                return Err(EgressClassError::Wred(class.name.clone()));
            }
            for &qfi in &class.qfis {
                let of = &mut of_qfi[usize::from(qfi.get()) % FLOWS];
                if std::mem::replace(of, place) != u8::MAX {
                    return Err(EgressClassError::Qfi(qfi));
                }
            }
        }
        let last = all.len() as u8 - 1;
        for of in &mut of_qfi {
            *of = (*of).min(last);
        }
        Ok(Self { all, of_qfi })
    }

    /// All classes; a class is named by its place.
    pub fn all(&self) -> &[EgressClass] {
        &self.all
    }

    /// The class of a QoS flow; that of packets of none with `None`.
    pub fn of(&self, qfi: Option<Qfi>) -> u8 {
        match qfi {
            Some(qfi) => self.of_qfi[usize::from(qfi.get()) % FLOWS],
            None => self.all.len() as u8 - 1,
        }
    }
}

/// Queues for packets that leave: where an instance [asks](super::Instance::egress) for them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Egress {
    /// The classes of queues.
    pub classes: EgressClasses,
    /// The most that leaves by each port, by its number; all, of ports beyond the end.
    pub ports: Vec<Rate>,
}

impl Egress {
    /// Ports, instances, and policers that shape, below each instance: the most of a worker.
    pub const MOST_NODES: u16 = 4_096;
}

/// Packets that leave by an instance wait in queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InstanceEgress {
    /// The most that leaves by it; all, where it is [`Rate::UNLIMITED`].
    pub rate: Rate,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(name: &str, qfis: &[u8]) -> EgressClass {
        EgressClass {
            name: name.into(),
            qfis: qfis.iter().map(|qfi| Qfi::from_low_bits(*qfi)).collect(),
            priority: 0,
            weight: 1,
            octets: 100_000,
            management: QueueManagement::CoDel,
        }
    }

    #[test]
    fn a_qos_flow_has_a_class_and_all_others_the_last() {
        let classes = EgressClasses::new(vec![
            class("voice", &[1]),
            class("video", &[2, 3]),
            class("rest", &[]),
        ]);
        let classes = classes.unwrap();
        let of = |qfi| classes.of(Some(Qfi::from_low_bits(qfi)));
        assert_eq!([of(1), of(2), of(3), of(4), of(63)], [0, 1, 1, 2, 2]);
        assert_eq!(classes.of(None), 2);
    }

    #[test]
    fn contradictions_are_refused() {
        let refused = |all| EgressClasses::new(all).expect_err("refused");
        assert_eq!(refused(vec![]), EgressClassError::Number(0));
        let many = (0..9).map(|place| class(&place.to_string(), &[])).collect();
        assert_eq!(refused(many), EgressClassError::Number(9));
        let same = refused(vec![class("a", &[]), class("a", &[])]);
        assert_eq!(same, EgressClassError::Name("a".into()));
        let shared = refused(vec![class("a", &[5]), class("b", &[5])]);
        assert_eq!(shared, EgressClassError::Qfi(Qfi::from_low_bits(5)));
        let twice = refused(vec![class("a", &[5, 5])]);
        assert_eq!(twice.to_string(), "QFI 5 is in two classes");
        let weightless = EgressClass {
            weight: 0,
            ..class("a", &[])
        };
        assert_eq!(refused(vec![weightless]), EgressClassError::Bounds("a".into()));
        for (min, max) in [(5, 5), (6, 5), (5, 100_001)] {
            let curve = WredCurve { min, max, one_in: 1 };
            let rising = WredCurve {
                min: 5,
                max: 6,
                one_in: 1,
            };
            for (green, yellow) in [(curve, rising), (rising, curve)] {
                let wred = Wred {
                    green,
                    yellow,
                    weight_log2: 9,
                };
                let management = QueueManagement::Wred(wred);
                let refused = refused(vec![EgressClass {
                    management,
                    ..class("a", &[])
                }]);
                assert_eq!(refused, EgressClassError::Wred("a".into()));
            }
        }
    }
}
