//! WRED of the manager against DPDK's `rte_red`: the same packets, the same random numbers.

use dpdk::{Red, RedConfig, RedOutcome};
use proptest::prelude::*;
use tm::{AqmTimes, RedCurve, RedVerdict, Wred, WredProfile, WredState};

proptest! {
    #[test]
    fn packets_meet_with_what_rte_red_has_for_them(
        wq_log2 in 1_u16..=12, min_th in 0_u16..900, more in 1_u16..=123, maxp_inv in 1_u16..=255,
        steps in prop::collection::vec((1_u32..1_024, any::<u32>()), 1..600),
    ) {
        let max_th = min_th + more;
        let mut theirs = Red::new(RedConfig { wq_log2, min_th, max_th, maxp_inv });
        let curve = RedCurve { min: min_th.into(), max: max_th.into(), one_in: maxp_inv as u8 };
        let profile = WredProfile { green: curve, yellow: curve, weight_log2: wq_log2 as u8 };
        let wred = Wred::new(&profile, &AqmTimes::STANDARD);
        let mut ours = WredState::default();
        for (length, random) in steps {
            let expected = match theirs.enqueue(length, random) {
                Ok(RedOutcome::Taken) => RedVerdict::Pass,
                Ok(RedOutcome::ByChance) => RedVerdict::Early,
                Ok(RedOutcome::AboveMaximum) => RedVerdict::Above,
                Err(error) => panic!("{error}"),
            };
            let found = wred.judge(&mut ours, true, length, 0, random.into());
            prop_assert_eq!(found, expected);
            prop_assert_eq!(wred.average(&ours), u64::from(theirs.average()));
        }
    }
}
