//! CG-NAT: pools of public addresses, and who has which public ports.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use nat::mappings::Refusal;
use upf::{InspectError, identifiers};
use worker::NatCounts;

use crate::rest::answer::{Answer, Asked, pairs};
use crate::rest::query::QueryTimeout;
use crate::rest::request;
use crate::rest::service::Service;
use crate::values::{NatMappingCounts, NatMappingList, NatOwner, NatStatus, Problem};
use crate::views::NoOwner;

/// Pools of public addresses, how much of them is used, and the mappings of all workers.
#[utoipa::path(
    get,
    path = "/v1/nat",
    extensions(("x-role" = json!("viewer"))),
    responses(
        (status = 200, body = NatStatus),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Too many questions"),
    )
)]
pub(super) async fn nat(State(service): State<Service>) -> Answer<NatStatus> {
    Ok(Json(NatStatus {
        pools: service.client.nat_pools().await?,
        mappings: sum(&counts(&service)),
    }))
}

/// The session that has a public address and port now; with a protocol, its mapping, too.
#[utoipa::path(
    get,
    path = "/v1/nat/owner",
    extensions(("x-role" = json!("viewer"))),
    params(
        ("address" = String, Query, description = "The public IPv4 address", example = "198.51.100.1"),
        ("port" = u16, Query, description = "The public port; of ICMP the identifier of queries", example = 2600),
        ("protocol" = Option<String>, Query, description = "`tcp`, `udp` or `icmp`: the mapping of this protocol is wanted, too"),
        ("instance" = Option<String>, Query, description = "The network instance of the address, where several have it"),
    ),
    responses(
        (status = 200, body = NatOwner),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "A parameter that cannot be"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "No session has it now"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Too many questions"),
    )
)]
pub(super) async fn nat_owner(State(service): State<Service>, asked: Asked) -> Answer<NatOwner> {
    let endpoint = request::public_endpoint(pairs(asked)?)?;
    match service.client.nat_owner(endpoint).await? {
        Ok(owner) => Ok(Json(*owner)),
        Err(NoOwner::Busy) => Err(QueryTimeout.into()),
        Err(error @ NoOwner::Several) => Err(Problem::new(StatusCode::BAD_REQUEST, error.to_string())),
        Err(error @ (NoOwner::NoPool | NoOwner::NoSession)) => {
            Err(Problem::new(StatusCode::NOT_FOUND, error.to_string()))
        }
    }
}

/// The live mappings of one session, 1,000 at most.
#[utoipa::path(
    get,
    path = "/v1/nat/mappings",
    extensions(("x-role" = json!("viewer"))),
    params(("seid" = String, Query, description = "The local SEID, decimal or hexadecimal")),
    responses(
        (status = 200, body = NatMappingList),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "A parameter that cannot be"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such session"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Too many questions"),
    )
)]
pub(super) async fn nat_mappings(State(service): State<Service>, asked: Asked) -> Answer<NatMappingList> {
    let seid = request::only_seid(pairs(asked)?)?;
    match service.client.nat_mappings(seid).await? {
        Ok(list) => Ok(Json(list)),
        Err(InspectError::UnknownSession) => {
            let detail = format!("there is no session with SEID {}", identifiers::seid(seid.0));
            Err(Problem::new(StatusCode::NOT_FOUND, detail))
        }
        Err(InspectError::Busy) => Err(QueryTimeout.into()),
    }
}

/// What each worker has counted, by its number.
pub(super) fn counts(service: &Service) -> Vec<NatCounts> {
    let gauges = service.gauges.as_ref();
    gauges.map(|gauges| (gauges.nat_counts)()).unwrap_or_default()
}

fn sum(workers: &[NatCounts]) -> NatMappingCounts {
    let sum = |of: fn(&NatCounts) -> u64| workers.iter().map(of).sum();
    let refused = Refusal::ALL.into_iter().map(|refusal| {
        let own = workers
            .iter()
            .map(|worker| worker.mappings.refused[refusal as usize]);
        (refusal.label().to_owned(), own.sum())
    });
    NatMappingCounts {
        mappings: sum(|worker| worker.mappings.mappings as u64),
        limit: sum(|worker| worker.limit as u64),
        made: sum(|worker| worker.mappings.made),
        expired: sum(|worker| worker.mappings.expired),
        imported: sum(|worker| worker.mappings.imported),
        refused: refused.collect(),
        unsolicited: sum(|worker| worker.mappings.unsolicited),
        unsolicited_admitted: sum(|worker| worker.mappings.unsolicited_admitted),
        filtered: sum(|worker| worker.mappings.filtered),
    }
}

#[cfg(test)]
mod tests {
    use nat::mappings::MappingStats;

    use super::*;

    #[test]
    fn all_workers_count_together() {
        let worker = |made, no_port| NatCounts {
            mappings: MappingStats {
                made,
                refused: [0, no_port, 0, 0, 0, 0],
                ..MappingStats::default()
            },
            limit: 100,
        };
        let both = sum(&[worker(1, 2), worker(3, 4)]);
        assert_eq!((both.made, both.limit), (4, 200));
        assert_eq!((both.refused["no_port"], both.refused["no_block"]), (6, 0));
    }
}
