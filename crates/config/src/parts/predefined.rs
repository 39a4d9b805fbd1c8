//! Predefined rules: checks, and the rules as sessions activate them.

use std::sync::Arc;

use flow::InstanceId;
use ndpi::Library;
use packet::Qfi;
use rules::Predefined;
use rules::model::{Application, NamedPfd, NamedPfds, PredefinedError, PredefinedRule};
use rules::model::{
    ApplyAction, BitRates, BitsPerSecond, DestinationInterface, Far, FarId, ForwardingParameters, Gate,
    Precedence, Qer, QerId, RuleRef, TosTrafficClass, Urr, UrrId,
};
use serde_saphyr::Spanned;

use super::rule_conditions::{Applications, Conditions, Named, protocols};
use crate::error::Fault;
use crate::schema::{
    ApplicationConfig, Config, ContentConfig, GateConfig, Number, PredefinedAction, PredefinedConfig,
    PredefinedFar, PredefinedQer, PredefinedRuleConfig, QerKbit, Role,
};

/// The most FARs, QERs, URRs, and rules of all rulebases together.
const MOST: usize = 100_000;

impl PredefinedRuleConfig {
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

    /// The rules that this one stands for, one for each alternative.
    fn rules(&self, known: &Named<'_>) -> Vec<PredefinedRule> {
        let rule = |(filters, detection)| PredefinedRule {
            precedence: Precedence(self.precedence.value() as u32),
            filters,
            detection,
            far: self.far.map(|id| FarId(id.value() as u32)),
            qers: self.qers.iter().map(|id| QerId(id.value() as u32)).collect(),
            urrs: self.urrs.iter().map(|id| UrrId(id.value() as u32)).collect(),
            content: self.content.as_ref().map(ContentConfig::content),
        };
        let alternatives = self.conditions().alternatives(known);
        alternatives.into_iter().map(rule).collect()
    }
}

impl ApplicationConfig {
    fn application(&self, ndpi: Option<&Library>) -> Application {
        let by_hosts = NamedPfd {
            urls: self.hosts.iter().map(|host| host.0.clone().into()).collect(),
            ..NamedPfd::default()
        };
        let by_protocols = NamedPfd {
            protocols: protocols(&self.protocols, ndpi),
            ..NamedPfd::default()
        };
        let mut named = vec![by_hosts, by_protocols];
        named.retain(|pfd| *pfd != NamedPfd::default());
        Application {
            id: self.name.value.as_bytes().into(),
            flows: self.flows.iter().map(|flow| flow.0.clone()).collect(),
            // The names are the operator's own: none is made to collide with others.
            named: Arc::new(NamedPfds::new(named, 0)),
        }
    }
}

impl PredefinedQer {
    fn qer(&self) -> Qer {
        let gate = |gate| match gate {
            GateConfig::Open => Gate::Open,
            GateConfig::Closed => Gate::Closed,
        };
        let rate = |kbit: Option<QerKbit>| BitsPerSecond::from_kbit(kbit.map_or(u64::MAX, QerKbit::value));
        let is_limited = self.mbr_uplink_kbit.is_some() || self.mbr_downlink_kbit.is_some();
        Qer {
            gate_ul: gate(self.gate_uplink),
            gate_dl: gate(self.gate_downlink),
            qfi: self.qfi.map(|qfi| Qfi::from_low_bits(qfi.value() as u8)),
            mbr: is_limited.then(|| BitRates {
                ul: rate(self.mbr_uplink_kbit),
                dl: rate(self.mbr_downlink_kbit),
            }),
            ..Qer::new(QerId(self.id.value.value() as u32))
        }
    }
}

impl Config {
    /// What is predefined, as sessions activate it.
    pub fn predefined(&self) -> Predefined {
        // `check` has found that it can be made.
        self.try_predefined().unwrap_or_default()
    }

    /// The applications, for PDRs that name one.
    pub fn applications(&self) -> Arc<[Application]> {
        self.predefined
            .applications
            .iter()
            .map(|one| one.application(self.ndpi.as_deref()))
            .collect()
    }

    /// Whether any rule has a content.
    pub fn has_contents(&self) -> bool {
        let mut rules = self.predefined.rulebases.iter().flat_map(|one| &one.rules);
        rules.any(|rule| rule.content.is_some())
    }

    /// Whether flows are inspected: rules and PFDs may name hosts.
    pub fn inspects(&self) -> bool {
        self.inspection.limits().records > 0
    }

    fn try_predefined(&self) -> Result<Predefined, (usize, PredefinedError)> {
        let own = &self.predefined;
        let known = self.names_of_rules();
        let mut predefined = Predefined::new(
            own.fars.iter().map(|far| self.predefined_far(far)),
            own.qers.iter().map(PredefinedQer::qer),
            own.urrs
                .iter()
                .map(|urr| Urr::volume(UrrId(urr.id.value.value() as u32))),
        )
        .map_err(|error| (0, error))?;
        for (place, rulebase) in own.rulebases.iter().enumerate() {
            let rules = rulebase.rules.iter().flat_map(|rule| rule.rules(&known));
            let name = rulebase.name.value.as_bytes();
            let added = predefined.add_with_categories(name, rules.collect(), self.domain_lists());
            added.map_err(|error| (place, error))?;
        }
        Ok(predefined)
    }

    fn predefined_far(&self, far: &PredefinedFar) -> Far {
        let mut instances = self.instances.iter();
        let named = far.instance.as_ref();
        let place = named.and_then(|name| instances.position(|instance| instance.name.value == name.value));
        let mut parameters = ForwardingParameters::new(DestinationInterface::Core);
        parameters.instance = place.map(|place| InstanceId(place as u16));
        parameters.transport_level_marking = far.tos.map(|tos| TosTrafficClass {
            value: tos.value() as u8,
            mask: 0xff,
        });
        let (action, forwarding) = match far.action {
            PredefinedAction::Drop => (ApplyAction::DROP, None),
            PredefinedAction::Forward => (ApplyAction::FORW, Some(parameters)),
        };
        Far {
            id: FarId(far.id.value.value() as u32),
            action,
            forwarding,
            optional: Default::default(),
            bar: None,
        }
    }
}

/// Finds the first predefined rule that contradicts something.
pub(crate) fn check(config: &Config) -> Result<(), Fault> {
    let own = &config.predefined;
    own.fars.iter().try_for_each(|far| check_instance(config, far))?;
    check_counts(own)?;
    check_rules(config)?;
    let Err((place, error)) = config.try_predefined() else {
        return Ok(());
    };
    let numbered = |id: RuleRef| {
        own.number(id)
            .map(|at| Fault::new(at, format!("predefined: {error}")))
    };
    let of_rulebase = || {
        let name = &own.rulebases.get(place)?.name;
        Some(Fault::new(name, format!("rulebase `{}`: {error}", name.value)))
    };
    let fault = match error {
        PredefinedError::Twice(id) | PredefinedError::NotPredefined(id) => numbered(id),
        _ => of_rulebase(),
    };
    fault.map_or(Ok(()), Err)
}

fn check_counts(own: &PredefinedConfig) -> Result<(), Fault> {
    let far = own.fars.get(MOST).map(|far| &far.id);
    let qer = own.qers.get(MOST).map(|qer| &qer.id);
    let urr = own.urrs.get(MOST).map(|urr| &urr.id);
    let too_many = format!("predefined: more than {MOST} of a kind");
    if let Some(surplus) = far.or(qer).or(urr) {
        return Err(Fault::new(surplus, too_many));
    }
    let mut rules = 0;
    let surplus = own.rulebases.iter().find(|rulebase| {
        rules += rulebase.rules.len();
        rules > MOST
    });
    surplus.map_or(Ok(()), |rulebase| Err(Fault::new(&rulebase.name, too_many)))
}

fn check_rules(config: &Config) -> Result<(), Fault> {
    let own = &config.predefined;
    let known = config.names_of_rules();
    let mut rules = own.rulebases.iter().flat_map(|rulebase| &rulebase.rules);
    rules.try_for_each(|rule| rule.conditions().check(&known))
}

impl Config {
    /// What the names in the conditions of rules stand for, and whether resolvers can confirm them.
    pub(super) fn names_of_rules(&self) -> Named<'_> {
        Named {
            applications: self.predefined.applications(),
            categories: self.category_numbers(),
            ndpi: self.ndpi.as_deref(),
            heeds_resolvers: self.inspection.heeds_resolvers(),
        }
    }
}

impl PredefinedConfig {
    fn applications(&self) -> Applications<'_> {
        let named = self.applications.iter().map(|one| (&*one.name.value, one));
        named.collect()
    }

    /// Where a number is last.
    fn number(&self, id: RuleRef) -> Option<&Spanned<Number>> {
        let is_it = |at: &&Spanned<Number>, number: u32| at.value.value() == u64::from(number);
        match id {
            RuleRef::Far(FarId(number)) => self.fars.iter().map(|far| &far.id).rfind(|at| is_it(at, number)),
            RuleRef::Qer(QerId(number)) => self.qers.iter().map(|qer| &qer.id).rfind(|at| is_it(at, number)),
            RuleRef::Urr(UrrId(number)) => self.urrs.iter().map(|urr| &urr.id).rfind(|at| is_it(at, number)),
            RuleRef::Pdr(_) | RuleRef::Bar(_) | RuleRef::Endpoint(_) => None,
        }
    }
}

fn check_instance(config: &Config, far: &PredefinedFar) -> Result<(), Fault> {
    let Some(named) = &far.instance else { return Ok(()) };
    let mut instances = config.instances.iter();
    let fault = match instances.find(|instance| instance.name.value == named.value) {
        Some(instance) if instance.roles.contains(&Role::N6) => return Ok(()),
        Some(_) => format!("instance: `{}` has not the role n6", named.value),
        None => format!("instance: no instance is named `{}`", named.value),
    };
    Err(Fault::new(named, fault))
}
