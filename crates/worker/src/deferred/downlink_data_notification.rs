//! Packets of FARs that buffer: their queues, and the downlink data notification of the first ones (TS 29.244 §5.2.3.1,
//! §5.2.4), by which the SMF pages the UE.

use flow::Direction;
use packet::{DropReason, PacketBuf, Qfi};
use rules::image::{Buffering, DataStatus};

use crate::Event;
use crate::burst::Burst;
use crate::burst::descriptor::{Deferral, Fate};
use crate::deferred::buffering::{Buffers, Flow, QueueKey};
use crate::deferred::context::Context;
use crate::deferred::delivery_status::forget_status;
use crate::io::Io;
use crate::nat::Unsolicited;

/// Finds the queues of the packets of this burst that are buffered, and reports the first ones.
#[cold]
#[inline(never)]
pub(crate) fn expect_buffered<I: Io>(
    context: &mut Context<'_, I>,
    burst: &mut Burst<I::Buf>,
    buffers: &mut Buffers<I::Buf>,
    unsolicited: Unsolicited,
) {
    for index in 0..burst.len() {
        if burst.descriptors[index].fate == Fate::Defer(Deferral::Buffer)
            && expect(context, burst, buffers, (index, unsolicited)).is_none()
        {
            burst.descriptors[index].fate = Fate::Drop(DropReason::FarBuffer);
        }
    }
}

fn expect<I: Io>(
    context: &mut Context<'_, I>,
    burst: &Burst<I::Buf>,
    buffers: &mut Buffers<I::Buf>,
    (index, unsolicited): (usize, Unsolicited),
) -> Option<()> {
    let descriptor = &burst.descriptors[index];
    let verdict = descriptor.verdict;
    let sessions = &mut *context.sessions;
    let block = sessions.blocks.get(verdict.block)?;
    let session = block.session();
    let qfi = block.mark(verdict.marking).qfi().and_then(Qfi::new);
    if !unsolicited.is_uncharged(index) {
        sessions.inactivity_timers.used(session, context.now);
    }
    let image = sessions.image_mut(session)?;
    let Buffering { far, notifies, most } = image.buffering(verdict.forward)?;
    let pdr = image.rules.pdrs().get(usize::from(verdict.pdr))?.id;
    let owner = QueueKey { session, far };
    let is_downlink = verdict.direction() == Direction::Downlink;
    let charged_octets = unsolicited.charged_octets(index, descriptor.octets);
    let packet = Flow::new(session, pdr, charged_octets, &verdict);
    let flow = qfi.map_or(0, Qfi::get);
    let is_first = buffers.expect(index, owner, packet, most, flow, context.now);
    let may_store = buffers.may_store(index, burst.packets[index].len());
    let is_news = is_downlink && may_store && image.record_status(verdict.pdr, DataStatus::Buffered);
    let notifies = is_first && notifies && is_downlink;
    if notifies || is_news {
        let bytes = burst.packets[index].data();
        let event = Event::DownlinkData {
            session,
            pdr,
            far,
            qfi,
            dscp: Some(descriptor.tuple(bytes).map_or(0, |tuple| tuple.tos >> 2)),
            notifies,
            status: is_news.then_some(DataStatus::Buffered),
        };
        if !context.events.push(context.stats, event) {
            if notifies {
                buffers.clear_reported(owner, flow);
            }
            if is_news {
                forget_status(context, session, verdict.pdr, DataStatus::Buffered);
            }
        }
    }
    Some(())
}
