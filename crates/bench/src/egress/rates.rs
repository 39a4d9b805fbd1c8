//! The rate of each UE over 10 s, and what the highest class waits in overload: on simulated time alone.

use std::time::Duration;

use flow::Nanos;
use flow::meter::{Colour, Rate};
use hdrhistogram::Histogram;
use tm::{
    Arrival, Class, Departure, Ecn, Limits, Manager, NodeId, NodeSpec, QueueId, QueueSpec, Shaper, UeSpec,
};

use super::super::error::BenchError;
use super::Arguments;
use super::load::{ALL_KBIT, manager};
use super::outcome::{Rates, Waits};

const OCTETS: u16 = 1_024;
/// The rate of each UE, in kbit/s.
const KBIT: u64 = 610;
/// The windows over which rates are taken.
const WINDOW: Duration = Duration::from_secs(10);
/// Between two looks at the manager, in nanoseconds.
const STEP: u64 = 20_000;

fn arrival(queue: QueueId, octets: u16) -> Arrival {
    Arrival {
        queue,
        octets,
        colour: Colour::Green,
        ecn: Ecn::NotEct,
    }
}

/// All UEs always have packets; two windows.
pub fn rates(arguments: &Arguments) -> Result<Rates, BenchError> {
    let ues = (arguments.queues / 2).min(arguments.rated);
    let (mut manager, port, ids) = manager(ues * 2, ues * 4).map_err(BenchError::of)?;
    let shaper = Shaper {
        rate: Rate::from_kbit(KBIT),
        burst: 0,
    };
    for id in &ids {
        manager
            .set_ue_rate(*id, shaper, Nanos::ZERO)
            .map_err(BenchError::of)?;
        for _ in 0..2 {
            let answer = manager.enqueue(&arrival(QueueId { ue: *id, place: 1 }, OCTETS), Nanos::ZERO);
            answer.map_err(|reason| BenchError(format!("a packet was refused: {reason:?}")))?;
        }
    }
    let mut worst: f64 = 0.0;
    let mut now = pass(&mut manager, port, 0, 1_000_000_000, &mut vec![0; ues as usize]);
    for _ in 0..2 {
        let mut octets = vec![0_u64; ues as usize];
        now = pass(&mut manager, port, now, WINDOW.as_nanos() as u64, &mut octets);
        let earned = (KBIT * WINDOW.as_nanos() as u64 / 8_000_000) as f64;
        let errors = octets.iter().map(|sent| (*sent as f64 - earned).abs() / earned);
        worst = errors.fold(worst, f64::max);
    }
    Ok(Rates {
        ues,
        kbit: KBIT,
        worst,
        of_a_packet: f64::from(OCTETS) * 8_000_000.0 / (KBIT * WINDOW.as_nanos() as u64) as f64,
    })
}

/// Lets time pass; what leaves is queued again.
fn pass(manager: &mut Manager, port: NodeId, from: u64, time: u64, octets: &mut [u64]) -> u64 {
    let mut now = from;
    let mut out = [Departure::NONE; 64];
    while now < from + time {
        now += STEP;
        loop {
            let count = manager.dequeue(port, Nanos(now), &mut out);
            for of in &out[..count] {
                octets[of.queue.ue.0 as usize] += u64::from(of.octets);
                // It has just left room for itself.
                let _ = manager.enqueue(&arrival(of.queue, of.octets), Nanos(now));
            }
            if count < out.len() {
                break;
            }
        }
    }
    now
}

/// A port at 1.5 times its rate: a tenth of the packets is of the highest class, at random.
pub fn waits(arguments: &Arguments) -> Result<Waits, BenchError> {
    let ues = (arguments.queues / 2).min(1_024);
    let mut manager = Manager::new(Limits::new(ues, ues * 2, ues * 16)).map_err(BenchError::of)?;
    let shaper = |kbit| Shaper {
        rate: Rate::from_kbit(kbit),
        burst: 0,
    };
    let node = NodeSpec {
        parent: None,
        shaper: shaper(ALL_KBIT),
        weight: 1,
        overhead: 0,
    };
    let port = manager.add_node(node).map_err(BenchError::of)?;
    for _ in 0..ues {
        let ue = manager.add_ue(UeSpec {
            node: port,
            shaper: Shaper::UNLIMITED,
        });
        let ue = ue.map_err(BenchError::of)?;
        for class in [0, 5] {
            let spec = QueueSpec::new(Class::new(class), 4 * u32::from(OCTETS));
            manager.add_queue(ue, &spec).map_err(BenchError::of)?;
        }
    }
    // A packet takes 204.8 ns; what is offered comes at random, 1.5 of them in that time.
    let packet = u64::from(OCTETS) * 8_000_000 / ALL_KBIT;
    let mut histogram = Histogram::<u64>::new(3).map_err(BenchError::of)?;
    let (mut random, mut now, mut due, mut offered) = (0x2545_f491_4f6c_dd1d_u64, 0, 0, 0_u64);
    let mut urgent_lost = 0;
    let all = if arguments.rated > 10_000 {
        4_000_000
    } else {
        400_000
    };
    while offered < all {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let drawn = random >> 33;
        let queue = QueueId {
            ue: tm::UeId((drawn % u64::from(ues)) as u32),
            place: u8::from(!(drawn >> 12).is_multiple_of(10)),
        };
        // On the mean two thirds of a packet's time.
        now += (random >> 17) % (packet * 4 / 3);
        while due <= now {
            let mut out = [Departure::NONE];
            if manager.dequeue(port, Nanos(due), &mut out) == 1
                && out[0].queue.place == 0
                && offered > all / 10
            {
                histogram.saturating_record(out[0].sojourn);
            }
            due += packet / 4;
        }
        let answer = manager.enqueue(&arrival(queue, OCTETS), Nanos(now));
        urgent_lost += u64::from(answer.is_err() && queue.place == 0);
        offered += 1;
    }
    Ok(Waits {
        packets: histogram.len(),
        lost: urgent_lost,
        p50: histogram.value_at_quantile(0.5) as f64 / packet as f64,
        p99: histogram.value_at_quantile(0.99) as f64 / packet as f64,
        max: histogram.max() as f64 / packet as f64,
    })
}
