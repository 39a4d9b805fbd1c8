//! Access lists: checks, and the lists of the network.

use std::collections::HashSet;
use std::sync::Arc;

use dpi::dns::Sinkhole;
use dpi::domain_lists::DomainLists;
use flow::Direction;
use packet::answer::is_url;
use rules::model::{
    AccessAction, AccessList, AccessRule, AccessRuleId, ConnectionPolicy, Filtering, TooManyFilters,
};
use rules::network::{BoundAccessList, SessionScope};

use super::rule_conditions::{Conditions, Named, names_dns};
use super::scope::scope;
use crate::error::Fault;
use crate::schema::{
    AccessActionConfig, AccessListConfig, AccessRuleConfig, Config, ConnectionPolicyConfig, DirectionConfig,
    FilteringConfig, UnsolicitedConfig,
};

impl AccessActionConfig {
    /// The action; one that needs more than its name is nothing for packets that no rule describes.
    fn action(self, rule: Option<&AccessRuleConfig>) -> AccessAction {
        match self {
            Self::Permit => AccessAction::Permit,
            Self::Deny => AccessAction::Deny,
            Self::Reject => AccessAction::Reject,
            Self::Reset => AccessAction::Reset,
            Self::Redirect => match rule.and_then(|rule| rule.redirect_to.as_ref()) {
                Some(url) => AccessAction::Redirect(url.value.as_str().into()),
                // `check` has refused it.
                None => AccessAction::Reset,
            },
            Self::Sinkhole => {
                let sinkhole = rule.and_then(|rule| rule.sinkhole).unwrap_or_default();
                AccessAction::Sinkhole(Sinkhole {
                    ipv4: sinkhole.ipv4.map(|address| address.octets()),
                    ipv6: sinkhole.ipv6.map(|address| address.octets()),
                    ttl_s: sinkhole.ttl_s.value() as u32,
                })
            }
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

    fn conditions(&self) -> Conditions<'_> {
        Conditions {
            flows: &self.flows,
            tos: self.tos,
            hosts: &self.hosts,
            categories: &self.categories,
            protocols: &self.protocols,
            applications: &self.applications,
            confirmed_by_dns: self.confirmed_by_dns.as_ref(),
        }
    }

    /// The rules that this one stands for, of one name: one for each alternative.
    fn rules(&self, place: usize, known: &Named<'_>) -> Vec<AccessRule> {
        let rule = |(filters, detection)| AccessRule {
            name: self.name(place).into(),
            action: self.action.action(Some(self)),
            direction: self.direction.map(|direction| match direction {
                DirectionConfig::Uplink => Direction::Uplink,
                DirectionConfig::Downlink => Direction::Downlink,
            }),
            filters,
            detection,
        };
        let alternatives = self.conditions().alternatives(known);
        alternatives.into_iter().map(rule).collect()
    }
}

impl AccessListConfig {
    fn scope(&self) -> Result<SessionScope, &'static str> {
        scope(self.slice.as_ref(), self.dnn.as_ref())
    }

    fn list(&self, known: &Named<'_>, lists: &Arc<DomainLists>) -> Result<AccessList, TooManyFilters> {
        let rules = self.rules.iter().enumerate();
        let rules = rules.flat_map(|(place, rule)| rule.rules(place, known));
        let (rules, otherwise) = (rules.collect(), self.otherwise.action(None));
        let list = AccessList::with_categories(&self.name.value, rules, otherwise, Arc::clone(lists))?;
        Ok(list.with_policy(self.connections.policy()))
    }
}

impl Config {
    /// The access lists in their order. One that cannot be made is none: [`check`] has refused it.
    pub(super) fn access_lists(&self) -> Vec<BoundAccessList> {
        let (known, lists) = (self.names_of_rules(), self.domain_lists());
        let bound = |one: &AccessListConfig| {
            Some(BoundAccessList {
                list: Arc::new(one.list(&known, lists).ok()?),
                scope: one.scope().ok()?,
            })
        };
        self.access_lists.iter().filter_map(bound).collect()
    }

    /// The rules of access lists that never decide, since one before them describes all their packets, in words.
    pub fn shadowed_access_rules(&self) -> Vec<String> {
        let (known, lists) = (self.names_of_rules(), self.domain_lists());
        let lists = self
            .access_lists
            .iter()
            .filter_map(|one| one.list(&known, lists).ok());
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
    let (known, lists) = (config.names_of_rules(), config.domain_lists());
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
        check_rules(one, &known)?;
        if matches!(
            one.otherwise,
            AccessActionConfig::Redirect | AccessActionConfig::Sinkhole
        ) {
            return fault("otherwise: only a rule may redirect, or lead into a sinkhole");
        }
        rules += one.rules.len() + 1;
        if rules >= AccessRuleId::COUNT {
            return fault(&format!(
                "more than {} rules in all lists",
                AccessRuleId::COUNT - 1
            ));
        }
        if one.list(&known, lists).is_err() {
            return fault("its rules have more filters, prefixes or ports than can be numbered");
        }
    }
    Ok(())
}

fn check_rules(list: &AccessListConfig, known: &Named<'_>) -> Result<(), Fault> {
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
        if let Err(message) = check_answer(rule) {
            return fault(message);
        }
        rule.conditions().check(known)?;
        names.insert(name);
    }
    Ok(())
}

/// Finds what an action lacks, or what is said of another.
fn check_answer(rule: &AccessRuleConfig) -> Result<(), &'static str> {
    let is_redirect = rule.action == AccessActionConfig::Redirect;
    match &rule.redirect_to {
        None if is_redirect => {
            return Err("redirect_to: missing; it is the URL that requests are redirected to");
        }
        Some(_) if !is_redirect => return Err("redirect_to: only with the action `redirect`"),
        Some(url) if !is_url(url.value.as_bytes()) => {
            return Err("redirect_to: not 1 to 1024 printable ASCII characters without spaces");
        }
        _ => {}
    }
    if rule.sinkhole.is_some() && rule.action != AccessActionConfig::Sinkhole {
        return Err("sinkhole: only with the action `sinkhole`");
    }
    if rule.action == AccessActionConfig::Sinkhole && !names_dns(&rule.protocols) {
        return Err("sinkhole: only of a rule with `protocols: [dns]`");
    }
    Ok(())
}
