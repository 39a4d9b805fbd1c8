//! The metrics of workers' accelerators.

use offload::channel::Discard;
use offload::exception::Reason;
use worker::{AcceleratorView, Stays};

use super::exposition::{Exposition, Metric, Reading};

const UP: Metric = Metric::gauge(
    "sluice_accelerator_up",
    WORKER,
    "1 while there is contact with a worker's accelerator, and sessions can leave.",
);
const PARTIAL: Metric = Metric::gauge(
    "sluice_accelerator_partial",
    WORKER,
    "1 while no session of a worker can leave, because it or its accelerator is in partial mode.",
);
const SESSIONS: Metric = Metric::gauge(
    "sluice_accelerator_sessions",
    WORKER,
    "Sessions of a worker that are away at its accelerator, those on the way included.",
);
const OUTSTANDING: Metric = Metric::gauge(
    "sluice_accelerator_requests_outstanding",
    WORKER,
    "Requests to an accelerator without a reply.",
);
const ROUND_TRIP: Metric = Metric::gauge(
    "sluice_accelerator_round_trip_seconds",
    WORKER,
    "The smoothed time until an accelerator acknowledges a frame, in this contact.",
);
const HOME: Metric = Metric::counter(
    "sluice_accelerator_home_packets",
    REASON,
    "Packets of sessions that stay in their worker, by the reason why they stay.",
);
const EXCEPTIONS: Metric = Metric::counter(
    "sluice_accelerator_exceptions",
    REASON,
    "Packets that an accelerator gave to its worker, by reason.",
);
const DISCARDED: Metric = Metric::counter(
    "sluice_accelerator_discarded_frames",
    REASON,
    "Frames that a channel to an accelerator discarded, by reason.",
);
const WORKER: &[&str] = &["worker"];
const REASON: &[&str] = &["reason"];

/// A count that is a single number.
struct AcceleratorCount {
    metric: Metric,
    of: Reading<AcceleratorView>,
}

const fn count(name: &'static str, help: &'static str, of: Reading<AcceleratorView>) -> AcceleratorCount {
    let metric = Metric::counter(name, &[], help);
    AcceleratorCount { metric, of }
}

#[rustfmt::skip]
static COUNTS: &[AcceleratorCount] = &[
    count("sluice_accelerator_sessions_left", "Sessions that left for an accelerator.", |view| view.offload.left),
    count("sluice_accelerator_sessions_returned", "Sessions that came back from an accelerator, with their counts and meters.", |view| view.offload.returned),
    count("sluice_accelerator_sessions_lost", "Sessions that an accelerator lost: what was counted since its last report is not charged.", |view| view.offload.lost),
    count("sluice_accelerator_sessions_refused", "Sessions that an accelerator refused.", |view| view.offload.refused),
    count("sluice_accelerator_network_refused", "Routes, instances and next hops that an accelerator refused: their packets come to the worker.", |view| view.offload.network_refused),
    count("sluice_accelerator_recalling_packets", "Packets of sessions that were away and needed the worker: their sessions came back.", |view| view.offload.recalled),
    count("sluice_accelerator_questions", "Packets that an accelerator keeps and has asked about.", |view| view.port.questions),
    count("sluice_accelerator_questions_lost", "Questions that found no room.", |view| view.port.questions_lost),
    count("sluice_accelerator_flow_answers", "Answers to an accelerator that brought a flow.", |view| view.port.answered),
    count("sluice_accelerator_whole_answers", "Answers to an accelerator that asked for the packet.", |view| view.port.answered_whole),
    count("sluice_accelerator_through_packets", "Packets that went back to an accelerator with their flow.", |view| view.port.through),
    count("sluice_accelerator_hinted_packets", "Packets of which an accelerator said where their user packet begins.", |view| view.port.hinted),
    count("sluice_accelerator_steered_packets", "Packets that were given to a worker by the bucket that an accelerator said.", |view| view.port.steered),
    count("sluice_accelerator_sent_packets", "Packets of the worker that an accelerator's ports sent.", |view| view.port.sent),
    count("sluice_accelerator_unsent_packets", "Packets that could not be given to an accelerator: no contact, or no room in front of them.", |view| view.port.unsent),
    count("sluice_accelerator_lost_packets", "Packets from an accelerator that found no room before the worker took them.", |view| view.port.lost),
    count("sluice_accelerator_foreign_frames", "Frames on the port towards an accelerator that are not the accelerator's.", |view| view.port.foreign),
    count("sluice_accelerator_requests", "Requests to an accelerator.", |view| view.in_band.requests),
    count("sluice_accelerator_replies", "Replies of an accelerator.", |view| view.in_band.replies),
    count("sluice_accelerator_requests_refused", "Requests that were given up without a reply: contact was lost, or there were too many.", |view| view.in_band.refused),
    count("sluice_accelerator_events", "Events that an accelerator reported.", |view| view.in_band.events),
    count("sluice_accelerator_faults", "Contacts that were ended because of a message that is against the specification.", |view| view.in_band.faults),
    count("sluice_accelerator_losses", "Times that contact with an accelerator was lost, for whatever reason.", |view| view.in_band.losses),
    count("sluice_accelerator_contacts", "Contacts that were made with an accelerator.", |view| view.channel.contacts),
    count("sluice_accelerator_sent_frames", "Frames of the channel that were sent.", |view| view.channel.frames_sent),
    count("sluice_accelerator_received_frames", "Frames of the channel that were received and not discarded.", |view| view.channel.frames_received),
    count("sluice_accelerator_retransmissions", "Frames of the channel that were sent again.", |view| view.channel.retransmissions),
];

/// Writes the metrics of the accelerators of these workers, of which some may have none. Counts are those of all.
pub(super) fn write(to: &mut Exposition, workers: &[Option<AcceleratorView>]) {
    let known = || {
        let workers = workers.iter().enumerate();
        workers.filter_map(|(number, view)| Some((number.to_string(), view.as_ref()?)))
    };
    if known().next().is_none() {
        return;
    }
    let gauges: [(&Metric, Reading<AcceleratorView>); 4] = [
        (&UP, |view| view.is_ready.into()),
        (&PARTIAL, |view| view.is_partial.into()),
        (&SESSIONS, |view| view.offload.away),
        (&OUTSTANDING, |view| view.outstanding as u64),
    ];
    for (metric, of) in gauges {
        let mut family = to.family(metric);
        known().for_each(|(number, view)| family.sample(&[&number], of(view)));
    }
    let mut family = to.family(&ROUND_TRIP);
    for (number, view) in known() {
        if let Some(time) = view.load.round_trip {
            family.sample(&[&number], time.as_secs_f64());
        }
    }
    for AcceleratorCount { metric, of } in COUNTS {
        to.single(metric, known().map(|(_, view)| of(view)).sum::<u64>());
    }
    let all = || known().map(|(_, view)| view);
    let stays = Stays::ALL.map(Stays::label);
    write_reasons(to, &HOME, stays, all().map(|view| &view.offload.stays));
    let exceptions = Reason::ALL.map(Reason::label);
    write_reasons(
        to,
        &EXCEPTIONS,
        exceptions,
        all().map(|view| &view.port.exceptions),
    );
    let discards = Discard::ALL.map(Discard::label);
    write_reasons(to, &DISCARDED, discards, all().map(|view| &view.channel.discards));
}

/// The sums of counts by reason.
fn write_reasons<'a, const N: usize>(
    to: &mut Exposition,
    metric: &'static Metric,
    labels: [&str; N],
    counts: impl Iterator<Item = &'a [u64; N]>,
) {
    let sums = counts.fold([0; N], |mut sums, counts| {
        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        sums
    });
    let mut family = to.family(metric);
    for (label, sum) in labels.iter().zip(sums) {
        family.sample(&[label], sum);
    }
}
