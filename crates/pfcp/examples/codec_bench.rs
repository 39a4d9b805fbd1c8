//! How long the codec takes for a Session Establishment Request with 4 PDR, 4 FAR, 2 QER and 2 URR.
//!
//! `cargo run --release -p pfcp --example codec_bench [ROUNDS [WORD]]`. Prints the median, least and greatest of 1,001
//! runs of ROUNDS (300) messages each, in ns on the clock. With a WORD, only what has it in its name is measured.
//! Decoding checks every IE on every level; visiting makes a typed value of every rule and of what is in its lists.

use std::hint::black_box;
use std::time::Instant;

use pfcp::ie::Ie;
use pfcp::message::{Body, SessionEstablishmentRequest};
use pfcp::{Frames, Header, Message, MessageType, Repeated, Seid, SequenceNumber};

#[path = "../tests/common/establishment.rs"]
mod establishment;

/// Many short runs rather than few long ones: on a busy machine some of them are left alone.
const RUNS: usize = 1001;

fn main() {
    let rounds = std::env::args()
        .nth(1)
        .map_or(300, |rounds| rounds.parse().expect("a number"));
    let rules = establishment::Rules::new(&establishment::FILTERS, &establishment::UE, &establishment::QFIS);
    let request = rules.request();
    let header = Header::session(
        MessageType::SESSION_ESTABLISHMENT_REQUEST,
        Seid(0),
        SequenceNumber::new(7),
    );
    let mut buf = [0; 2048];
    let length = request
        .encode(&header, &mut buf)
        .expect("2,048 octets are enough");
    let datagram = buf[..length].to_vec();
    println!("message: {length} octets");

    measure(rounds, "decode header, body; visit all rules", || {
        visit(&decode(black_box(&datagram)))
    });
    measure(rounds, "decode header, body", || {
        black_box(decode(black_box(&datagram)));
    });
    let rules = establishment::Rules::new(&establishment::FILTERS, &establishment::UE, &establishment::QFIS);
    let request = rules.request();
    measure(rounds, "encode from typed values", || {
        black_box(black_box(&request).encode(&header, &mut buf).expect("fits"));
    });
    let decoded = decode(&datagram);
    measure(rounds, "encode again by the original's order", || {
        black_box(black_box(&decoded).encode(&header, &mut buf).expect("fits"));
    });
    println!(
        "sizes: Message {}, CreatePdr {}, Pdi {}, CreateFar {}, CreateUrr {}, CreateQer {}",
        size_of::<Message<'_>>(),
        size_of::<pfcp::group::CreatePdr<'_>>(),
        size_of::<pfcp::group::Pdi<'_>>(),
        size_of::<pfcp::group::CreateFar<'_>>(),
        size_of::<pfcp::group::CreateUrr<'_>>(),
        size_of::<pfcp::group::CreateQer<'_>>()
    );
}

fn decode(datagram: &[u8]) -> SessionEstablishmentRequest<'_> {
    let frame = Frames::new(datagram)
        .next()
        .expect("a message")
        .expect("a good header");
    SessionEstablishmentRequest::decode(frame.body).expect("a good body")
}

fn visit(request: &SessionEstablishmentRequest<'_>) {
    request.create_pdr.visit(|pdr| {
        each(&pdr.pdi.sdf_filter);
        each(&pdr.pdi.ue_ip_address);
        each(&pdr.pdi.qfi);
        each(&pdr.qer_id);
        each(&pdr.urr_id);
        black_box(pdr);
    });
    each(&request.create_far);
    each(&request.create_qer);
    each(&request.create_urr);
}

fn each<'a, T: Ie<'a> + Copy>(list: &Repeated<'a, T>) {
    list.visit(|item| {
        black_box(item);
    });
}

fn measure(rounds: u32, what: &str, mut work: impl FnMut()) {
    if std::env::args().nth(2).is_some_and(|word| !what.contains(&word)) {
        return;
    }
    let mut runs: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..rounds {
                work();
            }
            start.elapsed().as_nanos() as f64 / f64::from(rounds)
        })
        .collect();
    runs.sort_by(f64::total_cmp);
    println!(
        "{what}: {:.0} ns (least {:.0}, greatest {:.0})",
        runs[RUNS / 2],
        runs[0],
        runs[RUNS - 1]
    );
}
