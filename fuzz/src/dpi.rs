//! Inspection of any packets: flows that are opened, inspected, closed and expired as the input says, and each parser
//! on the input itself. Nothing is left behind, and no state is used twice.

use dpi::dns::{self, MOST_ADDED, MOST_RECORDS, Query, Question, Response, Sinkhole};
use dpi::hosts::{ApplicationIndex, HostTableBuilder};
use dpi::{
    FlowIndex, Found, HostName, Inspector, Layer4, Sender, Settings, Transport, Verdict, heuristics, quic,
    tls,
};

const FLOWS: u32 = 6;

fn inspector() -> Inspector {
    Inspector::new(Settings {
        flows: FLOWS,
        blocks: 3,
        owners: 3,
        flows_of_owner: 3,
        blocks_of_owner: 2,
        longest_ns: 50,
        ..Settings::default()
    })
}

/// Flows that are open: the caller's number, the index, whether they are of TCP.
type Open = Vec<(u32, FlowIndex, bool)>;

/// One step: what is done, with which flow, sequence number and flags; the octets are the payload.
fn step(inspector: &mut Inspector, open: &mut Open, now: u64, step: [u8; 4], payload: &[u8]) {
    let [what, which, sequence, flags] = step;
    match what % 8 {
        0 => {
            let token = now as u32;
            let is_tcp = flags & 1 == 0;
            let transport = if is_tcp { Transport::Tcp } else { Transport::Udp };
            if let Ok(index) = inspector.open(u32::from(which % 4), token, transport, now) {
                assert!(open.iter().all(|(_, other, _)| *other != index));
                open.push((token, index, is_tcp));
            }
        }
        1 if !open.is_empty() => {
            let (_, index, _) = open.remove(usize::from(which) % open.len());
            inspector.close(index);
        }
        2 => {
            while let Some(token) = inspector.expire(now) {
                open.retain(|(other, ..)| *other != token);
            }
        }
        _ if !open.is_empty() => {
            let at = usize::from(which) % open.len();
            let (_, index, is_tcp) = open[at];
            let packet = match is_tcp {
                true => Layer4::Tcp {
                    sequence: u32::from(sequence).wrapping_sub(9),
                    has_syn: flags & 2 != 0,
                    payload,
                },
                false => Layer4::Udp { payload },
            };
            let sender = if flags & 4 == 0 {
                Sender::Initiator
            } else {
                Sender::Responder
            };
            if inspector.inspect(index, sender, &packet) != Verdict::Undecided {
                open.remove(at);
            }
        }
        _ => {}
    }
    assert_eq!(inspector.flows() as usize, open.len());
    assert!(inspector.blocks() <= inspector.flows());
}

fn inspect(mut input: &[u8]) {
    let (mut inspector, mut open) = (inspector(), Open::new());
    let mut now = 0;
    while let Some((head, rest)) = input.split_first_chunk::<6>() {
        let [what @ .., high, low] = *head;
        let len = usize::from(u16::from_be_bytes([high, low]));
        let (payload, rest) = rest.split_at(len.min(rest.len()));
        input = rest;
        now += 1;
        step(&mut inspector, &mut open, now, what, payload);
    }
    for (_, index, _) in open {
        inspector.close(index);
    }
    assert_eq!((inspector.flows(), inspector.blocks()), (0, 0));
}

fn parse(input: &[u8]) {
    let mut scratch = [0; 512];
    let _ = tls::of_records(input, &mut scratch);
    let _ = tls::of_handshake(input, input.len());
    assert!(quic::packets(input).count() <= input.len());
    assert!(quic::crypto_frames(input).count() <= input.len());
    let _ = (
        heuristics::is_stun(input),
        heuristics::is_wireguard_handshake(input),
    );
    let _ = heuristics::Rtp::default().recognises(input);
    if Query::parse(input).is_some() {
        assert!(Question::of(input).is_some());
    }
    if let Some(response) = Response::parse(input) {
        assert!(response.answers().count() <= usize::from(MOST_RECORDS));
    }
}

/// A query and no other message gets an answer, which is no query and not much longer.
fn sink(input: &[u8]) {
    let sinkholes = [
        Sinkhole::default(),
        Sinkhole {
            ipv4: Some([192, 0, 2, 1]),
            ipv6: Some([7; 16]),
            ttl_s: 60,
        },
    ];
    for sinkhole in sinkholes {
        let (query, mut out) = (Query::parse(input), [0; 512]);
        let len = dns::answer(input, &sinkhole, &mut out);
        assert_eq!(query.is_some(), len.is_some());
        if let Some(len) = len {
            assert!(len <= input.len() + MOST_ADDED);
            assert_eq!(Query::parse(&out[..len]), None);
        }
    }
}

/// A request in two segments, in either order, is the one that it is in one, or none, or not the last one.
fn follow(input: &[u8], cut: usize) {
    let whole = first_request(&[(0, input)]);
    let (one, other) = input.split_at(cut.min(input.len()));
    let pieces = [(0, one), (one.len() as u32, other)];
    for pieces in [pieces, [pieces[1], pieces[0]]] {
        let found = first_request(&pieces);
        assert!(found.is_none_or(|found| found.has_more || Some(found) == whole));
    }
}

/// Host and path of the request that a stream begins with, and where the next one begins.
fn first_request(segments: &[(u32, &[u8])]) -> Option<Found> {
    let mut inspector = inspector();
    let flow = inspector.open(0, 0, Transport::Tcp, 0).ok()?;
    inspector.start_at(flow, 0);
    segments.iter().find_map(|(sequence, payload)| {
        let packet = Layer4::Tcp {
            sequence: *sequence,
            has_syn: false,
            payload,
        };
        match inspector.inspect(flow, Sender::Initiator, &packet) {
            Verdict::Found(found) => Some(*found),
            Verdict::Undecided | Verdict::Undetected(_) => None,
        }
    })
}

/// A rule that is accepted matches its own host.
fn rule(input: &[u8]) {
    let Ok(pattern) = core::str::from_utf8(input) else {
        return;
    };
    let mut builder = HostTableBuilder::default();
    if builder.add(pattern, "", ApplicationIndex(7)).is_ok() {
        let (table, _) = builder.build(1);
        let name = pattern.trim_start_matches("*.").trim_start_matches('.');
        let host = HostName::parse(name.as_bytes()).expect("the host of a rule");
        assert_eq!(
            table.lookup(&host, None).collect::<Vec<_>>(),
            [ApplicationIndex(7)]
        );
    }
}

/// See the module. The first octet says where a connection is cut.
pub fn run(input: &[u8]) {
    let Some((cut, rest)) = input.split_first() else {
        return;
    };
    inspect(rest);
    parse(rest);
    sink(rest);
    follow(rest, usize::from(*cut));
    rule(rest);
}
