//! What a port can do so that packets come to the worker that owns their session, and what it is asked for.
//!
//! It is a matter of speed alone: a packet that comes to another worker is handed over. So everything here may be
//! refused, and is then reported and done without. What a driver is asked for follows from what it says of itself
//! ([`plan`]); hardware was never at hand to see it done.

pub mod audit;
pub mod checksums;

use std::fmt;

use dpdk::{Capabilities, Errno, FlowRule, Packets, Port, RssConfig, RssFields, SpreadRule, UrgentQueues};
use flow::{BUCKETS, WorkerId, bucket};

use config::{Config, Driver, PortConfig, Role};

/// Which packets come in by a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// GTP-U: N3, N9, N4-u.
    pub tunnels: bool,
    /// Plain packets to UEs: N6.
    pub plain: bool,
}

impl Traffic {
    /// By the roles of the instances on the port, or on the LAG that it is a member of.
    #[must_use]
    pub fn of(config: &Config, port: &PortConfig) -> Self {
        let port = config.lag_of(&port.name.value).unwrap_or(port);
        let here = config
            .instances
            .iter()
            .filter(|instance| instance.port.value == port.name.value);
        let mut traffic = Self::default();
        for role in here.flat_map(|instance| &instance.roles) {
            match role {
                Role::N6 => traffic.plain = true,
                Role::N3 | Role::N9 | Role::N4u => traffic.tunnels = true,
            }
        }
        traffic
    }
}

/// What decides which queue, and so which worker, a packet comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The UE's address, in hardware: the owner of its session.
    UeAddress,
    /// The TEID, in hardware: the owner of its session.
    Teid,
    /// The outer addresses, by the port or the kernel: any worker.
    Outer,
    /// The sender of the packets: a memory port's other end.
    Sender,
    /// Nothing: one queue gets all, or the driver does as it likes.
    Nothing,
}

impl Basis {
    const fn words(self) -> &'static str {
        match self {
            Self::UeAddress => "RSS on UE address in hardware",
            Self::Teid => "RSS on TEID in hardware",
            Self::Outer => "RSS on outer headers only: packets are handed over between workers",
            Self::Sender => "the other end chooses the queue",
            Self::Nothing => "no RSS: packets are handed over between workers",
        }
    }
}

/// What a port does, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Receive queues, one for each worker.
    pub queues: u16,
    /// For GTP-U, if it comes in here.
    pub tunnels: Option<Basis>,
    /// For plain packets, if they come in here.
    pub plain: Option<Basis>,
    /// What the driver refused, in its words.
    pub refused: Vec<String>,
    /// Where urgent packets come.
    pub urgent: UrgentPackets,
}

/// Where a port's urgent packets come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrgentPackets {
    /// With all others: a worker that has too many looks for them. The port has no way to sort them out.
    Ahead,
    /// The same: the host's network stack would get those that an XDP program passes on.
    Shared,
    /// The same: the interface had an XDP program of someone else's.
    OthersProgram,
    /// The same: a program for all addresses of the port's instances would be too long.
    TooMany,
    /// The same: the kernel has refused the program.
    Refused(Errno),
    /// To queues of their own, as soon as there is a program.
    Expected,
    /// To queues of their own.
    Sorted,
}

impl UrgentPackets {
    /// What to ask of a port: [`Sorted`](Self::Sorted), or why not. Packet sockets and XDP programs can sort.
    #[must_use]
    pub fn wanted(driver: &Driver, has_program: bool) -> Self {
        match driver {
            Driver::AfPacket { .. } => Self::Sorted,
            Driver::AfXdp { .. } if driver.kept_from_host().is_none() => Self::Shared,
            Driver::AfXdp { .. } if has_program => Self::OthersProgram,
            Driver::AfXdp { .. } => Self::Sorted,
            Driver::Memory {} | Driver::Pcap { .. } | Driver::Pci { .. } | Driver::Accelerator { .. } => {
                Self::Ahead
            }
        }
    }

    /// What came of it.
    #[must_use]
    pub fn found(self, queues: UrgentQueues) -> Self {
        match queues {
            UrgentQueues::None => self,
            UrgentQueues::Waiting => Self::Expected,
            UrgentQueues::Sorted => Self::Sorted,
            UrgentQueues::TooMany => Self::TooMany,
            UrgentQueues::Refused(errno) => Self::Refused(errno),
        }
    }
}

impl fmt::Display for UrgentPackets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self {
            Self::Sorted | Self::Expected => {
                return f.write_str("urgent packets come to a queue of their own");
            }
            Self::Ahead => return f.write_str("urgent packets are looked for among all"),
            Self::Shared => "the host gets frames of this port, too",
            Self::OthersProgram => "the interface has an XDP program of another process",
            Self::TooMany => "the port's instances have too many addresses for a program that sorts them out",
            Self::Refused(errno) => {
                return write!(
                    f,
                    "urgent packets are looked for among all: the kernel refuses a queue or a program for them ({errno})"
                );
            }
        };
        write!(f, "urgent packets are looked for among all: {reason}")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.tunnels, self.plain) {
            _ if self.queues == 1 => f.write_str("no RSS (1 queue)")?,
            (Some(tunnels), Some(plain)) if tunnels != plain => {
                write!(f, "GTP-U: {}; plain: {}", tunnels.words(), plain.words())?;
            }
            (Some(basis), _) | (None, Some(basis)) => f.write_str(basis.words())?,
            (None, None) => f.write_str("no instance")?,
        }
        match self.urgent {
            // As ever.
            UrgentPackets::Ahead => Ok(()),
            urgent => write!(f, "; {urgent}"),
        }
    }
}

/// Rules of which one set is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// What the rules make of the packets.
    pub basis: Basis,
    /// The rule that it takes; key and queues are yet to be filled in.
    pub first: SpreadRule,
    /// Another that would be good to have.
    pub also: Option<SpreadRule>,
}

/// What a port is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// For all packets that no rule is about.
    pub rss: Option<RssConfig>,
    /// For GTP-U, the best first.
    pub tunnels: Vec<Wish>,
    /// For plain packets, the best first.
    pub plain: Vec<Wish>,
}

/// What to ask of a port with these capabilities, for this number of workers.
#[must_use]
pub fn plan(able: &Capabilities, traffic: Traffic, workers: u16) -> Plan {
    let fields = (RssFields::IPV4 | RssFields::IPV6 | RssFields::UDP).and(able.rss);
    if workers < 2 || fields == RssFields::NONE {
        return Plan::default();
    }
    let key = key(able.rss_key_size);
    let rss = RssConfig {
        fields,
        key: (!key.is_empty()).then(|| key.clone()),
    };
    let rule = |packets, fields| SpreadRule {
        packets,
        fields,
        key: key.clone(),
        queues: Vec::new(),
    };
    let source = |fields| fields | RssFields::SOURCE_ONLY;
    let destination = |fields| fields | RssFields::DESTINATION_ONLY;
    let prefix = RssFields::IPV6_ADDRESSES | RssFields::PREFIX_64;
    let by_teid = Wish {
        basis: Basis::Teid,
        first: rule(Packets::Gtpu, RssFields::GTPU),
        also: None,
    };
    let by_inner = Wish {
        basis: Basis::UeAddress,
        first: rule(Packets::Ipv4InGtpu, source(RssFields::IPV4_ADDRESSES)),
        also: Some(rule(Packets::Ipv6InGtpu, source(prefix))),
    };
    let by_destination = Wish {
        basis: Basis::UeAddress,
        first: rule(Packets::Ipv4, destination(RssFields::IPV4_ADDRESSES)),
        also: Some(rule(Packets::Ipv6, destination(prefix))),
    };
    // A rule about all of IPv4 would also be about the outer headers of GTP-U.
    let plain = traffic.plain && !traffic.tunnels;
    let tunnels = if traffic.tunnels {
        vec![by_teid, by_inner]
    } else {
        Vec::new()
    };
    Plan {
        rss: Some(rss),
        tunnels,
        plain: if plain { vec![by_destination] } else { Vec::new() },
    }
}

/// The key of the buckets as long as a port wants it. Of what is hashed here only the first 12 octets of the key
/// matter. Empty for a port that takes none, or a shorter one.
fn key(size: u8) -> Vec<u8> {
    let size = usize::from(size);
    if size < bucket::KEY.len() {
        return Vec::new();
    }
    bucket::KEY.iter().copied().cycle().take(size).collect()
}

/// The table from the lowest bits of the hash to queues, of `size` entries, by the owners of the buckets. Where an
/// entry is that of several buckets, the worker that owns most of them gets it, the first of equals.
#[must_use]
pub fn redirection(owners: &[WorkerId], size: u16) -> Vec<u16> {
    let size = usize::from(size);
    let owner = |bucket: usize| owners.get(bucket % BUCKETS).copied().unwrap_or_default();
    let best = |entry: usize| {
        let shared: Vec<u16> = (entry..BUCKETS.max(entry + 1))
            .step_by(size)
            .map(|bucket| owner(bucket).0)
            .collect();
        let votes = |queue: &u16| shared.iter().filter(|other| *other == queue).count();
        let most = shared.iter().map(votes).max();
        shared
            .iter()
            .copied()
            .filter(|queue| Some(votes(queue)) == most)
            .min()
    };
    (0..size).map(|entry| best(entry).unwrap_or_default()).collect()
}

/// Where the rules in force take queues from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The port's own table.
    Table,
    /// A list in each rule: one queue for each bucket.
    Buckets,
    /// A list in each rule: each queue once, which is right until a bucket moves.
    Queues,
}

/// What was asked of a port, and what it does.
#[derive(Debug)]
pub struct RxDistribution {
    /// For people.
    pub report: Report,
    /// Entries of the port's table.
    table: u16,
    /// Rules in force.
    rules: Vec<InstalledRule>,
}

/// A flow rule in force, with what it was made of.
#[derive(Debug)]
struct InstalledRule {
    rule: SpreadRule,
    source: Source,
    installed: FlowRule,
}

impl RxDistribution {
    /// Asks a started port for what `plan` wants.
    #[must_use]
    pub fn ask(
        port: &Port,
        able: &Capabilities,
        driver: &Driver,
        plan: &Plan,
        traffic: Traffic,
        workers: u16,
        owners: &[WorkerId],
    ) -> Self {
        let mut distribution = Self {
            report: Report {
                queues: workers,
                tunnels: None,
                plain: None,
                refused: Vec::new(),
                urgent: UrgentPackets::wanted(driver, false),
            },
            table: able.rss_table_size,
            rules: Vec::new(),
        };
        let otherwise = otherwise(driver, plan);
        if traffic.tunnels {
            distribution.report.tunnels = Some(
                distribution
                    .grant(port, &plan.tunnels, owners)
                    .unwrap_or(otherwise),
            );
        }
        if traffic.plain {
            distribution.report.plain =
                Some(distribution.grant(port, &plan.plain, owners).unwrap_or(otherwise));
        }
        distribution.set_table(port, owners);
        distribution
    }

    /// The first wish that the port grants.
    fn grant(&mut self, port: &Port, wishes: &[Wish], owners: &[WorkerId]) -> Option<Basis> {
        wishes
            .iter()
            .find(|wish| self.make(port, wish, owners))
            .map(|wish| wish.basis)
    }

    fn make(&mut self, port: &Port, wish: &Wish, owners: &[WorkerId]) -> bool {
        for source in [Source::Table, Source::Buckets, Source::Queues] {
            let Some(first) = self.put(port, &wish.first, source, owners) else {
                continue;
            };
            self.rules.push(first);
            let also = wish
                .also
                .as_ref()
                .and_then(|rule| self.put(port, rule, source, owners));
            self.rules.extend(also);
            return true;
        }
        false
    }

    fn put(
        &mut self,
        port: &Port,
        rule: &SpreadRule,
        source: Source,
        owners: &[WorkerId],
    ) -> Option<InstalledRule> {
        let mut rule = rule.clone();
        rule.queues = queues(source, owners)?;
        match port.spread(&rule) {
            Ok(installed) => Some(InstalledRule {
                rule,
                source,
                installed,
            }),
            Err(error) => {
                let words = format!("{:?}: {error}", rule.packets);
                if !self.report.refused.contains(&words) {
                    self.report.refused.push(words);
                }
                None
            }
        }
    }

    /// A bucket has moved.
    pub fn follow(&mut self, port: &Port, owners: &[WorkerId]) {
        self.set_table(port, owners);
        for old in std::mem::take(&mut self.rules) {
            if old.source != Source::Buckets {
                self.rules.push(old);
                continue;
            }
            let InstalledRule {
                rule,
                source,
                installed,
            } = old;
            // Drivers refuse a second rule for the same packets: the old one is removed first.
            drop(installed);
            let again = self.put(port, &rule, source, owners);
            self.rules.extend(again);
        }
    }

    fn set_table(&mut self, port: &Port, owners: &[WorkerId]) {
        let is_used = self.rules.iter().any(|rule| rule.source == Source::Table);
        if self.table > 0
            && is_used
            && let Err(error) = port.set_rss_table(&redirection(owners, self.table))
        {
            self.report.refused.push(error.to_string());
        }
    }
}

/// What places packets that no rule is about.
fn otherwise(driver: &Driver, plan: &Plan) -> Basis {
    match driver {
        Driver::Memory {} => Basis::Sender,
        // The kernel's fan-out, or what it has set up on the NIC.
        Driver::AfPacket { .. } | Driver::AfXdp { .. } => Basis::Outer,
        Driver::Pcap { .. } | Driver::Pci { .. } if plan.rss.is_none() => Basis::Nothing,
        Driver::Pcap { .. } | Driver::Pci { .. } => Basis::Outer,
        Driver::Accelerator { .. } => Basis::Sender,
    }
}

/// The queues that a rule names; `None` where such a list cannot be right.
fn queues(source: Source, owners: &[WorkerId]) -> Option<Vec<u16>> {
    match source {
        Source::Table => Some(Vec::new()),
        Source::Buckets => Some(redirection(owners, BUCKETS as u16)),
        Source::Queues => {
            let workers = owners.iter().map(|owner| owner.0 + 1).max()?;
            let is_dealt_out =
                |(bucket, owner): (usize, &WorkerId)| owner.index() == bucket % usize::from(workers);
            let is_right = workers.is_power_of_two() && owners.iter().enumerate().all(is_dealt_out);
            is_right.then(|| (0..workers).collect())
        }
    }
}

/// What `sluice check` can say before the port is opened.
#[must_use]
pub fn expectation(driver: &Driver, workers: u16) -> &'static str {
    match driver {
        Driver::Accelerator { .. } => "its packets come and go by the port towards the accelerator",
        _ if workers == 1 => "1 queue",
        Driver::Memory {} => "a queue for each worker, chosen by the other end",
        Driver::AfPacket { .. } => "a queue for each worker, chosen by the kernel over outer headers",
        Driver::AfXdp { .. } => "a queue for each worker, chosen by what ethtool has set up",
        Driver::Pcap { .. } => "1 queue",
        Driver::Pci { .. } => {
            "a queue for each worker, RSS on TEID or UE address if the driver grants it at the start"
        }
    }
}

#[cfg(test)]
mod tests;
