//! Downlink packets that FARs or full buffers drop: the downlink data delivery status (TS 29.244 §5.28) and the Dropped
//! DL Traffic Thresholds of URRs (§5.2.2.2, §5.30).

use flow::SessionIndex;
use packet::DropReason;
use rules::image::{DataStatus, SessionImage};
use rules::model::{Pdr, SourceInterface, UrrId};

use crate::Event;
use crate::burst::Burst;
use crate::deferred::buffering::{Buffers, Flow};
use crate::deferred::context::Context;
use crate::deferred::pause_of_charging;
use crate::io::Io;
use crate::nat::Unsolicited;

/// Reports the packets of this burst that FARs drop.
#[cold]
#[inline(never)]
pub(crate) fn report_discarded<I: Io>(
    context: &mut Context<'_, I>,
    burst: &mut Burst<I::Buf>,
    unsolicited: Unsolicited,
) {
    for number in 0..burst.outcome.discarded.len() {
        let index = usize::from(burst.outcome.discarded[number]);
        let descriptor = &burst.descriptors[index];
        let verdict = descriptor.verdict;
        let session = context.sessions.of(&verdict);
        let found = session.and_then(|session| {
            let rules = &context.sessions.at(session)?.image.rules;
            let pdr = rules.pdrs().get(usize::from(verdict.pdr))?.id;
            let charged_octets = unsolicited.charged_octets(index, descriptor.octets);
            Some(Flow::new(session, pdr, charged_octets, &verdict))
        });
        match found {
            Some(flow) if unsolicited.is_silent(index) => count_dropped(context, &flow),
            Some(flow) => report_lost(context, &flow),
            None => {}
        }
    }
    burst.outcome.discarded.clear();
}

/// Reports the packets of this burst for which buffers had no room.
#[cold]
#[inline(never)]
pub(crate) fn report_refused<I: Io>(context: &mut Context<'_, I>, buffers: &mut Buffers<I::Buf>) {
    while let Some(flow) = buffers.take_refused() {
        report_lost(context, &flow);
    }
}

/// Drops and counts buffered packets that were discarded or have expired. Expired ones are reported where FARs ask for
/// it, discarded ones if `reports_discarded`.
pub(crate) fn drop_buffered<I: Io>(
    context: &mut Context<'_, I>,
    buffers: &mut Buffers<I::Buf>,
    reports_discarded: bool,
) {
    while let Some((packet, flow)) = buffers.take_discarded() {
        context
            .ports
            .drop(context.stats, packet, DropReason::BufferDiscarded);
        if reports_discarded {
            report_status(context, &flow, DataStatus::Discarded);
        }
        count_dropped(context, &flow);
    }
    while let Some((packet, flow)) = buffers.take_expired() {
        context
            .ports
            .drop(context.stats, packet, DropReason::BufferExpired);
        report_lost(context, &flow);
    }
}

/// A packet of this flow is dropped by its FAR, or has expired.
#[cold]
fn report_lost<I: Io>(context: &mut Context<'_, I>, flow: &Flow) {
    report_status(context, flow, DataStatus::Discarded);
    count_dropped(context, flow);
}

/// Counts a downlink packet that is dropped in its URRs with a Dropped DL Traffic Threshold: those of its PDR, and
/// those of the predefined rule that it matched, if the rules are still those by which that is known. One of which no
/// octet may be charged counts in none.
#[cold]
fn count_dropped<I: Io>(context: &mut Context<'_, I>, flow: &Flow) {
    if flow.octets == 0 {
        return;
    }
    let Some(slot) = context.sessions.at(flow.session) else {
        return;
    };
    if slot.image.dropped.is_empty() {
        return;
    }
    let block = context.sessions.blocks.get(slot.installed.block);
    let is_known = block.is_some_and(|block| block.generation() == flow.generation);
    let counted = if is_known { flow.urrs } else { 0 };
    let Some(image) = context.sessions.image_mut(flow.session) else {
        return;
    };
    let SessionImage { rules, dropped, .. } = image;
    let mut pdrs = rules.pdrs().iter();
    let is_downlink = |pdr: &&Pdr| pdr.id == flow.pdr && pdr.pdi.source_interface != SourceInterface::Access;
    let Some(pdr) = pdrs.find(is_downlink) else {
        return;
    };
    let counts = |urr: UrrId| {
        let slot = rules.urrs().iter().position(|one| one.id == urr);
        pdr.urrs.contains(&urr) || slot.is_some_and(|slot| counted >> slot & 1 == 1)
    };
    let dropped = dropped.as_mut().into_iter().flatten();
    for one in dropped.filter(|one| counts(one.urr)) {
        one.add(flow.octets);
    }
    report_thresholds(context, flow.session);
}

/// Reports thresholds of dropped packets that are reached, and starts a Pause of Charging upstream where URRs ask for
/// it. What finds no room in the event queue is reported with the next packet.
pub(crate) fn report_thresholds<I: Io>(context: &mut Context<'_, I>, session: SessionIndex) {
    let Some(image) = context.sessions.image_mut(session) else {
        return;
    };
    let mut sends_pause = false;
    let dropped = image.dropped.as_mut().into_iter().flatten();
    for one in dropped.filter(|one| one.is_reached()) {
        let event = Event::DroppedReached {
            session,
            urr: one.urr,
        };
        if !one.reports || context.events.push(context.stats, event) {
            one.reset();
            sends_pause |= one.sends_pause;
        }
    }
    if sends_pause {
        pause_of_charging::send(context, session);
    }
}

/// Reports the status of a packet of this flow, if its FAR asks for it and the packet is the first.
#[cold]
#[inline(never)]
fn report_status<I: Io>(context: &mut Context<'_, I>, flow: &Flow, status: DataStatus) {
    let (session, id) = (flow.session, flow.pdr);
    let Some(image) = context.sessions.image_mut(session) else {
        return;
    };
    let pdrs = image.rules.pdrs();
    let is_downlink = |pdr: &Pdr| pdr.id == id && pdr.pdi.source_interface != SourceInterface::Access;
    let Some(slot) = pdrs.iter().position(is_downlink) else {
        return;
    };
    let (slot, far) = (slot as u16, pdrs[slot].far);
    let Some(far) = far.filter(|_| image.record_status(slot, status)) else {
        return;
    };
    let event = Event::DownlinkData {
        session,
        pdr: id,
        far,
        qfi: None,
        dscp: None,
        notifies: false,
        status: Some(status),
    };
    if !context.events.push(context.stats, event) {
        forget_status(context, session, slot, status);
    }
}

/// The event queue had no room for a status of the PDR in `slot`: the next packet counts as the first.
pub(crate) fn forget_status<I: Io>(
    context: &mut Context<'_, I>,
    session: SessionIndex,
    slot: u16,
    status: DataStatus,
) {
    let image = context.sessions.image_mut(session);
    let reported = image.and_then(|image| image.reported_statuses.as_mut()?.get_mut(usize::from(slot)));
    if let Some(reported) = reported {
        reported.remove(status);
    }
}
