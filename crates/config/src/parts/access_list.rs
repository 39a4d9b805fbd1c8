//! Access lists: checks, and the lists of the network.

use std::collections::HashSet;
use std::sync::Arc;

use flow::Direction;
use rules::model::{
    AccessAction, AccessList, AccessRule, AccessRuleId, ConnectionPolicy, Filtering, TooManyFilters,
};
use rules::network::{BoundAccessList, SessionScope};

use super::predefined::filters;
use super::scope::scope;
use crate::error::Fault;
use crate::schema::{
    AccessActionConfig, AccessListConfig, AccessRuleConfig, Config, ConnectionPolicyConfig, DirectionConfig,
    FilteringConfig, UnsolicitedConfig,
};

impl AccessActionConfig {
    const fn action(self) -> AccessAction {
        match self {
            Self::Permit => AccessAction::Permit,
            Self::Deny => AccessAction::Deny,
            Self::Reject => AccessAction::Reject,
            Self::Solicited => AccessAction::Solicited,
        }
    }
}

impl ConnectionPolicyConfig {
    const fn policy(self) -> ConnectionPolicy {
        ConnectionPolicy {
            filtering: match self.filtering {
                FilteringConfig::EndpointIndependent => Filtering::EndpointIndependent,
                FilteringConfig::AddressDependent => Filtering::AddressDependent,
                FilteringConfig::AddressAndPortDependent => Filtering::AddressAndPortDependent,
            },
            rejects: matches!(self.unsolicited, UnsolicitedConfig::Reject),
        }
    }
}

impl AccessRuleConfig {
    /// Its name: that of its place, if it has none of its own.
    fn name(&self, place: usize) -> String {
        let own = self.name.as_ref().map(|name| name.value.clone());
        own.unwrap_or_else(|| (place + 1).to_string())
    }

    fn rule(&self, place: usize) -> AccessRule {
        AccessRule {
            name: self.name(place).into(),
            action: self.action.action(),
            direction: self.direction.map(|direction| match direction {
                DirectionConfig::Uplink => Direction::Uplink,
                DirectionConfig::Downlink => Direction::Downlink,
            }),
            filters: filters(&self.flows.iter().collect::<Vec<_>>(), self.tos),
        }
    }
}

impl AccessListConfig {
    fn scope(&self) -> Result<SessionScope, &'static str> {
        scope(self.slice.as_ref(), self.dnn.as_ref())
    }

    fn list(&self) -> Result<AccessList, TooManyFilters> {
        let rules = self.rules.iter().enumerate();
        let rules = rules.map(|(place, rule)| rule.rule(place)).collect();
        let list = AccessList::new(&self.name.value, rules, self.otherwise.action())?;
        Ok(list.with_policy(self.connections.policy()))
    }
}

impl Config {
    /// The access lists in their order. One that cannot be made is none: [`check`] has refused it.
    pub(super) fn access_lists(&self) -> Vec<BoundAccessList> {
        let bound = |one: &AccessListConfig| {
            Some(BoundAccessList {
                list: Arc::new(one.list().ok()?),
                scope: one.scope().ok()?,
            })
        };
        self.access_lists.iter().filter_map(bound).collect()
    }

    /// The rules of access lists that never decide, since one before them describes all their packets, in words.
    pub fn shadowed_access_rules(&self) -> Vec<String> {
        let lists = self.access_lists.iter().filter_map(|one| one.list().ok());
        let mut words = Vec::new();
        for list in lists {
            for shadowed in list.shadowed() {
                words.push(format!(
                    "access list `{}`: rule `{}` never decides: `{}` before it describes all its packets",
                    list.name(),
                    shadowed.rule,
                    shadowed.by
                ));
            }
        }
        words
    }
}

/// Finds the first access list that contradicts something.
pub(crate) fn check(config: &Config) -> Result<(), Fault> {
    let mut names = HashSet::new();
    let mut scopes = Vec::new();
    let mut rules = 0;
    for one in &config.access_lists {
        let name = &one.name;
        let fault = |message: &str| {
            Err(Fault::new(
                name,
                format!("access list `{}`: {message}", name.value),
            ))
        };
        if !(1..=100).contains(&name.value.len()) {
            return fault("the name has no character, or more than 100");
        }
        if !names.insert(&*name.value) {
            return fault("another has this name");
        }
        let scope = match one.scope() {
            Ok(scope) => scope,
            Err(message) => return fault(message),
        };
        if scopes.iter().any(|other: &SessionScope| other.is_same(&scope)) {
            return fault("another is for the same sessions");
        }
        scopes.push(scope);
        check_rule_names(one)?;
        rules += one.rules.len() + 1;
        if rules >= AccessRuleId::COUNT {
            return fault(&format!(
                "more than {} rules in all lists",
                AccessRuleId::COUNT - 1
            ));
        }
        if one.list().is_err() {
            return fault("its rules have more filters, prefixes or ports than can be numbered");
        }
    }
    Ok(())
}

fn check_rule_names(list: &AccessListConfig) -> Result<(), Fault> {
    let mut names = HashSet::from([AccessList::OTHERWISE.to_owned()]);
    for (place, rule) in list.rules.iter().enumerate() {
        let name = rule.name(place);
        let at = rule.name.as_ref().unwrap_or(&list.name);
        let fault = |message: &str| {
            let list = &list.name.value;
            Err(Fault::new(
                at,
                format!("access list `{list}`: rule `{name}`: {message}"),
            ))
        };
        if !(1..=100).contains(&name.len()) {
            return fault("the name has no character, or more than 100");
        }
        if names.contains(&name) {
            return fault("another has this name");
        }
        names.insert(name);
    }
    Ok(())
}
