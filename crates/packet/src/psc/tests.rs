use super::*;

fn qfi(value: u8) -> Qfi {
    Qfi::new(value).expect("0..=63")
}

fn round_trip(container: PduSessionContainer, octets: &[u8]) {
    let mut out = [0xee; 128];
    assert_eq!(container.write(&mut out), Some(octets.len()));
    assert_eq!(&out[..octets.len()], octets);
    assert_eq!(PduSessionContainer::parse(octets), Ok(container));
    assert_eq!(Summary::parse(octets), Ok((container.qfi(), container.summary())));
    let longer = [octets, &[0xff; 8]].concat();
    assert_eq!(PduSessionContainer::parse(&longer), Ok(container));
    for short in 0..octets.len() {
        assert_eq!(container.write(&mut out[..short]), None);
        // What is missing is either padding or a field.
        let read = PduSessionContainer::parse(&octets[..short]);
        assert!(read == Ok(container) || read == Err(DropReason::BadPduSessionContainer));
    }
}

#[test]
fn minimal_containers() {
    round_trip(
        PduSessionContainer::Uplink(Uplink {
            qfi: qfi(9),
            ..Uplink::default()
        }),
        &[0x10, 9],
    );
    let downlink = Downlink {
        qfi: qfi(9),
        ..Downlink::default()
    };
    round_trip(PduSessionContainer::Downlink(downlink), &[0, 9]);
    round_trip(
        PduSessionContainer::Downlink(Downlink {
            rqi: true,
            ..downlink
        }),
        &[0, 0x49],
    );
    let paging = Downlink {
        ppi: Ppi::new(3),
        ..downlink
    };
    round_trip(PduSessionContainer::Downlink(paging), &[0, 0x89, 0x60, 0, 0, 0]);
}

#[test]
fn a_downlink_container_with_every_field() {
    let downlink = Downlink {
        qfi: qfi(63),
        rqi: true,
        ppi: Ppi::new(7),
        sending_time: Some(NtpTimestamp(0x0102_0304_0506_0708)),
        sequence: Some(0x0a_0b0c),
        mbs_sequence: Some(0x1112_1314),
        burst_size: Some(0x2a_2b2c),
        time_to_next_burst: Some(0x3132),
    };
    let octets = [
        0x0e, 0xff, 0xe3, 1, 2, 3, 4, 5, 6, 7, 8, 0x0a, 0x0b, 0x0c, 0x11, 0x12, 0x13, 0x14, 0x2a, 0x2b, 0x2c,
        0x31, 0x32, 0, 0, 0,
    ];
    round_trip(PduSessionContainer::Downlink(downlink), &octets);
}

#[test]
fn an_uplink_container_with_every_field() {
    let uplink = Uplink {
        qfi: qfi(2),
        times: Some(UplinkTimes {
            dl_sending_repeated: NtpTimestamp(1),
            dl_received: NtpTimestamp(2),
            ul_sending: NtpTimestamp(3),
        }),
        dl_delay: Some(4),
        ul_delay: Some(5),
        sequence: Some(6),
        n3_n9_delay: Some(7),
        new: NewIes {
            d1_ul_pdcp_delay: Some(true),
            ul_congestion: Some(8),
            dl_congestion: Some(9),
            ul_available_bitrate: Some(10),
            dl_available_bitrate: Some(11),
        },
    };
    let octets = [
        &[0x1f, 0xc2][..],
        &[
            0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3,
        ],
        &[0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 6, 0, 0, 0, 7],
        &[0x1f, 1, 0, 8, 0, 9, 0, 0, 0, 10, 0, 0, 0, 11],
        &[0, 0, 0],
    ];
    round_trip(PduSessionContainer::Uplink(uplink), &octets.concat());
}

#[test]
fn new_ie_flags_of_later_releases_are_skipped() {
    let octets = [0x10, 0x49, 0xe2, 0x80, 0x01, 0x12, 0x34, 0xff, 0xff, 0xff];
    let Ok(PduSessionContainer::Uplink(uplink)) = PduSessionContainer::parse(&octets) else {
        panic!("uplink")
    };
    assert_eq!(
        uplink.new,
        NewIes {
            ul_congestion: Some(0x1234),
            ..NewIes::default()
        }
    );
}

#[test]
fn broken_containers() {
    for bad in [
        &[][..],
        &[0x10],
        &[0x20, 9],
        &[0xf0, 9],
        &[0x08, 9],
        &[0, 0x89],
        &[0x11, 9],
        &[0x10, 0x89],
    ] {
        assert_eq!(
            PduSessionContainer::parse(bad),
            Err(DropReason::BadPduSessionContainer),
            "{bad:?}"
        );
        assert_eq!(
            Summary::parse(bad),
            Err(DropReason::BadPduSessionContainer),
            "{bad:?}"
        );
    }
    assert_eq!(
        PduSessionContainer::parse(&[0x10, 0x49, 0x80, 0x80]),
        Err(DropReason::BadPduSessionContainer)
    );
}

#[test]
fn bursts_need_the_octet_of_the_ppi() {
    let downlink = Downlink {
        burst_size: Some(1),
        time_to_next_burst: Some(1),
        ..Downlink::default()
    };
    let mut out = [0; 8];
    assert_eq!(PduSessionContainer::Downlink(downlink).write(&mut out), Some(2));
}
