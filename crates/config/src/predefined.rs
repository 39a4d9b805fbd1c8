//! Rules predefined in the user plane, which SMFs activate by name (rulebases) or by number (TS 29.244 §5.4.9, §5.19).

use std::str::FromStr;

use flow::InstanceId;
use packet::Qfi;
use rules::Predefined;
use rules::model::{
    ApplyAction, BitRates, BitsPerSecond, DestinationInterface, Far, FarId, ForwardingParameters, Gate,
    Precedence, Qer, QerId, RuleRef, SdfFilter, TosTrafficClass, Urr, UrrId,
};
use rules::model::{Content, PredefinedError, PredefinedRule};
use rules::sdf::FlowDescription;
use serde::{Deserialize, Deserializer, de};
use serde_saphyr::Spanned;

use super::error::Fault;
use super::{Bounded, Config, Role};

/// The most FARs, QERs, URRs, and rules of all rulebases together.
const MOST: usize = 100_000;

/// The number of a predefined FAR, QER or URR: the top bit is set.
type Number = Bounded<0x8000_0000, 0xffff_ffff>;

/// A maximum or guaranteed bit rate in kbit/s.
type Kbit = Bounded<0, 0xff_ffff_ffff>;

/// All that is predefined.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PredefinedConfig {
    /// What happens to packets.
    #[serde(default)]
    pub fars: Vec<PredefinedFar>,
    /// QoS; each session that uses one has meters of its own.
    #[serde(default)]
    pub qers: Vec<PredefinedQer>,
    /// Usage, by volume; each session that uses one has counters of its own.
    #[serde(default)]
    pub urrs: Vec<PredefinedUrr>,
    /// Packet detection rules, in groups with names.
    #[serde(default)]
    pub rulebases: Vec<RulebaseConfig>,
}

/// A predefined FAR.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PredefinedFar {
    /// Its number, from 0x80000000 on.
    pub id: Spanned<Number>,
    /// Apply Action.
    pub action: PredefinedAction,
    /// The network instance that packets leave by, with role n6; the first of that role.
    #[serde(default)]
    pub instance: Option<Spanned<String>>,
    /// The TOS or Traffic Class that they leave with; as they came.
    #[serde(default)]
    pub tos: Option<Bounded<0, 255>>,
}

/// What a predefined FAR does. Towards Access each session has another tunnel: that is for the SMF's FAR to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PredefinedAction {
    /// Packets are dropped.
    Drop,
    /// They are sent to the data network.
    Forward,
}

/// A predefined QER.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PredefinedQer {
    /// Its number, from 0x80000000 on.
    pub id: Spanned<Number>,
    /// The uplink gate; open.
    #[serde(default)]
    pub gate_uplink: GateConfig,
    /// The downlink gate; open.
    #[serde(default)]
    pub gate_downlink: GateConfig,
    /// The QoS flow that packets are marked with, unless a QER of the SMF says another; none.
    #[serde(default)]
    pub qfi: Option<Bounded<0, 63>>,
    /// Maximum bit rate in kbit/s, uplink; no limit.
    #[serde(default)]
    pub mbr_uplink_kbit: Option<Kbit>,
    /// Maximum bit rate in kbit/s, downlink; no limit.
    #[serde(default)]
    pub mbr_downlink_kbit: Option<Kbit>,
}

/// A gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GateConfig {
    /// Packets pass.
    #[default]
    Open,
    /// They are dropped.
    Closed,
}

/// A predefined URR.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PredefinedUrr {
    /// Its number, from 0x80000000 on.
    pub id: Spanned<Number>,
}

/// Rules that are activated together.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RulebaseConfig {
    /// The name in Activate Predefined Rules.
    pub name: Spanned<String>,
    /// Its rules.
    pub rules: Vec<PredefinedRuleConfig>,
}

/// One rule of a rulebase.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PredefinedRuleConfig {
    /// Its place among the rules that the same PDR activates, the lower value first.
    pub precedence: Bounded<0, 0xffff_ffff>,
    /// Flow descriptions, any of them; none: every packet.
    #[serde(default)]
    pub flows: Vec<Flow>,
    /// The TOS or Traffic Class of its packets as `[value, mask]`; any.
    #[serde(default)]
    pub tos: Option<[u8; 2]>,
    /// The FAR, for PDRs without one of their own.
    #[serde(default)]
    pub far: Option<Number>,
    /// QERs beside those of the PDR.
    #[serde(default)]
    pub qers: Vec<Number>,
    /// URRs beside those of the PDR.
    #[serde(default)]
    pub urrs: Vec<Number>,
    /// What its packets are billed as; nothing.
    #[serde(default)]
    pub content: Option<ContentConfig>,
}

/// What packets are billed as: a PCC rule, or an application that several rules are of. Rules that say the same, in
/// whatever rulebases, have one counter in each session, made when the first packet comes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContentConfig {
    /// Its name, in records and views: 1 to 63 octets.
    pub name: ContentName,
    /// The rating group.
    #[serde(default)]
    pub rating_group: Option<Bounded<0, 0xffff_ffff>>,
    /// The service identifier.
    #[serde(default)]
    pub service_id: Option<Bounded<0, 0xffff_ffff>>,
}

/// The name of a content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentName(pub String);

impl<'de> Deserialize<'de> for ContentName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.is_empty() || text.len() > 63 || text.chars().any(char::is_control) {
            return Err(de::Error::custom(format_args!(
                "`{}`: a content's name has 1 to 63 octets, none of them a control character",
                text.escape_debug()
            )));
        }
        Ok(Self(text))
    }
}

impl ContentConfig {
    fn content(&self) -> Content {
        Content {
            name: self.name.0.as_str().into(),
            rating_group: self.rating_group.map(|number| number.value() as u32),
            service_id: self.service_id.map(|number| number.value() as u32),
        }
    }
}

/// A flow description, as of SDF filters: written for the downlink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow(pub FlowDescription);

impl<'de> Deserialize<'de> for Flow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let parsed = FlowDescription::from_str(&text);
        parsed
            .map(Self)
            .map_err(|error| de::Error::custom(format_args!("`{text}`: {error}")))
    }
}

impl PredefinedRuleConfig {
    fn rule(&self) -> PredefinedRule {
        let tos_traffic_class = self.tos.map(|[value, mask]| TosTrafficClass { value, mask });
        let filter = |flow: Option<&Flow>| SdfFilter {
            flow_description: flow.map(|flow| flow.0.clone()),
            tos_traffic_class,
            ..SdfFilter::default()
        };
        let mut filters: Vec<SdfFilter> = self.flows.iter().map(|flow| filter(Some(flow))).collect();
        if filters.is_empty() && self.tos.is_some() {
            filters.push(filter(None));
        }
        PredefinedRule {
            precedence: Precedence(self.precedence.value() as u32),
            filters,
            far: self.far.map(|id| FarId(id.value() as u32)),
            qers: self.qers.iter().map(|id| QerId(id.value() as u32)).collect(),
            urrs: self.urrs.iter().map(|id| UrrId(id.value() as u32)).collect(),
            content: self.content.as_ref().map(ContentConfig::content),
        }
    }
}

impl PredefinedQer {
    fn qer(&self) -> Qer {
        let gate = |gate| match gate {
            GateConfig::Open => Gate::Open,
            GateConfig::Closed => Gate::Closed,
        };
        let rate = |kbit: Option<Kbit>| BitsPerSecond::from_kbit(kbit.map_or(u64::MAX, Kbit::value));
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

    /// Whether any rule has a content.
    pub fn has_contents(&self) -> bool {
        let mut rules = self.predefined.rulebases.iter().flat_map(|one| &one.rules);
        rules.any(|rule| rule.content.is_some())
    }

    fn try_predefined(&self) -> Result<Predefined, (usize, PredefinedError)> {
        let own = &self.predefined;
        let mut predefined = Predefined::new(
            own.fars.iter().map(|far| self.predefined_far(far)),
            own.qers.iter().map(PredefinedQer::qer),
            own.urrs
                .iter()
                .map(|urr| Urr::volume(UrrId(urr.id.value.value() as u32))),
        )
        .map_err(|error| (0, error))?;
        for (place, rulebase) in own.rulebases.iter().enumerate() {
            let rules = rulebase.rules.iter().map(PredefinedRuleConfig::rule);
            let added = predefined.add(rulebase.name.value.as_bytes(), rules.collect());
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
            duplicating: None,
            redirect: None,
            bar: None,
        }
    }
}

/// Finds the first predefined rule that contradicts something.
pub(super) fn check(config: &Config) -> Result<(), Fault> {
    let own = &config.predefined;
    own.fars.iter().try_for_each(|far| check_instance(config, far))?;
    check_counts(own)?;
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

impl PredefinedConfig {
    /// Where a number stands last.
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
