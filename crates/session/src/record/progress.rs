//! What a session has counted since its record was written, as octets of a store: written often, and small.

use flow::meter::{PacketRate, PacketState, PacketsPer, TimeUnit, Window};
use flow::{Nanos, UrrCount};
use rules::image::PacketsLeft;
use rules::model::{PacketRates, QerId, UrrId};
use serde::{Deserialize, Serialize};
use usage::{UrrProgress, WallClock};

use super::error::RecordError;
use super::plain;
use super::types::SessionRecord;

/// The version of the form, its first octet.
const VERSION: u8 = 2;
/// The version before, which knew no packet rates. It is written where there are none, for builds that read no other.
const WITHOUT_PACKETS: u8 = 1;

/// What a session has counted since its record was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionProgress {
    /// Of its URRs.
    pub urrs: Vec<UrrProgress>,
    /// Of its packet rates.
    pub packets: Vec<PacketsProgress>,
}

/// What is left of a QER's packet rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketsProgress {
    /// The rates. Of others nothing follows.
    pub rates: PacketRates,
    /// What is left of them.
    pub left: PacketsLeft,
}

impl SessionProgress {
    /// Whether it says nothing.
    pub const fn is_empty(&self) -> bool {
        self.urrs.is_empty() && self.packets.is_empty()
    }

    /// Reads what [`encode`](Self::encode) has written, in this version or the one before.
    ///
    /// # Errors
    /// The octets are no progress of a version that is known.
    pub fn decode(octets: &[u8], wall: &WallClock) -> Result<Self, RecordError> {
        let what = "progress";
        let (urrs, packets) = match octets.first() {
            Some(&VERSION) => {
                let (_, urrs, packets) = *plain::decode::<(u8, Vec<Urr>, Vec<Packets>)>(octets, what)?;
                (urrs, packets)
            }
            Some(&WITHOUT_PACKETS) => (plain::decode::<(u8, Vec<Urr>)>(octets, what)?.1, Vec::new()),
            _ => return Err(RecordError::Malformed("version of progress")),
        };
        Ok(Self {
            urrs: urrs.iter().map(|one| one.read(wall)).collect(),
            packets: packets.iter().map(|one| one.read(wall)).collect(),
        })
    }

    /// The octets of it.
    ///
    /// # Errors
    /// None is known: numbers of any size can be written.
    pub fn encode(&self, wall: &WallClock) -> Result<Vec<u8>, RecordError> {
        let urrs: Vec<Urr> = self.urrs.iter().map(|one| Urr::of(one, wall)).collect();
        if self.packets.is_empty() {
            return plain::encode(&(WITHOUT_PACKETS, urrs), "progress");
        }
        let packets: Vec<Packets> = self.packets.iter().map(|one| Packets::of(one, wall)).collect();
        plain::encode(&(VERSION, urrs, packets), "progress")
    }
}

impl SessionRecord {
    /// Takes over what the session has counted since: of URRs in the same measurement, and of packet rates that are
    /// the same.
    pub fn advance(&mut self, progress: &SessionProgress) {
        for checkpoint in &mut self.checkpoints {
            progress.urrs.iter().for_each(|one| checkpoint.advance(one));
        }
        let is_current = |one: &&PacketsProgress| {
            self.rules
                .packet_rated()
                .any(|rated| rated == (one.left.qer, one.rates))
        };
        for PacketsProgress { rates, left } in progress.packets.iter().filter(is_current) {
            match self.packets.iter_mut().find(|known| known.qer == left.qer) {
                Some(known) => join(known, left, *rates),
                None => self.packets.push(*left),
            }
        }
    }
}

/// Lets `known` be what two records together say is left of the same rates.
fn join(known: &mut PacketsLeft, other: &PacketsLeft, rates: PacketRates) {
    let rates = [rates.ul, rates.dl];
    for ((known, other), rate) in known.states.iter_mut().zip(&other.states).zip(rates) {
        let Some(rate) = rate else { continue };
        known.base = later(known.base, other.base, rate.base);
        if let Some(additional) = rate.additional {
            known.additional = later(known.additional, other.additional, additional);
        }
    }
}

/// The later window of two. Both are the same if their ends differ by less than a unit of time, as dates of one moment
/// do after the host's clock was set: then the one in which less is left is the later look. One that ends at 0 has not
/// begun, or ended before the process's clock began: the other one counts.
fn later(a: Window, b: Window, rate: PacketsPer) -> Window {
    if a.ends == Nanos::ZERO {
        return b;
    }
    if b.ends == Nanos::ZERO {
        return a;
    }
    let (ends, other) = (a.ends.max(b.ends), a.ends.min(b.ends));
    let left = if ends.0 - other.0 < rate.unit.nanos() {
        a.left.min(b.left)
    } else if a.ends > b.ends {
        a.left
    } else {
        b.left
    };
    Window { left, ends }
}

#[derive(Serialize, Deserialize)]
struct Urr {
    urr: u32,
    next: u32,
    /// Nanoseconds since 1970.
    since: u64,
    unit: u64,
    /// Packets and octets uplink, packets and octets downlink, events.
    count: [u64; 5],
}

impl Urr {
    fn of(one: &UrrProgress, wall: &WallClock) -> Self {
        Self {
            urr: one.urr.0,
            next: one.next,
            since: wall.unix_nanos(one.since),
            unit: one.unit,
            count: [
                one.count.ul_packets,
                one.count.ul_octets,
                one.count.dl_packets,
                one.count.dl_octets,
                one.count.events,
            ],
        }
    }

    fn read(&self, wall: &WallClock) -> UrrProgress {
        let [ul_packets, ul_octets, dl_packets, dl_octets, events] = self.count;
        UrrProgress {
            urr: UrrId(self.urr),
            next: self.next,
            since: wall.moment(self.since),
            unit: self.unit,
            count: UrrCount {
                ul_packets,
                ul_octets,
                dl_packets,
                dl_octets,
                events,
            },
        }
    }
}

/// Packets in a unit of time (TS 29.244 Table 8.2.63.1).
type Per = (u16, u8);

#[derive(Serialize, Deserialize)]
struct Packets {
    qer: u32,
    /// Uplink and downlink: the rate, and the additional one.
    rates: [Option<(Per, Option<Per>)>; 2],
    /// Uplink and downlink, of the rate and of the additional one: packets left, and the end of the unit of time in
    /// nanoseconds since 1970, or 0.
    left: [[(u16, u64); 2]; 2],
}

impl Packets {
    fn of(one: &PacketsProgress, wall: &WallClock) -> Self {
        let PacketsProgress { rates, left } = one;
        let per = |rate: PacketsPer| (rate.packets, rate.unit.value());
        let rate = |rate: PacketRate| (per(rate.base), rate.additional.map(per));
        let window = |window: Window| match window.ends {
            Nanos::ZERO => (window.left, 0),
            ends => (window.left, wall.unix_nanos(ends.into())),
        };
        Self {
            qer: left.qer.0,
            rates: [rates.ul, rates.dl].map(|one| one.map(rate)),
            left: left
                .states
                .map(|state| [state.base, state.additional].map(window)),
        }
    }

    fn read(&self, wall: &WallClock) -> PacketsProgress {
        let per = |(packets, unit)| PacketsPer {
            packets,
            unit: TimeUnit::from_value(unit),
        };
        let rate = |(base, additional): (Per, Option<Per>)| PacketRate {
            base: per(base),
            additional: additional.map(per),
        };
        let window = |(left, date)| Window {
            left,
            // What ended before the process's clock began is over.
            ends: match date {
                0 => Nanos::ZERO,
                date => wall.moment(date).on_clock(),
            },
        };
        let [ul, dl] = self.rates.map(|one| one.map(rate));
        let states = self.left.map(|windows| {
            let [base, additional] = windows.map(window);
            PacketState { base, additional }
        });
        PacketsProgress {
            rates: PacketRates { ul, dl },
            left: PacketsLeft {
                qer: QerId(self.qer),
                states,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use usage::Moment;

    const MINUTE: u64 = 60_000_000_000;

    fn per(packets: u16) -> PacketsPer {
        PacketsPer {
            packets,
            unit: TimeUnit::Minute,
        }
    }

    fn window(left: u16, ends: u64) -> Window {
        Window {
            left,
            ends: Nanos(ends),
        }
    }

    fn progress() -> SessionProgress {
        let rates = PacketRates {
            ul: None,
            dl: Some(PacketRate {
                base: per(10),
                additional: Some(PacketsPer {
                    packets: 3,
                    unit: TimeUnit::Week,
                }),
            }),
        };
        let state = PacketState {
            base: window(9, 70 * MINUTE),
            additional: window(3, 0),
        };
        SessionProgress {
            urrs: vec![UrrProgress {
                urr: UrrId(7),
                next: 3,
                since: Moment(-5_000_000_000),
                unit: 1_000_000_000,
                count: UrrCount {
                    ul_packets: 1,
                    ul_octets: u64::MAX,
                    dl_packets: 2,
                    dl_octets: 3,
                    events: 4,
                },
            }],
            packets: vec![PacketsProgress {
                rates,
                left: PacketsLeft {
                    qer: QerId(4),
                    states: [PacketState::default(), state],
                },
            }],
        }
    }

    #[test]
    fn progress_comes_back_as_it_was() {
        let wall = WallClock::starting(1_700_000_000);
        let octets = progress().encode(&wall).unwrap();
        assert_eq!(SessionProgress::decode(&octets, &wall), Ok(progress()));
        let mut other = octets.clone();
        other[0] = 3;
        assert!(SessionProgress::decode(&other, &wall).is_err());
        assert!(SessionProgress::decode(&octets[..octets.len() - 1], &wall).is_err());
    }

    #[test]
    fn what_has_no_packet_rates_is_as_in_the_version_before() {
        // As version 1 wrote it: a URR, no packet rates.
        let octets = b"\x01\x01\x07\x03\x80\x9c\x90\xe1\xd0\x9f\xe7\xcb\x17\x80\x94\xeb\xdc\x03\x01\xff\xff\xff\xff\xff\
                       \xff\xff\xff\xff\x01\x02\x03\x04";
        let wall = WallClock::starting(1_700_000_000);
        let known = SessionProgress {
            packets: Vec::new(),
            ..progress()
        };
        assert_eq!(known.encode(&wall).as_deref(), Ok(&octets[..]));
        assert_eq!(SessionProgress::decode(octets, &wall), Ok(known));
    }

    #[test]
    fn of_two_records_of_a_window_the_one_with_less_left_counts_and_of_two_windows_the_later() {
        let both = |a, b| {
            let ab = later(a, b, per(10));
            assert_eq!(ab, later(b, a, per(10)), "in any order");
            ab
        };
        let (early, late) = (window(2, 70 * MINUTE), window(9, 71 * MINUTE));
        assert_eq!(both(early, late), late);
        assert_eq!(both(window(5, 70 * MINUTE), early), early);
        let soon = window(9, MINUTE / 2);
        assert_eq!(both(window(0, 0), soon), soon, "over, or not begun");
        assert_eq!(
            both(window(5, 70 * MINUTE + 3), early),
            window(2, 70 * MINUTE + 3),
            "dates that differ a little"
        );
    }
}
