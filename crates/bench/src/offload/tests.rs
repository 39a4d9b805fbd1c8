//! A tiny run: all packets pass, and all are counted.

use super::*;

#[test]
fn sessions_leave_flows_come_and_all_packets_are_counted() {
    let arguments = Arguments {
        sessions: 256,
        flows: 256,
        rate: 20_000,
        pairs: 2,
        ends: 1,
        few: 64,
        seconds: 0.01,
    };
    let results = measure_by_turns(&arguments, &Progress::silent()).unwrap();
    assert!(results.flows == 256 * 256, "{results:#?}");
    assert!(
        results.installs.flows > 40_000 && results.installs.host.count > 0,
        "{results:#?}"
    );
    let beside = &results.beside;
    assert!(
        beside.kept.count == 2 && beside.kept.max.is_finite() && beside.rate > 0.0,
        "{beside:?}"
    );
    assert_eq!(results.beside.dropped, 0, "{results:#?}");
    let lossy = results.lossy;
    assert!(lossy.passed > 0 && lossy.control_lost > 0, "{lossy:?}");
    assert_eq!((lossy.counted, lossy.contacts), (lossy.passed, 1), "{lossy:?}");
    let [end] = results.ended[..] else {
        panic!("one end")
    };
    assert!(
        end.counted <= end.passed && end.passed - end.counted <= u64::from(results.bound),
        "{end:?}"
    );
    assert!(end.first_ms <= end.most_ms);
    let ids: Vec<&str> = targets(&results).iter().map(|target| target.id).collect();
    assert_eq!(ids.len(), 8, "{ids:?}");
    assert_eq!((rows(&results).len(), lines(&results).len()), (7, 17));
}
