//! A tiny run: nothing conforming is lost, and rates and priorities are kept.

use super::*;

#[test]
fn conforming_packets_pass_and_all_ues_get_their_rates() {
    let arguments = Arguments {
        queues: 2_048,
        pairs: 1,
        rated: 64,
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
    assert_eq!(found.len(), 5);
    assert!(
        found
            .iter()
            .skip(2)
            .all(|of| of.at_least || of.value <= of.target),
        "{found:#?}"
    );
    assert_eq!((rows(&results).len(), lines(&results).len()), (8, 12));
}
