//! Predefined rules at random, and sessions that activate them.

use proptest::prelude::*;

use super::detections::{any_detection_pattern, domain_lists};
use super::filters::DESCRIPTIONS;
use super::rules::{any_far, any_qer, runnable_rules};
use crate::model::{Content, Predefined, PredefinedRule};
use crate::model::{
    Edit, EditError, Far, FarId, Pdr, PdrId, PdrUpdate, Precedence, Qer, QerId, SdfFilter, SessionRules,
    TosTrafficClass, Urr, UrrId,
};

const FARS: u32 = 3;
const QERS: u32 = 3;
const URRS: u32 = 3;
const NAMES: [&[u8]; 3] = [b"basic", b"video", b"other"];

const fn number(place: u32) -> u32 {
    1 << 31 | place
}

fn any_filter() -> BoxedStrategy<SdfFilter> {
    let description = prop::option::weighted(0.9, prop::sample::select(&DESCRIPTIONS[..]));
    let tos = prop::option::weighted(0.1, prop::sample::select(&[(0xb8u8, 0xfcu8), (0, 0)][..]));
    (description, tos)
        .prop_map(|(description, tos)| SdfFilter {
            flow_description: description.map(|text| text.parse().expect("a description")),
            tos_traffic_class: tos.map(|(value, mask)| TosTrafficClass { value, mask }),
            ..SdfFilter::default()
        })
        .boxed()
}

fn any_rule() -> BoxedStrategy<PredefinedRule> {
    let filters = prop_oneof![1 => Just(Vec::new()), 4 => prop::collection::vec(any_filter(), 1..3)];
    let far = prop::option::weighted(0.8, 0..FARS);
    let qers = prop::collection::vec(0..QERS, 0..3);
    let urrs = prop::collection::vec(0..URRS, 0..3);
    let content = prop::option::weighted(0.7, (0..4u32, 0..2u32));
    let all = (
        0..4u32,
        filters,
        any_detection_pattern(),
        far,
        qers,
        urrs,
        content,
    );
    all.prop_map(
        |(precedence, filters, detection, far, qers, urrs, content)| PredefinedRule {
            precedence: Precedence(precedence),
            filters,
            detection,
            far: far.map(|place| FarId(number(place))),
            qers: qers.into_iter().map(|place| QerId(number(place))).collect(),
            urrs: urrs.into_iter().map(|place| UrrId(number(place))).collect(),
            content: content.map(|(name, group)| Content {
                name: format!("content {name}").into(),
                rating_group: (group > 0).then_some(group),
                service_id: None,
            }),
        },
    )
    .boxed()
}

/// Three rulebases of a few rules each, with FARs as sessions have them.
pub fn any_predefined() -> BoxedStrategy<Predefined> {
    let fars = prop::collection::vec(any_far(), FARS as usize);
    let qers = prop::collection::vec(any_qer(), QERS as usize);
    let rulebases = prop::collection::vec(prop::collection::vec(any_rule(), 1..6), NAMES.len());
    (fars, qers, rulebases)
        .prop_map(|(fars, qers, rulebases)| {
            let fars = (0..).zip(fars).map(|(place, far)| Far {
                id: FarId(number(place)),
                bar: None,
                ..far
            });
            let qers = (0..).zip(qers).map(|(place, qer)| Qer {
                id: QerId(number(place)),
                ..qer
            });
            let urrs = (0..URRS).map(|place| Urr::volume(UrrId(number(place))));
            let mut predefined = Predefined::new(fars, qers, urrs).expect("the numbers differ");
            let lists = domain_lists();
            for (name, rules) in NAMES.iter().zip(rulebases) {
                let added = predefined.add_with_categories(name, rules, &lists);
                added.expect("all that is named is there");
            }
            predefined
        })
        .boxed()
}

/// What a request does with the predefined rules of one PDR.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Activation {
    pdr: PdrId,
    deactivate: Vec<usize>,
    activate: Vec<usize>,
    /// The FAR goes that the PDR has itself.
    leaves_far: bool,
    /// It gets a FAR, a QER and a URR by their predefined numbers.
    by_number: Option<u32>,
}

/// Activations and deactivations of one PDR of those that [`runnable_rules_with`] makes.
pub fn any_activation() -> BoxedStrategy<Activation> {
    let names = || prop::collection::vec(0..NAMES.len(), 0..3);
    let by_number = prop::option::weighted(0.3, 0..FARS);
    (1..7u16, names(), names(), any::<bool>(), by_number)
        .prop_map(|(pdr, deactivate, activate, leaves_far, by_number)| Activation {
            pdr: PdrId(pdr),
            deactivate,
            activate,
            leaves_far,
            by_number,
        })
        .boxed()
}

impl Activation {
    /// Does it; the instances of predefined rules are those that are used afterwards.
    ///
    /// # Errors
    /// The PDR is not there.
    pub fn apply(&self, rules: &mut SessionRules, predefined: &Predefined) -> Result<(), EditError> {
        let rulebases = |places: &[usize]| {
            let named = places.iter().filter_map(|place| NAMES.get(*place));
            named
                .filter_map(|name| predefined.rulebase(name).cloned())
                .collect()
        };
        rules.update_pdr(PdrUpdate {
            deactivate: rulebases(&self.deactivate),
            activate: rulebases(&self.activate),
            far: Edit::from(self.by_number.map(|place| FarId(number(place)))),
            qers: self.by_number.map(|place| vec![QerId(number(place)), QerId(0)]),
            urrs: self.by_number.map(|place| vec![UrrId(number(place))]),
            ..PdrUpdate::new(self.pdr)
        })?;
        if self.leaves_far {
            let pdr = rules.remove_pdr(self.pdr)?;
            let far = pdr.far.filter(|_| pdr.rulebases.is_empty());
            rules.create_pdr(Pdr { far, ..pdr })?;
        }
        rules.instantiate(predefined);
        Ok(())
    }
}

/// [`runnable_rules`] of which some activate predefined rules.
pub fn runnable_rules_with() -> BoxedStrategy<(SessionRules, Predefined)> {
    let activations = prop::collection::vec(any_activation(), 1..5);
    (runnable_rules(), any_predefined(), activations)
        .prop_map(|(mut rules, predefined, activations)| {
            for activation in activations {
                // One that names no PDR of these changes nothing.
                let _ = activation.apply(&mut rules, &predefined);
            }
            (rules, predefined)
        })
        .boxed()
}
