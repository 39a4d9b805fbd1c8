//! Several ports as one: link aggregation (IEEE 802.1AX), static, active-backup or by LACP.
//!
//! Control owns each [`Lag`]. The input is links ([`Lag::set_link`]) and LACPDUs ([`Lag::handle`]); the output is
//! LACPDUs to send ([`Lag::poll_transmit`]) and which members carry frames ([`Lag::share`]), for every worker's copy.
//! The worker selects the member of a packet. A [`Lag`] holds no packets and reads no clock.
//!
//! With LACP a link carries no frames before its partner is known, is in the same group as the others, and reports that
//! it collects and distributes. Of several groups (partners with different systems or keys) the one with the most links
//! is selected, and stays selected as long as it has a link.

use std::time::Duration;

use flow::{Nanos, PortId};
use packet::MacAddr;

use self::member::{Member, PartnerId};
use crate::Transmit;

mod member;
mod pdu;

pub use pdu::{End, Lacpdu, PortState, SLOW_PROTOCOLS, Slow, answer_marker};

/// Members of a LAG, at most: a bit of [`LagShare`] each.
pub const MOST_MEMBERS: usize = 8;

/// How frames are divided among the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LagMode {
    /// Among all whose link is up; the switch is configured in the same way.
    Balance,
    /// One carries all, as long as its link is up; then the first of the others whose link is.
    ActiveBackup,
    /// Among those that the switch has agreed to by LACP.
    Lacp(LacpConfig),
}

/// The LACP parameters of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LacpConfig {
    /// Short timeout: the partner is requested to send an LACPDU every second instead of every 30, so that a failure is
    /// noticed after 3 s instead of 90.
    pub fast: bool,
    /// The lower one of both systems chooses, where links are too many; 32,768 by default.
    pub system_priority: u16,
    /// The key of all members' links.
    pub key: u16,
}

/// A LAG.
#[derive(Clone, Debug)]
pub struct LagConfig {
    /// The port that it is.
    pub port: PortId,
    /// How frames are distributed.
    pub mode: LagMode,
    /// Its link layer address: with LACP the system's as well.
    pub mac: MacAddr,
    /// The members, 1 to [`MOST_MEMBERS`].
    pub members: Vec<LagMember>,
}

/// A member of a LAG.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LagMember {
    /// The port.
    pub port: PortId,
    /// The port's own link layer address, the source of its LACPDUs.
    pub mac: MacAddr,
}

/// Which members carry frames: bit n is the n-th of the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LagShare {
    /// What comes in by these is taken.
    pub collecting: u8,
    /// These send.
    pub distributing: u8,
}

/// A member, for views.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// The port.
    pub port: PortId,
    /// Whether its link is up.
    pub link: bool,
    /// Whether frames leave by it.
    pub distributing: bool,
    /// Its state as text.
    pub words: &'static str,
    /// With LACP: what is known of the other end.
    pub partner: Option<End>,
}

/// A port made of several.
pub struct Lag {
    config: LagConfig,
    links: Vec<bool>,
    /// With LACP, one for each member.
    lacp: Vec<Member>,
    /// With LACP, the selected group.
    selected: Option<PartnerId>,
    /// With active-backup, the active member.
    active: Option<usize>,
}

impl Lag {
    /// A LAG whose links are all down.
    pub fn new(config: LagConfig) -> Self {
        let lacp = match config.mode {
            LagMode::Lacp(lacp) => {
                let ends = config.members.iter().map(|member| End {
                    system_priority: lacp.system_priority,
                    system: config.mac,
                    key: lacp.key,
                    port_priority: 0x8000,
                    // Numbers of ports begin with 1 (IEEE 802.1AX §6.3.4).
                    port: member.port.0 + 1,
                    state: PortState::default().with(PortState::SHORT_TIMEOUT, lacp.fast),
                });
                ends.map(Member::new).collect()
            }
            LagMode::Balance | LagMode::ActiveBackup => Vec::new(),
        };
        Self {
            links: vec![false; config.members.len()],
            lacp,
            selected: None,
            active: None,
            config,
        }
    }

    /// The port that it is.
    pub fn port(&self) -> PortId {
        self.config.port
    }

    /// How frames are distributed.
    pub fn mode(&self) -> LagMode {
        self.config.mode
    }

    /// The place of a port among the members.
    pub fn place_of(&self, port: PortId) -> Option<usize> {
        self.config.members.iter().position(|member| member.port == port)
    }

    /// The link of the member at `place` came up or went down.
    pub fn set_link(&mut self, now: Nanos, place: usize, up: bool) {
        let Some(link) = self.links.get_mut(place) else {
            return;
        };
        *link = up;
        if let Some(member) = self.lacp.get_mut(place) {
            member.set_link(now, up);
        }
        if self.active.is_none_or(|active| !self.links[active]) {
            self.active = self.links.iter().position(|link| *link);
        }
        self.choose(now);
    }

    /// The member at `place` has received an LACPDU.
    pub fn handle(&mut self, now: Nanos, place: usize, pdu: &Lacpdu) {
        if let Some(member) = self.lacp.get_mut(place) {
            member.handle(now, pdu);
            self.choose(now);
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        self.lacp.iter().filter_map(Member::poll_timeout).min()
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Nanos) {
        for member in &mut self.lacp {
            member.handle_timeout(now);
        }
        self.choose(now);
    }

    /// The next LACPDU to send, by its member.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Transmit> {
        let members = self.lacp.iter_mut().zip(&self.config.members);
        let mut sent = members.filter_map(|(lacp, member)| {
            Some(Transmit {
                port: member.port,
                bytes: lacp.poll_transmit(now)?.frame(member.mac),
            })
        });
        sent.next()
    }

    /// Which members carry frames now.
    pub fn share(&self) -> LagShare {
        let mask = |carries: &dyn Fn(usize) -> bool| {
            let places = (0..self.links.len()).filter(|place| self.links[*place] && carries(*place));
            places.fold(0, |mask, place| mask | 1 << place)
        };
        let (collecting, distributing) = match self.config.mode {
            LagMode::Balance => (mask(&|_| true), mask(&|_| true)),
            LagMode::ActiveBackup => {
                let active = mask(&|place| self.active == Some(place));
                (active, active)
            }
            LagMode::Lacp(_) => (
                mask(&|place| self.lacp[place].collects()),
                mask(&|place| self.lacp[place].distributes()),
            ),
        };
        LagShare {
            collecting,
            distributing,
        }
    }

    /// The members, for views.
    pub fn status(&self) -> impl Iterator<Item = MemberStatus> + '_ {
        let share = self.share();
        (0..self.links.len()).map(move |place| {
            let distributing = share.distributing >> place & 1 == 1;
            let member = self.lacp.get(place);
            MemberStatus {
                port: self.config.members[place].port,
                link: self.links[place],
                distributing,
                words: match member {
                    Some(member) => member.state_name(),
                    None if !self.links[place] => "link down",
                    None if distributing => "active",
                    None => "backup",
                },
                partner: member
                    .map(|member| *member.partner())
                    .filter(|partner| partner.system != MacAddr::ZERO),
            }
        })
    }

    /// Selects the group that carries frames, and advances each member.
    fn choose(&mut self, now: Nanos) {
        if self.lacp.is_empty() {
            return;
        }
        let count = |id: PartnerId| {
            let of_group = |member: &&Member| member.candidate() == Some(id);
            self.lacp.iter().filter(of_group).count()
        };
        let kept = self.selected.filter(|id| count(*id) > 0);
        self.selected = kept.or_else(|| {
            let ids = self.lacp.iter().filter_map(Member::candidate);
            // Of several with as many links, the first member's.
            ids.rev().max_by_key(|id| count(*id))
        });
        for member in &mut self.lacp {
            member.advance(now, self.selected);
        }
    }
}

/// How often the links of ports are polled: the most time in which a LAG notices a link that goes down.
pub const LINK_POLL: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests;
