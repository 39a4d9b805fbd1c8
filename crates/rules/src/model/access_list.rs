//! Access lists: which packets of a session may pass at all, before any PDR detects them.
//!
//! They are the operator's, not the SMF's: TS 29.244 knows nothing of them. A list is made once from the configuration
//! and shared by all sessions that it is for. Its first rule that describes a packet decides; behind the configured
//! rules is one for all packets.

use core::fmt;

use flow::Direction;

use crate::sdf::{FieldReader, FilterSet, FilterTable, SdfFilter, TooManyPatterns};

/// What becomes of the packets that a rule of an access list describes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessAction {
    /// PDRs decide about them.
    Permit,
    /// They are dropped.
    Deny,
    /// They are dropped, and their sources are notified by ICMP, as far as its rate allows.
    Reject,
}

impl AccessAction {
    /// Whether packets are dropped.
    pub const fn denies(self) -> bool {
        !matches!(self, Self::Permit)
    }
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
    /// Its name, in its list.
    pub name: Box<str>,
    /// What becomes of its packets.
    pub action: AccessAction,
    /// Which way they go; `None`: either.
    pub direction: Option<Direction>,
    /// Patterns over the user packet, any of them; none: every packet.
    pub filters: Vec<SdfFilter>,
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
    pub action: AccessAction,
    /// By which rule.
    pub rule: AccessRuleId,
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
    /// By direction; what is found is the place of a rule.
    tables: [FilterTable<u32>; 2],
}

impl AccessList {
    /// The name of the rule behind the configured ones.
    pub const OTHERWISE: &'static str = "otherwise";

    /// A list of these rules, of which the first that describes a packet decides; `otherwise` is for what none does.
    /// The rules have no numbers.
    ///
    /// # Errors
    /// [`TooManyFilters`].
    pub fn new(
        name: &str,
        mut rules: Vec<AccessRule>,
        otherwise: AccessAction,
    ) -> Result<Self, TooManyFilters> {
        rules.push(AccessRule {
            name: Self::OTHERWISE.into(),
            action: otherwise,
            direction: None,
            filters: Vec::new(),
        });
        let table = |direction| {
            let own = (0..).zip(&rules).filter(|(_, rule)| rule.is_of(direction));
            FilterTable::new(own.map(|(place, rule)| FilterSet {
                precedence: place,
                filters: &rule.filters,
                is_partial: false,
                value: place,
            }))
        };
        Ok(Self {
            name: name.into(),
            ids: vec![AccessRuleId::NONE; rules.len()].into(),
            tables: [table(Direction::Uplink)?, table(Direction::Downlink)?],
            rules: rules.into(),
        })
    }

    /// The same list; `number` gives a rule its number.
    #[must_use]
    pub fn numbered(mut self, mut number: impl FnMut(&AccessRule) -> AccessRuleId) -> Self {
        for (id, rule) in self.ids.iter_mut().zip(&self.rules) {
            *id = number(rule);
        }
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

    /// Whether both have the same rules, whatever their numbers.
    pub fn says_the_same_as(&self, other: &Self) -> bool {
        self.rules == other.rules
    }

    /// What it says of a packet of this direction.
    pub(crate) fn judge(&self, direction: Direction, reader: &mut FieldReader<'_>) -> AccessDecision {
        let table = &self.tables[direction as usize];
        let entry = table.find(table.count_before(None), direction, reader);
        // There is one for every packet.
        let place = entry
            .and_then(|entry| table.entry(entry))
            .map(|entry| entry.value);
        let place = place.map_or(self.rules.len() - 1, |place| place as usize);
        AccessDecision {
            action: self.rules[place].action,
            rule: self.ids[place],
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
