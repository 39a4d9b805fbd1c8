//! What quotas that are used up do to packets (TS 29.244 §5.2.2.2.1).

use std::borrow::Cow;

use packet::{DropReason, IpTuple};

use super::detect::{fits, is_of_flows};
use super::session::Session;
use crate::model::{Pdr, SourceInterface, Urr, Verb};

/// The PDR's URRs whose quotas are used up.
pub(super) fn exhausted_urrs<'a, 'p>(
    session: Session<'a>,
    pdr: &'p Pdr,
) -> impl Iterator<Item = &'a Urr> + use<'a, 'p> {
    let is_spent = move |urr: &&Urr| {
        session.may_count_in(pdr, urr) && !urr.is_paused() && session.quotas.exhausted.contains(&urr.id)
    };
    session.rules.urrs().iter().filter(is_spent)
}

/// The PDR without the URRs whose quotas are used up; of a packet that they do not exempt, with the FAR for Quota
/// Action of the first of them.
///
/// # Errors
/// [`DropReason::QuotaExhausted`] where one of them has none.
pub(super) fn as_quotas_allow<'a>(
    session: Session<'a>,
    pdr: Cow<'a, Pdr>,
    tuple: &IpTuple,
) -> Result<Cow<'a, Pdr>, DropReason> {
    let spent: Vec<&Urr> = exhausted_urrs(session, &pdr).collect();
    if spent.is_empty() {
        return Ok(pdr);
    }
    let interface = pdr.pdi.source_interface;
    let stop = spent
        .iter()
        .filter(|urr| !exempts(session, urr, interface, tuple));
    let fars = stop.map(|urr| urr.terms().quota_action.ok_or(DropReason::QuotaExhausted));
    let fars = fars.collect::<Result<Vec<_>, _>>()?;
    let mut pdr = pdr.into_owned();
    pdr.urrs.retain(|id| spent.iter().all(|urr| urr.id != id));
    pdr.far = fars.first().copied().or(pdr.far);
    Ok(Cow::Owned(pdr))
}

/// Whether an exhausted quota does not stop a packet: one of those that it exempts, and the response to a UE that
/// the quota redirects.
fn exempts(session: Session<'_>, urr: &Urr, interface: SourceInterface, tuple: &IpTuple) -> bool {
    let terms = urr.terms();
    let far = terms.quota_action.and_then(|id| session.rules.far(id));
    let redirects =
        far.is_some_and(|far| far.action.verb() == Some(Verb::Forward) && far.optional.redirect.is_some());
    let mut filters = terms.exempt_filters.iter();
    let mut applications = terms.exempt_applications.iter();
    session.quotas.is_answer && redirects
        || filters.any(|filter| fits(session, filter, interface, tuple))
        || applications.any(|application| is_of_flows(session, application, interface, tuple))
}
