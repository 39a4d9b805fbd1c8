//! Usage of sessions that are gone as records: there and back, and to the octet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use flow::{Nanos, UrrCount};
use proptest::prelude::*;
use rules::model::{MeasurementMethod, UrrId};
use session::*;

use crate::support::fleet::network;
use crate::transfer::{STARTED, any_pending, frame};

fn any_unacknowledged() -> impl Strategy<Value = UnacknowledgedUsage> {
    let node = prop::collection::vec(any::<u8>(), 0..9);
    let cp = any::<Option<(u64, Option<Ipv4Addr>, Option<Ipv6Addr>)>>();
    let request = prop::collection::vec(any::<u8>(), 0..40);
    let numbers = any::<(u64, u16, IpAddr, u16)>();
    (node, cp, request, numbers, any_pending()).prop_map(
        |(association, cp, request, (seid, part, address, port), pending)| UnacknowledgedUsage {
            association,
            seid: Seid(seid),
            part,
            cp: cp.map(|(seid, ipv4, ipv6)| CpFSeid { seid, ipv4, ipv6 }),
            peer: SocketAddr::new(address, port),
            request,
            usage: pending.usage,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn unacknowledged_usage_is_read_as_it_was_written(usage in any_unacknowledged()) {
        let wall = WallClock::starting(STARTED);
        let octets = usage.encode(&wall).unwrap();
        prop_assert_eq!(UnacknowledgedUsage::decode(&octets, &wall), Ok(usage.clone()));
        let network = network();
        let (record, _) = Record::decode(&octets, frame(&network, &wall)).unwrap();
        prop_assert_eq!(record, Record::Usage(Box::new(usage)));
        prop_assert!(ResponseRecord::decode(&octets).is_err());
    }
}

/// What version 1 looks like, to the octet: a change here breaks every record that there is.
#[test]
fn unacknowledged_usage_of_version_1_stays_as_it_is() {
    let usage = UnacknowledgedUsage {
        association: b"\x02\x03smf".to_vec(),
        seid: Seid(0x0102_0304_0506_0708),
        part: 3,
        cp: Some(CpFSeid {
            seid: 9,
            ipv4: Some(Ipv4Addr::new(192, 0, 2, 1)),
            ipv6: None,
        }),
        peer: ([192, 0, 2, 1], 8805).into(),
        request: b"a request".to_vec(),
        usage: vec![UsageReport {
            urr: UrrId(7),
            method: MeasurementMethod::VOLUM,
            sequence: 5,
            triggers: UsageTriggers::TERMR,
            count: UrrCount {
                ul_packets: 1,
                ul_octets: 1_000,
                dl_packets: 2,
                dl_octets: 3_000,
                events: 0,
            },
            start: Nanos::from_secs(1).into(),
            end: Nanos::from_secs(9).into(),
            duration: Some(Seconds(8)),
            first: None,
            last: Some(Nanos::from_secs(8).into()),
            information: None,
            before_qos: None,
            reports_packets: true,
        }],
    };
    let wall = WallClock::starting(STARTED);
    let octets = usage.encode(&wall).unwrap();
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/records/unacknowledged_usage_v1.bin"
    );
    if std::env::var_os("SLUICE_GOLDEN").is_some_and(|how| how == "write") {
        std::fs::write(path, &octets).unwrap();
    }
    let kept = std::fs::read(path).unwrap();
    assert_eq!(octets, kept);
    assert_eq!(UnacknowledgedUsage::decode(&kept, &wall), Ok(usage));
}
