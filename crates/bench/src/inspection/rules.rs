//! The rules of model Z: hosts and prefixes in one rulebase that all sessions activate, billed as contents. Or an
//! access list of as many prefixes that all sessions have.

use std::sync::Arc;

use rules::model::{
    AccessAction, AccessList, AccessRule, Content, DetectionPattern, EditError, HostRule, LocalPolicy, PdrId,
    PdrUpdate, Precedence, PredefinedRule, SdfFilter,
};
use rules::{Predefined, SessionRules};

use super::super::error::BenchError;
use super::super::model::Model;
use super::super::rules::{Identity, session_rules};
use super::frames::host;

/// Contents that the rules are billed as: those of one session, 45 static and 5 dynamic.
const CONTENTS: u32 = 50;
/// The name of the rulebase.
const NAME: &[u8] = b"z";

/// What sessions have beside the rules of their SMF.
#[derive(Clone, Debug)]
pub enum Added {
    /// Nothing.
    Nothing,
    /// A rulebase.
    Rulebase(Predefined),
    /// An access list.
    AccessList(Arc<AccessList>),
}

/// How many rules there are.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Hosts.
    pub hosts: u32,
    /// Prefixes.
    pub prefixes: u32,
    /// In an access list: of packets that no prefix describes, those pass alone that belong to connections.
    pub is_solicited: bool,
}

fn rule(precedence: u32) -> PredefinedRule {
    PredefinedRule {
        precedence: Precedence(precedence),
        filters: Vec::new(),
        detection: Default::default(),
        far: None,
        qers: Vec::new(),
        urrs: Vec::new(),
        content: Some(Content {
            name: format!("content {}", precedence % CONTENTS).into(),
            rating_group: Some(precedence % CONTENTS),
            service_id: None,
        }),
    }
}

/// The filter of a prefix, by its number.
fn prefix(number: u32) -> Result<SdfFilter, BenchError> {
    let [.., high, low] = number.to_be_bytes();
    let text = format!(
        "permit out ip from 100.64.{high}.{low}/{} to assigned",
        32 - number % 4
    );
    Ok(SdfFilter {
        flow_description: Some(text.parse().map_err(BenchError::of)?),
        ..SdfFilter::default()
    })
}

/// An access list that denies this many prefixes, with which none of the packets is exchanged. Of others all pass, or
/// those that belong to connections.
///
/// # Errors
/// None: all of them are valid.
pub fn access_list(prefixes: u32, is_solicited: bool) -> Result<Arc<AccessList>, BenchError> {
    let rule = |number: u32| {
        Ok(AccessRule {
            name: number.to_string().into(),
            action: AccessAction::Deny,
            direction: None,
            filters: vec![prefix(number)?],
            detection: DetectionPattern::default(),
        })
    };
    let rules = (0..prefixes).map(rule).collect::<Result<_, BenchError>>()?;
    let otherwise = match is_solicited {
        true => AccessAction::Solicited,
        false => AccessAction::Permit,
    };
    let list = AccessList::new("z", rules, otherwise);
    list.map(Arc::new)
        .map_err(|error| BenchError::of(format!("{error:?}")))
}

/// A rulebase of this size: hosts, then prefixes, then all else.
///
/// # Errors
/// None: all of them are valid.
pub fn predefined(size: Size) -> Result<Predefined, BenchError> {
    let mut rules = Vec::new();
    for number in 0..size.hosts {
        let host = HostRule::parse(&host(number)).map_err(BenchError::of)?;
        rules.push(PredefinedRule {
            detection: DetectionPattern::of_hosts(vec![host]),
            ..rule(number)
        });
    }
    for number in 0..size.prefixes {
        rules.push(PredefinedRule {
            filters: vec![prefix(number)?],
            ..rule(size.hosts + number)
        });
    }
    rules.push(rule(size.hosts + size.prefixes));
    let mut predefined = Predefined::new([], [], []).map_err(BenchError::of)?;
    predefined.add(NAME, rules).map_err(BenchError::of)?;
    Ok(predefined)
}

/// The rules of a session with what is added.
///
/// # Errors
/// None: all ids differ.
pub fn of_session(
    model: &Model,
    (session, identity): (u32, Identity),
    added: &Added,
) -> Result<SessionRules, EditError> {
    let mut rules = session_rules(model, session, identity)?;
    let predefined = match added {
        Added::Nothing => return Ok(rules),
        Added::AccessList(list) => {
            rules.set_local_policy(LocalPolicy {
                access_list: Some(Arc::clone(list)),
                ..LocalPolicy::default()
            });
            return Ok(rules);
        }
        Added::Rulebase(predefined) => predefined,
    };
    let ids: Vec<PdrId> = rules.pdrs().iter().map(|pdr| pdr.id).collect();
    for id in ids {
        rules.update_pdr(PdrUpdate {
            activate: predefined.rulebase(NAME).cloned().into_iter().collect(),
            ..PdrUpdate::new(id)
        })?;
    }
    rules.instantiate(predefined);
    Ok(rules)
}
