//! Flows of other protocols, budgets, and flows that are nothing.

use dpi::heuristics::RTP_PACKETS;
use dpi::{Inspector, Layer4, Protocol, Reason, Sender, Settings, Transport, Verdict};
use proptest::prelude::*;

use crate::messages::{client_hello, records};

fn small() -> Inspector {
    Inspector::new(Settings {
        flows: 4,
        blocks: 2,
        owners: 1,
        ..Settings::default()
    })
}

fn segment(sequence: u32, payload: &[u8]) -> Layer4<'_> {
    Layer4::Tcp {
        sequence,
        has_syn: false,
        payload,
    }
}

#[test]
fn a_request_has_its_host_and_path() {
    let request = b"GET /a/b?c HTTP/1.1\r\nHost: www.example.com:80\r\n\r\n";
    let mut inspector = small();
    for cut in 1..request.len() {
        let flow = inspector.open(0, 0, Transport::Tcp, 0).expect("a state");
        let (one, other) = request.split_at(cut);
        assert_eq!(
            inspector.inspect(flow, Sender::Initiator, &segment(1, one)),
            Verdict::Undecided,
            "{cut}"
        );
        let Verdict::Found(found) =
            inspector.inspect(flow, Sender::Initiator, &segment(1 + cut as u32, other))
        else {
            panic!("not found: {cut}");
        };
        assert_eq!(found.protocol, Protocol::Http1);
        assert_eq!(
            found.host.map(|host| host.to_string()).as_deref(),
            Some("www.example.com")
        );
        assert_eq!(found.path.expect("a path").as_bytes(), b"/a/b?c");
    }
    assert_eq!((inspector.flows(), inspector.blocks()), (0, 0));
}

#[test]
fn what_is_no_protocol_is_unknown() {
    let mut inspector = small();
    let syn = Layer4::Tcp {
        sequence: 9,
        has_syn: true,
        payload: &[],
    };
    for payload in [&b"SSH-2.0-x\r\n"[..], b"\0\0", b"get / HTTP/1.1\r\n"] {
        let flow = inspector.open(0, 0, Transport::Tcp, 0).expect("a state");
        assert_eq!(
            inspector.inspect(flow, Sender::Initiator, &syn),
            Verdict::Undecided
        );
        let verdict = inspector.inspect(flow, Sender::Initiator, &segment(10, payload));
        assert_eq!(verdict, Verdict::Undetected(Reason::Unknown), "{payload:?}");
    }
    let flow = inspector.open(0, 0, Transport::Udp, 0).expect("a state");
    let verdict = inspector.inspect(flow, Sender::Initiator, &Layer4::Udp { payload: b"hello" });
    assert_eq!(verdict, Verdict::Undetected(Reason::Unknown));
    assert_eq!(
        inspector.inspect(flow, Sender::Initiator, &Layer4::Udp { payload: b"hello" }),
        Verdict::Undetected(Reason::NotOpen)
    );
    // A segment in a flow of UDP.
    let flow = inspector.open(0, 0, Transport::Udp, 0).expect("a state");
    assert_eq!(
        inspector.inspect(flow, Sender::Initiator, &syn),
        Verdict::Undetected(Reason::Unknown)
    );
}

#[test]
fn rtp_of_either_sender_is_recognised() {
    for sender in [Sender::Initiator, Sender::Responder] {
        let mut inspector = small();
        let flow = inspector.open(0, 0, Transport::Udp, 0).expect("a state");
        for number in 0..RTP_PACKETS {
            let payload = [0x80, 0, 0, number, 0, 0, 0, 0, 1, 2, 3, 4, 9, 9];
            let verdict = inspector.inspect(flow, sender, &Layer4::Udp { payload: &payload });
            match number + 1 {
                RTP_PACKETS => {
                    assert!(matches!(verdict, Verdict::Found(found) if found.protocol == Protocol::Rtp))
                }
                _ => assert_eq!(verdict, Verdict::Undecided),
            }
        }
    }
}

#[test]
fn a_flow_is_looked_at_up_to_its_budget() {
    let stream = records(&client_hello("www.example.com", 2_000), 9_999);
    let mut inspector = small();
    let flow = inspector.open(0, 0, Transport::Tcp, 0).expect("a state");
    for nth in 0..8 {
        // Without a payload they do not count.
        assert_eq!(
            inspector.inspect(flow, Sender::Initiator, &segment(1, &[])),
            Verdict::Undecided
        );
        let verdict = inspector.inspect(
            flow,
            Sender::Initiator,
            &segment(1 + nth, &stream[nth as usize..][..1]),
        );
        match nth {
            7 => assert_eq!(verdict, Verdict::Undetected(Reason::Budget)),
            _ => assert_eq!(verdict, Verdict::Undecided),
        }
    }
    assert_eq!((inspector.flows(), inspector.blocks()), (0, 0));

    let flow = inspector.open(0, 0, Transport::Tcp, 0).expect("a state");
    for nth in 0..9 {
        let verdict = inspector.inspect(flow, Sender::Responder, &segment(1, &stream[..1_200]));
        match nth {
            6 => assert_eq!(verdict, Verdict::Undetected(Reason::Budget)),
            7.. => assert_eq!(verdict, Verdict::Undetected(Reason::NotOpen)),
            _ => assert_eq!(verdict, Verdict::Undecided),
        }
    }
}

/// Payloads that go far into the parsers.
fn payload() -> impl Strategy<Value = Vec<u8>> {
    let any_octets = || prop::collection::vec(any::<u8>(), 0..200);
    let starts: [&[u8]; 6] = [
        &[22, 3, 1, 0, 90, 1, 0, 0, 80],
        b"GET / HTTP/1.1\r\nHost: ",
        &[0xc3, 0, 0, 0, 1, 8],
        &[0x80, 0, 0, 1],
        &[0, 1, 0, 8, 0x21, 0x12, 0xa4, 0x42],
        &[],
    ];
    (prop::sample::select(starts.to_vec()), any_octets()).prop_map(|(start, rest)| [start, &rest].concat())
}

proptest! {
    #[test]
    fn any_packets_leave_nothing_behind(
        packets in prop::collection::vec((0u32..6, any::<bool>(), any::<bool>(), any::<bool>(), 0u32..300, payload()), 0..60),
    ) {
        let mut inspector = small();
        let mut open = Vec::new();
        for (nth, is_tcp, has_syn, is_reply, sequence, payload) in &packets {
            let transport = if *is_tcp { Transport::Tcp } else { Transport::Udp };
            if open.len() < 4 {
                open.push(inspector.open(0, *nth, transport, 0).expect("a state"));
            }
            let packet = match is_tcp {
                true => Layer4::Tcp { sequence: *sequence, has_syn: *has_syn, payload },
                false => Layer4::Udp { payload },
            };
            let at = *nth as usize % open.len();
            let sender = if *is_reply { Sender::Responder } else { Sender::Initiator };
            if inspector.inspect(open[at], sender, &packet) != Verdict::Undecided {
                open.remove(at);
            }
            prop_assert_eq!(inspector.flows() as usize, open.len());
            prop_assert!(inspector.blocks() <= inspector.flows());
        }
        for flow in open {
            inspector.close(flow);
        }
        prop_assert_eq!((inspector.flows(), inspector.blocks()), (0, 0));
    }
}
