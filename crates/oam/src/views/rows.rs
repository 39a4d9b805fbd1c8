//! Associations and sessions in few words.

use std::collections::BTreeSet;
use std::time::{Duration, UNIX_EPOCH};

use n4::Interfaces;
use session::{AssociationId, Moment, SessionView};
use upf::{Control, identifiers};

use super::page::page;
use crate::values::{Association, AssociationList, SessionRow, SessionState};

/// Associations behind that with the number `after`, `most` of them.
#[must_use]
pub fn associations(control: &Control, after: Option<u32>, most: usize) -> AssociationList {
    let behind = |id: AssociationId| after.is_none_or(|after| id.0 > after);
    let all = control.endpoint().associations().filter(|one| behind(one.id));
    let (page, next) = page(all, most, |one| one.id.0);
    AssociationList {
        associations: page
            .into_iter()
            .map(|one| association_row(control, one))
            .collect(),
        next,
        total: control.endpoint().associations().count(),
    }
}

pub(super) fn association_row(control: &Control, association: &n4::Association) -> Association {
    let sessions = control.endpoint().sessions();
    let interfaces = control.endpoint().interfaces_of(association);
    Association {
        node: association.node.to_string(),
        peer: association.peer.to_string(),
        local: association.local.to_string(),
        others: association.others.iter().map(ToString::to_string).collect(),
        set: association.set.as_deref().map(set_name),
        interface: (interfaces != Interfaces::ANY).then(|| interfaces.to_string()),
        reachable: association.reachable,
        since: date(control, association.since.into()),
        recovery: association.recovery.0,
        sessions: sessions.sessions_of(association.id),
        tunnels: sessions.tunnels_of(association.id),
    }
}

pub(super) fn session_row(control: &Control, session: &SessionView<'_>) -> SessionRow {
    let teids: BTreeSet<_> = session.tunnels().iter().map(|(_, teid)| *teid).collect();
    SessionRow {
        seid: identifiers::seid(session.seid().0),
        cp_seid: identifiers::seid(session.cp().seid),
        node: node_of(control, session),
        ue: addresses(session),
        imsi: imsi(session),
        dnn: dnn(session),
        teids: teids.into_iter().map(identifiers::teid).collect(),
        pdrs: session.rules().pdrs().len(),
        state: state(session),
        worker: control.owner(session.bucket()).0,
        bucket: session.bucket().index() as u16,
    }
}

/// The Node ID of a session's association.
pub(super) fn node_of(control: &Control, session: &SessionView<'_>) -> String {
    let association = control.endpoint().association(session.association());
    association.map_or("-".into(), |one| one.node.to_string())
}

/// A moment as RFC 3339 writes it, in whole seconds.
pub(super) fn date(control: &Control, moment: Moment) -> String {
    let seconds = control.wall().unix_seconds(moment);
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds)).to_string()
}

/// What plain packets reach the UE by: its addresses, prefixes and the networks behind it.
pub(super) fn addresses(session: &SessionView<'_>) -> Vec<String> {
    let prefixes = session.ue_addresses().into_iter().map(|(_, prefix)| prefix);
    let unique: BTreeSet<_> = prefixes.chain(session.rules().ue_prefixes()).collect();
    unique.iter().map(upf::format::prefix).collect()
}

/// The IMSI of whom a session is for.
pub(super) fn imsi(session: &SessionView<'_>) -> Option<String> {
    session.subscriber()?.imsi.as_deref().map(String::from)
}

/// The DNN or APN of a session.
pub(super) fn dnn(session: &SessionView<'_>) -> Option<String> {
    session.subscriber()?.dnn.as_deref().map(String::from)
}

pub(super) fn state(session: &SessionView<'_>) -> SessionState {
    if session.is_changing() {
        SessionState::Changing
    } else {
        SessionState::Live
    }
}

/// A name in DNS labels, with dots.
fn set_name(labels: &[u8]) -> String {
    let mut name = String::new();
    let mut rest = labels;
    while let Some((length, tail)) = rest.split_first() {
        let Some((label, after)) = tail.split_at_checked(usize::from(*length)) else {
            return labels.escape_ascii().to_string();
        };
        if !name.is_empty() && !label.is_empty() {
            name.push('.');
        }
        name.push_str(&label.escape_ascii().to_string());
        rest = after;
    }
    name
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_set_is_named_with_dots() {
        assert_eq!(super::set_name(b"\x04set1\x035gc"), "set1.5gc");
        assert_eq!(super::set_name(b"set1"), "set1");
    }
}
