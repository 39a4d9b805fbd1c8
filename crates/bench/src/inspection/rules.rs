//! The rules of model Z: hosts and prefixes in one rulebase that all sessions activate, billed as contents.

use rules::model::{Content, EditError, HostRule, PdrId, PdrUpdate, Precedence, PredefinedRule, SdfFilter};
use rules::{Predefined, SessionRules};

use super::super::error::BenchError;
use super::super::model::Model;
use super::super::rules::{Identity, session_rules};
use super::frames::host;

/// Contents that the rules are billed as: those of one session, 45 static and 5 dynamic.
const CONTENTS: u32 = 50;
/// The name of the rulebase.
const NAME: &[u8] = b"z";

/// How many rules there are.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Hosts.
    pub hosts: u32,
    /// Prefixes.
    pub prefixes: u32,
}

fn rule(precedence: u32) -> PredefinedRule {
    PredefinedRule {
        precedence: Precedence(precedence),
        filters: Vec::new(),
        hosts: Vec::new(),
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

/// A rulebase of this size: hosts, then prefixes, then all else.
///
/// # Errors
/// None: all of them are valid.
pub fn predefined(size: Size) -> Result<Predefined, BenchError> {
    let mut rules = Vec::new();
    for number in 0..size.hosts {
        let host = HostRule::parse(&host(number)).map_err(BenchError::of)?;
        rules.push(PredefinedRule {
            hosts: vec![host],
            ..rule(number)
        });
    }
    for number in 0..size.prefixes {
        let [.., high, low] = number.to_be_bytes();
        let text = format!(
            "permit out ip from 100.64.{high}.{low}/{} to assigned",
            32 - number % 4
        );
        let filter = SdfFilter {
            flow_description: Some(text.parse().map_err(BenchError::of)?),
            ..SdfFilter::default()
        };
        rules.push(PredefinedRule {
            filters: vec![filter],
            ..rule(size.hosts + number)
        });
    }
    rules.push(rule(size.hosts + size.prefixes));
    let mut predefined = Predefined::new([], [], []).map_err(BenchError::of)?;
    predefined.add(NAME, rules).map_err(BenchError::of)?;
    Ok(predefined)
}

/// The rules of a session that activates the rulebase, if there is one.
///
/// # Errors
/// None: all ids differ.
pub fn of_session(
    model: &Model,
    (session, identity): (u32, Identity),
    predefined: Option<&Predefined>,
) -> Result<SessionRules, EditError> {
    let mut rules = session_rules(model, session, identity)?;
    let Some(predefined) = predefined else {
        return Ok(rules);
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
