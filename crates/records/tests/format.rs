//! The lines, to the octet, and what is reported of lines that are none.

mod support;

use proptest::prelude::*;
use records::*;
use support::*;

fn line(seq: u64, entry: &Entry) -> String {
    let mut line = Vec::new();
    assert!(seal(seq, entry, &mut line));
    String::from_utf8(line).unwrap()
}

#[test]
fn a_usage_record_is_this_line() {
    assert_eq!(
        line(42, &usage(3)),
        concat!(
            r#"{"crc":"8bf11dde","seq":42,"type":"usage","session":{"node":"upf.example","smf":"smf.example","#,
            r#""seid":"0x8f3c21b09d4e7a65","cp_seid":"0x0000000000000007","cp_ipv4":"10.100.0.2","#,
            r#""imsi":"001010123456789","msisdn":"491700000001","dnn":"internet","#,
            r#""s_nssai":{"sst":1,"sd":"00000a"},"ue":["10.45.0.2","2001:db8:45::/64"],"#,
            r#""instances":["access","internet"]},"urr":1,"ur_seqn":3,"triggers":["IMMER"],"#,
            r#""volumes":{"ul_octets":300,"dl_octets":200,"total_octets":500,"ul_packets":3,"dl_packets":2},"#,
            r#""start_ms":1700000000000,"end_ms":1700000010500}"#,
            "\n"
        )
    );
}

#[test]
fn a_content_record_is_this_line() {
    let content = Entry::Content(Box::new(Content {
        subject: Subject {
            node: "192.0.2.1".into(),
            seid: 1,
            cp_seid: 2,
            ..Subject::default()
        },
        name: Some("video".into()),
        rating_group: Some(100),
        service_id: None,
        volumes: Volumes::new([4, 5], [6, 7]),
        start_ms: 1,
        end_ms: 2,
    }));
    assert_eq!(
        line(1, &content),
        concat!(
            r#"{"crc":"edb4dcee","seq":1,"type":"content","session":{"node":"192.0.2.1","#,
            r#""seid":"0x0000000000000001","cp_seid":"0x0000000000000002"},"content":"video","rating_group":100,"#,
            r#""volumes":{"ul_octets":4,"dl_octets":5,"total_octets":9,"ul_packets":6,"dl_packets":7},"#,
            r#""start_ms":1,"end_ms":2}"#,
            "\n"
        )
    );
}

#[test]
fn what_happens_to_sessions_reports_and_processes_are_these_lines() {
    let subject = || Subject {
        node: "192.0.2.1".into(),
        seid: 1,
        cp_seid: 2,
        ..Subject::default()
    };
    let volumes = Volumes::new([4, 5], [6, 7]);
    let entries = [
        Entry::SessionStart(Box::new(SessionStart {
            subject: subject(),
            time_ms: 3,
            start_ms: 1,
            imported: true,
            pdrs: 2,
            qers: 1,
            urrs: vec![1, 7],
        })),
        Entry::Unreported(Box::new(Unreported {
            subject: subject(),
            urr: 7,
            ur_seqn: 5,
            triggers: vec!["VOLTH".into()],
            volumes,
            start_ms: 1,
            end_ms: 2,
            time_ms: 3,
            outcome: Outcome::Refused,
            cause: Some(69),
        })),
        Entry::SessionLeft(Box::new(SessionLeft {
            subject: subject(),
            time_ms: 3,
            start_ms: 1,
            usage_records: 4,
            volumes,
        })),
        Entry::ProcessStart(ProcessStart {
            time_ms: 3,
            node: "192.0.2.1".into(),
            version: "0.1.0".into(),
        }),
    ];
    let lines = [
        concat!(
            r#"{"crc":"95d80181","seq":0,"type":"session_start","session":{"node":"192.0.2.1","seid":"0x0000000000000001","cp_seid":"0x0000000000000002"},"time_ms":3,"start_ms":1,"imported":true,"pdrs":2,"qers":1,"urrs":[1,7]}"#,
            "\n"
        ),
        concat!(
            r#"{"crc":"a3ae089a","seq":1,"type":"unreported","session":{"node":"192.0.2.1","seid":"0x0000000000000001","cp_seid":"0x0000000000000002"},"urr":7,"ur_seqn":5,"triggers":["VOLTH"],"volumes":{"ul_octets":4,"dl_octets":5,"total_octets":9,"ul_packets":6,"dl_packets":7},"start_ms":1,"end_ms":2,"time_ms":3,"outcome":"refused","cause":69}"#,
            "\n"
        ),
        concat!(
            r#"{"crc":"a2bf2dd2","seq":2,"type":"session_left","session":{"node":"192.0.2.1","seid":"0x0000000000000001","cp_seid":"0x0000000000000002"},"time_ms":3,"start_ms":1,"usage_records":4,"volumes":{"ul_octets":4,"dl_octets":5,"total_octets":9,"ul_packets":6,"dl_packets":7}}"#,
            "\n"
        ),
        concat!(
            r#"{"crc":"86216c3a","seq":3,"type":"process_start","time_ms":3,"node":"192.0.2.1","version":"0.1.0"}"#,
            "\n"
        ),
    ];
    for ((seq, entry), expected) in (0..).zip(&entries).zip(lines) {
        assert_eq!(line(seq, entry), expected);
        assert_eq!(open(expected.trim_end().as_bytes()), Ok((seq, entry.clone())));
        assert_eq!(entry.time_ms(), 3);
    }
}

#[test]
fn the_end_of_a_session_and_a_loss_are_these_lines() {
    let end = Entry::SessionEnd(Box::new(SessionEnd {
        subject: Subject {
            node: "192.0.2.1".into(),
            seid: 1,
            cp_seid: 2,
            ..Subject::default()
        },
        cause: EndCause::AssociationEnded,
        start_ms: 1,
        end_ms: 2,
        usage_records: 3,
        volumes: Volumes::new([4, 5], [6, 7]),
    }));
    assert_eq!(
        line(0, &end),
        concat!(
            r#"{"crc":"f46f5994","seq":0,"type":"session_end","session":{"node":"192.0.2.1","#,
            r#""seid":"0x0000000000000001","cp_seid":"0x0000000000000002"},"cause":"association_ended","#,
            r#""start_ms":1,"end_ms":2,"usage_records":3,"#,
            r#""volumes":{"ul_octets":4,"dl_octets":5,"total_octets":9,"ul_packets":6,"dl_packets":7}}"#,
            "\n"
        )
    );
    let lost = Entry::Lost(Lost {
        time_ms: 9,
        first: 5,
        records: 2,
        cause: LossCause::UncleanEnd,
    });
    assert_eq!(
        line(7, &lost),
        concat!(
            r#"{"crc":"09739362","seq":7,"type":"lost","time_ms":9,"first":5,"records":2,"cause":"unclean_end"}"#,
            "\n"
        )
    );
}

#[test]
fn a_record_that_no_line_is_long_enough_for_is_left_out() {
    let Entry::Usage(mut long) = usage(1) else {
        unreachable!()
    };
    long.subject.dnn = Some("x".repeat(LONGEST_LINE));
    let mut octets = b"before".to_vec();
    assert!(!seal(1, &Entry::Usage(long), &mut octets));
    assert_eq!(octets, b"before");
}

proptest! {
    #[test]
    fn what_is_written_is_read_and_one_wrong_octet_is_found(seq: u64, number in 0..u64::MAX / 200, at: prop::sample::Index, to: u8) {
        let entry = usage(number);
        let mut octets = line(seq, &entry).into_bytes();
        octets.pop();
        prop_assert_eq!(open(&octets), Ok((seq, entry)));
        let at = at.index(octets.len());
        prop_assume!(octets[at] != to);
        octets[at] = to;
        prop_assert!(open(&octets).is_err());
    }

    #[test]
    fn no_octets_are_too_strange(octets: Vec<u8>) {
        let _ = open(&octets);
        for item in Reader::new(octets.as_slice()) {
            prop_assert!(matches!(item.unwrap(), Item::Bad(..)));
        }
    }
}

#[test]
fn gaps_in_record_numbers_are_reported() {
    let mut audit = Audit::default();
    let lost = |first, records| {
        Entry::Lost(Lost {
            time_ms: 0,
            first,
            records,
            cause: LossCause::NoRoom,
        })
    };
    assert_eq!(audit.take(10, &usage(1)), None, "files before it are gone");
    assert_eq!(audit.take(11, &usage(1)), None);
    assert_eq!(audit.take(14, &usage(1)), Some(Break::Missing(12, 2)));
    assert_eq!(audit.take(14, &usage(1)), Some(Break::Repeated(14)));
    assert_eq!(audit.take(20, &lost(15, 5)), Some(Break::Lost(15, 5)));
    assert_eq!(audit.take(21, &usage(1)), None);
    assert_eq!(
        audit.take(25, &lost(23, 2)),
        Some(Break::Missing(22, 3)),
        "it does not say all"
    );
    assert_eq!((audit.missing, audit.repeated, audit.lost), (5, 1, 7));
    assert!(!audit.is_sound());
}
