//! What can be refused of a session's rules without the network.

use flow::BlockImage;

use crate::compile_error::{CompileError, CompileFault};
use crate::counter_slots::CounterSlots;
use crate::model::{Pdr, PdrId, Qer, RuleRef, SessionRules};

/// PDRs of one session.
pub const MAX_PDRS: usize = 1000;

/// UE addresses and framed routes of one session.
pub const MAX_UE_PREFIXES: usize = 256;

/// No more rules of a kind than a session has slots for.
pub(super) fn check_limits(rules: &SessionRules, slots: CounterSlots<'_>) -> Result<(), CompileError> {
    limit(rules.pdrs(), MAX_PDRS, |pdr| pdr.id.into())?;
    limit(rules.fars(), BlockImage::MAX_FORWARDS, |far| far.id.into())?;
    let rated = rules.packet_rated().count();
    limit(rules.qers(), BlockImage::MAX_QERS.saturating_sub(rated), |qer| {
        qer.id.into()
    })?;
    let urrs = BlockImage::MAX_URRS.saturating_sub(slots.extra());
    limit(rules.urrs(), urrs, |urr| urr.id.into())?;
    limit_prefixes(rules)
}

fn limit_prefixes(rules: &SessionRules) -> Result<(), CompileError> {
    let max = MAX_UE_PREFIXES;
    let named: usize = rules.pdrs().iter().map(|pdr| pdr.pdi.ue_prefix_count()).sum();
    if named <= max || rules.ue_prefixes().len() <= max {
        return Ok(());
    }
    let most = rules.pdrs().iter().max_by_key(|pdr| pdr.pdi.ue_prefix_count());
    Err(CompileError {
        rule: most.map_or(PdrId(0), |pdr| pdr.id).into(),
        reason: CompileFault::TooMany { max: max as u16 },
    })
}

fn limit<R>(rules: &[R], max: usize, id: impl Fn(&R) -> RuleRef) -> Result<(), CompileError> {
    match rules.get(max) {
        Some(surplus) => {
            let reason = CompileFault::TooMany { max: max as u16 };
            Err(CompileError {
                rule: id(surplus),
                reason,
            })
        }
        None => Ok(()),
    }
}

/// PDRs are there, and none of them identifies the session: no packet could ever reach it (TS 29.244 §5.2.1).
pub(super) fn check_identity(rules: &SessionRules) -> Result<(), CompileError> {
    let tells = |pdr: &Pdr| pdr.pdi.f_teid.is_some() || pdr.pdi.ue_prefix_count() > 0;
    match rules.pdrs().first() {
        Some(first) if !rules.pdrs().iter().any(tells) => Err(CompileError {
            rule: first.id.into(),
            reason: CompileFault::Unreachable,
        }),
        _ => Ok(()),
    }
}

/// Nothing is guaranteed that may not pass (TS 29.244 §5.4.4): a GBR is no higher than the MBR of its direction. What
/// sessions have in common is an MBR, which packets pass once. And a packet is of a QoS flow or of a service class, of
/// 5G or of GERAN.
pub(super) fn check_qers(rules: &SessionRules) -> Result<(), CompileError> {
    let qers = rules.qers();
    let is_correlated_twice = |slot: usize, qer: &Qer| {
        let mut before = qers.iter().take(slot);
        before.any(|other| other.correlation == qer.correlation)
    };
    let fault = |(slot, qer): (usize, &Qer)| {
        let is_more = qer.optional.gbr.is_some()
            || qer.optional.packet_rates.is_some()
            || is_correlated_twice(slot, qer);
        let faults = [
            (qer.guarantees_too_much(), CompileFault::GbrAboveMbr),
            (qer.qfi.is_some() && qer.sci.is_some(), CompileFault::TwoMarks),
            (qer.correlation.is_some() && is_more, CompileFault::Correlated),
        ];
        let reason = faults.into_iter().find(|(is_there, _)| *is_there)?.1;
        let rule = qer.id.into();
        Some(CompileError { rule, reason })
    };
    qers.iter().enumerate().find_map(fault).map_or(Ok(()), Err)
}

/// What URRs name must be there (TS 29.244 Table 7.5.2.4-1).
pub(super) fn check_urrs(rules: &SessionRules) -> Result<(), CompileError> {
    for urr in rules.urrs() {
        let failed = |reason| CompileError {
            rule: urr.id.into(),
            reason,
        };
        let terms = urr.terms();
        if let Some(missing) = terms.linked.iter().find(|linked| rules.urr(**linked).is_none()) {
            return Err(failed(CompileFault::NoLinkedUrr(*missing)));
        }
        if let Some(missing) = terms.quota_action.filter(|far| rules.far(*far).is_none()) {
            return Err(failed(CompileFault::NoQuotaAction(missing)));
        }
        if let Some(fault) = urr.pool_fault(rules.urrs()) {
            return Err(failed(CompileFault::Pool(fault)));
        }
    }
    Ok(())
}
