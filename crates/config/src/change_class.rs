//! The class of each field: the one list of what takes effect while the daemon runs.
//!
//! A path names a field from the top of the file; `[]` stands for every element of a list, `.*` at its end for all
//! fields below, of which the longest such path applies. A field without a rule fails the tests.

use std::fmt;
use std::str::FromStr;

/// When a changed field takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeClass {
    /// While the daemon runs, at a burst boundary, without the loss of a packet. Control refuses what sessions use and
    /// would not have any more.
    Live,
    /// With the next start of the daemon. Its sessions may be carried over (`sluice sessions export`).
    Restart,
    /// With the next start of the daemon, and sessions that use what changes cannot be carried over: they have to end
    /// first.
    Drain,
}

impl ChangeClass {
    const ALL: [(&'static str, Self); 3] = [
        ("live", Self::Live),
        ("restart", Self::Restart),
        ("drain", Self::Drain),
    ];

    /// Its word in the schema and in views.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Restart => "restart",
            Self::Drain => "drain",
        }
    }
}

impl fmt::Display for ChangeClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for ChangeClass {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|(name, _)| *name == word);
        found
            .map(|(_, class)| class)
            .ok_or_else(|| format!("`{word}` is none of live, restart, drain"))
    }
}

/// What holds for the fields of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FieldRule {
    pub(crate) path: &'static str,
    /// The class of another value, and of more elements of a list.
    pub(crate) change: ChangeClass,
    /// The class of fewer elements of a list, and of elements in another order.
    pub(crate) removal: ChangeClass,
    /// The fields that distinguish the elements of a list; none: they have no names.
    pub(crate) key: &'static [&'static str],
}

impl FieldRule {
    const fn keyed(self, key: &'static [&'static str]) -> Self {
        Self { key, ..self }
    }

    const fn removed(self, removal: ChangeClass) -> Self {
        Self { removal, ..self }
    }
}

const fn rule(path: &'static str, class: ChangeClass) -> FieldRule {
    FieldRule {
        path,
        change: class,
        removal: class,
        key: &[],
    }
}

const fn live(path: &'static str) -> FieldRule {
    rule(path, ChangeClass::Live)
}

const fn restart(path: &'static str) -> FieldRule {
    rule(path, ChangeClass::Restart)
}

const fn drain(path: &'static str) -> FieldRule {
    rule(path, ChangeClass::Drain)
}

/// The rules, in the order of the file.
pub(crate) const RULES: &[FieldRule] = &[
    drain("node.id"),
    drain("n4.addresses"),
    live("n4.peers").keyed(&["prefix"]),
    live("n4.peers[].*"),
    live("n4.smfs"),
    live("n4.setup_retry_s"),
    live("n4.setup_retry_most_s"),
    live("n4.release_wait_s"),
    restart("n4.device"),
    drain("n4.port"),
    live("n4.t1_ms"),
    live("n4.n1"),
    live("n4.heartbeat_s"),
    live("n4.max_associations"),
    live("n4.max_associations_per_address"),
    restart("n4.association_share_percent"),
    live("n4.unknown_source_s"),
    live("n4.unverified_percent"),
    restart("n4.response_cache_bytes"),
    live("n4.apply_deadline_ms"),
    restart("n4.traffic_silence_s"),
    live("n4.accept_cp_f_teids"),
    live("n4.any_source"),
    live("n4.unknown_instance"),
    live("gtpu.echo"),
    live("gtpu.echo.interval_s"),
    live("gtpu.echo.t3_s"),
    live("gtpu.echo.n3"),
    live("gtpu.echo.max_paths"),
    restart("gtpu.restoration_s"),
    live("gtpu.path_mtu_s"),
    live("gtpu.path_mtu_least"),
    restart("gtpu.ran_congestion_s"),
    restart("gtpu.answers.*"),
    restart("icmp.*"),
    restart("workers.*"),
    restart("workers.rebalance"),
    restart("workers.rebalance.*"),
    restart("slices").keyed(&["sst", "sd"]),
    restart("slices[].*"),
    restart("limits.*"),
    restart("control.*"),
    restart("alarms.*"),
    live("log.level"),
    restart("log.format"),
    restart("flows.*"),
    restart("connections.*"),
    restart("inspection.*"),
    restart("inspection.ndpi"),
    restart("fragments.*"),
    restart("reassembly.*"),
    restart("buffering.*"),
    restart("records"),
    restart("records.*"),
    restart("store"),
    restart("store.*"),
    restart("dpdk.*"),
    restart("ports").keyed(&["name"]),
    restart("ports[].*"),
    restart("accelerator"),
    restart("accelerator.*"),
    restart("egress"),
    restart("egress.*"),
    restart("egress.classes").keyed(&["name"]),
    restart("instances").keyed(&["name"]).removed(ChangeClass::Drain),
    drain("instances[].name"),
    drain("instances[].roles"),
    restart("instances[].port"),
    restart("instances[].vlan"),
    restart("instances[].vrf"),
    drain("instances[].addresses"),
    live("instances[].routes").keyed(&["to", "via"]),
    live("instances[].routes[].*"),
    live("instances[].dscp").keyed(&["qfi"]),
    live("instances[].dscp[].*"),
    live("instances[].mirror"),
    restart("instances[].host"),
    restart("instances[].host.*"),
    restart("instances[].urgent_dscp"),
    live("instances[].hairpin"),
    restart("instances[].fragment"),
    live("instances[].mss"),
    live("instances[].ue_prefixes"),
    restart("instances[].egress"),
    restart("instances[].egress.*"),
    live("pools").keyed(&["name"]),
    live("pools[].*"),
    live("pools[].ipv6").keyed(&["prefix"]),
    live("pools[].ipv6[].*"),
    live("neighbours.reachable_ms"),
    live("neighbours.retry_ms"),
    live("neighbours.attempts"),
    live("neighbours.hold_ms"),
    live("neighbours.dad_transmits"),
    live("routers.check_ms"),
    live("forwarding_policies").keyed(&["name"]),
    live("forwarding_policies[].*"),
    live("policers").keyed(&["name"]),
    live("policers[].*"),
    restart("policers[].shape"),
    restart("policers[].weight"),
    live("domain_lists"),
    live("domain_lists[].*"),
    live("access_lists").keyed(&["name"]),
    live("access_lists[].*"),
    restart("nat_pools").keyed(&["name"]),
    restart("nat_pools[].*"),
    restart("nat.*"),
    restart("events").keyed(&["application"]),
    restart("events[].*"),
    live("predefined.fars").keyed(&["id"]),
    live("predefined.fars[].*"),
    live("predefined.qers").keyed(&["id"]),
    live("predefined.qers[].*"),
    live("predefined.urrs").keyed(&["id"]),
    live("predefined.urrs[].*"),
    live("predefined.applications").keyed(&["name"]),
    live("predefined.applications[].*"),
    live("predefined.application_files"),
    live("predefined.rulebases").keyed(&["name"]),
    live("predefined.rulebases[].*"),
    live("predefined.rulebases[].rules").keyed(&["precedence"]),
    live("predefined.rulebases[].rules[].*"),
];

/// The rule of a field: its own, else that of the longest path that ends with `.*` and covers it.
pub(crate) fn rule_of(path: &str) -> Option<&'static FieldRule> {
    let own = RULES.iter().find(|rule| rule.path == path);
    let covering = RULES.iter().filter(|rule| rule.covers(path));
    own.or_else(|| covering.max_by_key(|rule| rule.path.len()))
}

impl FieldRule {
    /// Whether it is for all fields below something, and this is one of them.
    pub(crate) fn covers(&self, path: &str) -> bool {
        let above = self.path.strip_suffix('*');
        above.is_some_and(|above| path.starts_with(above))
    }
}
