//! A tiny run: nothing conforming is lost, and rates and priorities are kept.

use super::*;

#[test]
fn conforming_packets_pass_and_all_ues_get_their_rates() {
    let arguments = Arguments {
        queues: 2_048,
        pairs: 1,
        rated: 64,
        window: 2.0,
        seconds: 0.01,
    };
    let results = alone(&arguments, &Progress::silent()).unwrap();
    assert_eq!(results.costs.len(), 8);
    for cost in &results.costs {
        assert!(cost.nanos.median > 0.0, "{cost:?}");
        assert!(cost.lost == 0 || cost.load > 1.0, "{cost:?}");
    }
    assert!(results.rates.worst <= 0.01, "{:?}", results.rates);
    assert!(
        results.waits.packets > 10_000 && results.waits.lost == 0,
        "{:?}",
        results.waits
    );
    assert!(results.waits.p99 <= 2.0, "{:?}", results.waits);
    let found = targets(&results);
    assert_eq!(found.len(), 8);
    assert!(
        found
            .iter()
            .filter(|of| !["T9.cost", "T9.growth", "T9.whole"].contains(&of.id))
            .all(|of| of.at_least || of.value <= of.target),
        "{found:#?}"
    );
    assert_eq!((rows(&results).len(), lines(&results).len()), (8, 16));
    let of_worker = &results.in_worker;
    assert_eq!(of_worker.sessions, 1_024);
    let [half, full] = &of_worker.costs[..] else {
        panic!("two loads: {of_worker:?}")
    };
    assert!(half.lost == 0 && full.lost == 0, "{of_worker:?}");
    assert!(half.held < u64::from(of_worker.sessions), "{half:?}");
    assert!(
        full.held >= 2 * u64::from(of_worker.sessions),
        "all wait: {full:?}"
    );
    assert!(half.offered > 0 && half.with.median > 0.0 && full.with.median > 0.0);
    assert_eq!(of_worker.rates.ues, 1_024);
    assert!(of_worker.rates.worst <= 0.01, "{:?}", of_worker.rates);
}
