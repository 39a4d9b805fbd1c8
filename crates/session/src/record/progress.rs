//! What URRs have measured since their session's record was written, as octets of a store: written often, and small.

use flow::UrrCount;
use rules::model::UrrId;
use serde::{Deserialize, Serialize};
use usage::{UrrProgress, WallClock};

use super::error::RecordError;
use super::plain;

/// The version of the form, its first octet.
const VERSION: u8 = 1;

#[derive(Serialize, Deserialize)]
struct Progress {
    urr: u32,
    next: u32,
    /// Nanoseconds since 1970.
    since: u64,
    unit: u64,
    /// Packets and octets uplink, packets and octets downlink, events.
    count: [u64; 5],
}

/// The octets of the progress of a session's URRs.
///
/// # Errors
/// None is known: numbers of any size can be written.
pub fn encode_progress(all: &[UrrProgress], wall: &WallClock) -> Result<Vec<u8>, RecordError> {
    let progress = |one: &UrrProgress| Progress {
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
    };
    let all: Vec<Progress> = all.iter().map(progress).collect();
    plain::encode(&(VERSION, all), "progress")
}

/// Reads what [`encode_progress`] has written.
///
/// # Errors
/// The octets are no progress of a version that is known.
pub fn decode_progress(octets: &[u8], wall: &WallClock) -> Result<Vec<UrrProgress>, RecordError> {
    if octets.first() != Some(&VERSION) {
        return Err(RecordError::Malformed("version of progress"));
    }
    let (_, all) = *plain::decode::<(u8, Vec<Progress>)>(octets, "progress")?;
    let progress = |one: Progress| {
        let [ul_packets, ul_octets, dl_packets, dl_octets, events] = one.count;
        UrrProgress {
            urr: UrrId(one.urr),
            next: one.next,
            since: wall.moment(one.since),
            unit: one.unit,
            count: UrrCount {
                ul_packets,
                ul_octets,
                dl_packets,
                dl_octets,
                events,
            },
        }
    };
    Ok(all.into_iter().map(progress).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use usage::Moment;

    #[test]
    fn progress_comes_back_as_it_was() {
        let wall = WallClock::starting(1_700_000_000_000_000_000);
        let all = vec![UrrProgress {
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
        }];
        let octets = encode_progress(&all, &wall).unwrap();
        assert_eq!(decode_progress(&octets, &wall), Ok(all));
        let mut other = octets.clone();
        other[0] = 2;
        assert!(decode_progress(&other, &wall).is_err());
        assert!(decode_progress(&octets[..octets.len() - 1], &wall).is_err());
    }
}
