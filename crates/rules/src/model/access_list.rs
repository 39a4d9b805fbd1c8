//! Access lists: which packets of a session may pass at all, before any PDR detects them.
//!
//! They are the operator's, not the SMF's: TS 29.244 knows nothing of them. A list is made once from the configuration
//! and shared by all sessions that it is for. Its first rule that describes a packet decides; behind the configured
//! rules is one for all packets.

use core::fmt;
use std::sync::Arc;

use dpi::dns::Sinkhole;
use dpi::domain_lists::DomainLists;
use flow::Direction;

use super::detection_pattern::{DetectionPattern, DetectionReads};
use super::rule_table::{RuleTable, TableRule};
use crate::sdf::{FieldReader, SdfFilter, TooManyPatterns};

/// What becomes of the packets that a rule of an access list describes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AccessAction {
    /// PDRs decide about them.
    Permit,
    /// They are dropped.
    Deny,
    /// They are dropped, and their sources are notified by ICMP, as far as its rate allows.
    Reject,
    /// They are dropped. Connections of TCP are reset towards the sender; other sources are notified by ICMP.
    Reset,
    /// They are dropped. Requests of HTTP are answered with a redirection to this URL, which
    /// [is one](packet::answer::is_url); connections of TCP are reset otherwise, and other sources are notified by
    /// ICMP.
    Redirect(Arc<str>),
    /// They are dropped. Queries of DNS are answered with this; other packets have no answer.
    Sinkhole(Sinkhole),
    /// PDRs decide about what the UE sends, and of what comes from a data network about what belongs to a connection
    /// that the UE has begun. The rest is dropped.
    Solicited,
}

impl AccessAction {
    /// What it does.
    pub const fn effect(&self) -> AccessEffect {
        match self {
            Self::Permit => AccessEffect::Permit,
            Self::Solicited => AccessEffect::Solicited,
            Self::Deny => AccessEffect::Deny,
            Self::Reject | Self::Reset | Self::Redirect(_) | Self::Sinkhole(_) => AccessEffect::DenyAndAnswer,
        }
    }

    /// Whether all packets are dropped.
    pub const fn denies(&self) -> bool {
        self.effect().denies()
    }
}

/// What an access list does with a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessEffect {
    /// PDRs decide.
    Permit,
    /// PDRs decide, if the packet belongs to a connection, or begins one.
    Solicited,
    /// It is dropped.
    Deny,
    /// It is dropped, and its source gets an answer, as far as the rate of these allows.
    DenyAndAnswer,
}

impl AccessEffect {
    /// Whether the packet is dropped.
    pub const fn denies(self) -> bool {
        matches!(self, Self::Deny | Self::DenyAndAnswer)
    }
}

/// What belongs to a connection that a UE has begun, beside the packets of its other end (RFC 4787 §5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Filtering {
    /// What anyone sends to the UE's address and port.
    EndpointIndependent,
    /// What the address of the other end sends to them, from any port.
    #[default]
    AddressDependent,
    /// Nothing.
    AddressAndPortDependent,
}

/// How an access list takes connections, where one of its rules asks for them ([`AccessAction::Solicited`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ConnectionPolicy {
    /// What belongs to one.
    pub filtering: Filtering,
    /// The sources of what belongs to none are notified, as with [`AccessAction::Reject`].
    pub rejects: bool,
}

/// The number of a rule of an access list, by which workers count: other rules, of other lists as well, have others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct AccessRuleId(pub u16);

impl AccessRuleId {
    /// No rule.
    pub const NONE: Self = Self(0);
    /// How many numbers there are, [`NONE`](Self::NONE) with them.
    pub const COUNT: usize = 1 << 16;
}

/// One rule of an access list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccessRule {
    /// Its name, in its list. Rules that have one name have one number, and do the same.
    pub name: Box<str>,
    /// What becomes of its packets.
    pub action: AccessAction,
    /// Which way they go; `None`: either.
    pub direction: Option<Direction>,
    /// Patterns over the user packet, any of them; none: every packet.
    pub filters: Vec<SdfFilter>,
    /// What the packet's flow has to be, beside `filters`.
    pub detection: DetectionPattern,
}

impl AccessRule {
    const fn is_of(&self, direction: Direction) -> bool {
        match self.direction {
            None => true,
            Some(own) => own as u8 == direction as u8,
        }
    }
}

/// The rules of an access list have more filters, prefixes or ports than can be numbered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooManyFilters;

impl From<TooManyPatterns> for TooManyFilters {
    fn from(TooManyPatterns: TooManyPatterns) -> Self {
        Self
    }
}

/// What an access list says of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AccessDecision {
    /// What becomes of it.
    pub effect: AccessEffect,
    /// By which rule.
    pub rule: AccessRuleId,
    /// Which way it goes.
    pub direction: Direction,
    /// What the UE sends begins a connection; what comes to it passes if it belongs to one.
    pub connections: Option<ConnectionPolicy>,
    /// What the flow of the packet is is not known yet, and a rule before may permit it: it passes until that is known.
    pub is_provisional: bool,
}

/// An access list. One is equal to itself alone: sessions compare theirs, and there are very many; a configuration that
/// says the same keeps the list ([`AccessLists::succeeding`](crate::network::AccessLists::succeeding)).
#[derive(Clone)]
pub struct AccessList {
    name: Box<str>,
    /// The last one is for every packet.
    rules: Box<[AccessRule]>,
    /// The numbers of the rules.
    ids: Box<[AccessRuleId]>,
    /// The places of the rules, by number.
    places: Box<[(AccessRuleId, u32)]>,
    /// By direction; what is found is the place of a rule.
    tables: [RuleTable<u32>; 2],
    policy: ConnectionPolicy,
    keeps_connections: bool,
    /// The lists that its rules' categories are of.
    lists: Arc<DomainLists>,
}

impl AccessList {
    /// The name of the rule behind the configured ones.
    pub const OTHERWISE: &'static str = "otherwise";

    /// A list of these rules, of which the first that describes a packet decides; `otherwise` is for what none does.
    /// The rules have no numbers.
    ///
    /// # Errors
    /// [`TooManyFilters`].
    pub fn new(name: &str, rules: Vec<AccessRule>, otherwise: AccessAction) -> Result<Self, TooManyFilters> {
        Self::with_categories(name, rules, otherwise, Arc::new(DomainLists::empty()))
    }

    /// The same of rules that name categories of these lists.
    ///
    /// # Errors
    /// [`TooManyFilters`].
    pub fn with_categories(
        name: &str,
        mut rules: Vec<AccessRule>,
        otherwise: AccessAction,
        lists: Arc<DomainLists>,
    ) -> Result<Self, TooManyFilters> {
        rules.push(AccessRule {
            name: Self::OTHERWISE.into(),
            action: otherwise,
            direction: None,
            filters: Vec::new(),
            detection: DetectionPattern::default(),
        });
        let table = |direction| {
            let own = (0..).zip(&rules).filter(|(_, rule)| rule.is_of(direction));
            let own = own.map(|(place, rule)| TableRule {
                precedence: place,
                filters: &rule.filters,
                detection: &rule.detection,
                value: place,
            });
            RuleTable::new(own, &lists)
        };
        Ok(Self {
            name: name.into(),
            ids: vec![AccessRuleId::NONE; rules.len()].into(),
            places: Box::default(),
            tables: [table(Direction::Uplink)?, table(Direction::Downlink)?],
            policy: ConnectionPolicy::default(),
            keeps_connections: rules.iter().any(|rule| rule.action == AccessAction::Solicited),
            rules: rules.into(),
            lists,
        })
    }

    /// The same list with another policy.
    #[must_use]
    pub fn with_policy(self, policy: ConnectionPolicy) -> Self {
        Self { policy, ..self }
    }

    /// The same list; `number` gives a rule its number.
    #[must_use]
    pub fn numbered(mut self, mut number: impl FnMut(&AccessRule) -> AccessRuleId) -> Self {
        for (id, rule) in self.ids.iter_mut().zip(&self.rules) {
            *id = number(rule);
        }
        self.places = self.ids.iter().copied().zip(0..).collect();
        self.places.sort_unstable();
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its rules in their order, the one for all packets as the last, with their numbers.
    pub fn rules(&self) -> impl ExactSizeIterator<Item = (AccessRuleId, &AccessRule)> {
        self.ids.iter().copied().zip(&self.rules)
    }

    /// Whether both have the same rules, whatever their numbers, of the same domain lists, and the same policy.
    pub fn says_the_same_as(&self, other: &Self) -> bool {
        self.rules == other.rules && self.policy == other.policy && self.lists.say_the_same_as(&other.lists)
    }

    /// The lists that its rules' categories are of.
    pub fn lists(&self) -> &Arc<DomainLists> {
        &self.lists
    }

    /// How it takes connections; `None` where no rule asks for them.
    pub fn connections(&self) -> Option<ConnectionPolicy> {
        self.keeps_connections.then_some(self.policy)
    }

    /// Whether one of its rules asks what flows are.
    pub fn asks(&self) -> bool {
        self.tables.iter().any(RuleTable::asks)
    }

    /// What its rules read of flows.
    pub(crate) fn reads(&self) -> DetectionReads {
        self.tables.iter().map(RuleTable::reads).collect()
    }

    /// What becomes of the packets of the rule with this number.
    pub fn action(&self, id: AccessRuleId) -> Option<&AccessAction> {
        let at = self.places.partition_point(|(own, _)| *own < id);
        let (_, place) = self.places.get(at).filter(|(own, _)| *own == id)?;
        Some(&self.rules[*place as usize].action)
    }

    /// What it says of a packet of this direction.
    pub(crate) fn judge(&self, direction: Direction, reader: &mut FieldReader<'_>) -> AccessDecision {
        let table = &self.tables[direction as usize];
        let entry = table.find(None, direction, reader);
        // There is one for every packet.
        let place = entry.and_then(|entry| table.at(entry)).map(|entry| entry.value);
        let place = place.map_or(self.rules.len() - 1, |place| place as usize);
        let own = self.rules[place].action.effect();
        let is_provisional = own.denies() && reader.is_undecided() && {
            let permits = |place: &u32| !self.rules[*place as usize].action.denies();
            table.may_be(entry.unwrap_or(u32::MAX), permits, direction, reader)
        };
        let (effect, rule) = match is_provisional {
            true => (AccessEffect::Permit, AccessRuleId::NONE),
            false => (own, self.ids[place]),
        };
        let matters = match direction {
            Direction::Uplink => !effect.denies(),
            Direction::Downlink => effect == AccessEffect::Solicited,
        };
        AccessDecision {
            effect,
            rule,
            direction,
            connections: self.connections().filter(|_| matters),
            is_provisional,
        }
    }
}

impl PartialEq for AccessList {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self, other)
    }
}

impl Eq for AccessList {}

impl fmt::Debug for AccessList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AccessList({}, {} rules)", self.name, self.rules.len())
    }
}
