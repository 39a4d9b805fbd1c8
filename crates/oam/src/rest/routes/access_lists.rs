//! Access lists, and what their rules have decided.

use axum::Json;
use axum::extract::State;
use flow::Direction;
use rules::model::{AccessAction, AccessRule, AccessRuleId};
use rules::network::BoundAccessList;
use worker::AccessCount;

use crate::rest::answer::Answer;
use crate::rest::service::Service;
use crate::values::{AccessListStatus, AccessLists, AccessRuleStatus, Problem};

/// The access lists, and what their rules have decided, with dropped packets and octets.
#[utoipa::path(
    get,
    path = "/v1/access-lists",
    extensions(("x-role" = json!("viewer"))),
    responses(
        (status = 200, body = AccessLists),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Too many questions"),
    )
)]
pub(super) async fn access_lists(State(service): State<Service>) -> Answer<AccessLists> {
    let lists = service.client.access_lists().await?;
    let gauges = service.gauges.as_ref();
    let counts = gauges.map(|gauges| (gauges.access_counts)()).unwrap_or_default();
    Ok(Json(AccessLists {
        access_lists: lists.iter().map(|one| status(one, &counts)).collect(),
    }))
}

fn status(one: &BoundAccessList, counts: &[Vec<AccessCount>]) -> AccessListStatus {
    AccessListStatus {
        name: one.list.name().to_owned(),
        slice: one.scope.slice.map(|slice| slice.to_string()),
        dnn: one.scope.dnn.clone(),
        rules: rules(one)
            .map(|(id, rule)| rule_status(id, rule, counts))
            .collect(),
    }
}

/// The rules of a list; of those with one number, alternatives of one rule, the first.
fn rules(one: &BoundAccessList) -> impl Iterator<Item = (AccessRuleId, &AccessRule)> {
    let mut last = AccessRuleId::NONE;
    let all = one.list.rules();
    all.filter(move |(id, _)| std::mem::replace(&mut last, *id) != *id)
}

fn rule_status(id: AccessRuleId, rule: &AccessRule, counts: &[Vec<AccessCount>]) -> AccessRuleStatus {
    let own = || counts.iter().filter_map(|worker| worker.get(usize::from(id.0)));
    let sum = |of: fn(&AccessCount) -> u64| own().map(of).sum();
    AccessRuleStatus {
        name: rule.name.to_string(),
        action: match rule.action {
            AccessAction::Permit => "permit",
            AccessAction::Deny => "deny",
            AccessAction::Reject => "reject",
            AccessAction::Reset => "reset",
            AccessAction::Redirect(_) => "redirect",
            AccessAction::Sinkhole(_) => "sinkhole",
            AccessAction::Solicited => "solicited",
        }
        .into(),
        direction: rule.direction.map(|direction| {
            match direction {
                Direction::Uplink => "uplink",
                Direction::Downlink => "downlink",
            }
            .into()
        }),
        flows: sum(|count| count.flows),
        dropped_packets: sum(|count| count.packets),
        dropped_octets: sum(|count| count.octets),
    }
}
