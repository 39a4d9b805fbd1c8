//! What the decision about a flow's first packet takes in rulebases of many rules: nanoseconds, the median of several
//! rounds, with remote addresses in random order.
//!
//! `cargo run --release -p rules --features testing --example rulebase_rate`

use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use flow::LocalId;
use packet::{Addrs, Fragment, IpTuple, Teid};
use rules::classifier::{PacketView, Side};
use rules::compile::compile;
use rules::model::{
    FarId, OuterHeaderCreation, PdrId, PdrUpdate, Precedence, Predefined, PredefinedRule, SdfFilter,
};
use rules::testing::{self, GNB, NumberedHops};

const TEID: u32 = 0x1001;
const PACKETS: u32 = 100_000;
const ROUNDS: usize = 9;

fn main() -> Result<(), Box<dyn Error>> {
    println!("rules  ns a decision");
    for rules in [10, 100, 1_000, 10_000] {
        println!("{rules:5}  {:.0}", decision_ns(rules)?);
    }
    Ok(())
}

/// A host and a port for each rule; the last rule is of all packets.
fn rulebase(count: u32) -> Result<Predefined, Box<dyn Error>> {
    let rule = |precedence: u32, text: Option<String>| {
        let filter = |text: String| -> Result<SdfFilter, Box<dyn Error>> {
            Ok(SdfFilter {
                flow_description: Some(text.parse()?),
                ..SdfFilter::default()
            })
        };
        Ok::<_, Box<dyn Error>>(PredefinedRule {
            precedence: Precedence(precedence),
            detection: Default::default(),
            filters: text.map(filter).transpose()?.into_iter().collect(),
            far: None::<FarId>,
            qers: Vec::new(),
            urrs: Vec::new(),
            content: None,
        })
    };
    let mut rules = Vec::new();
    for number in 0..count {
        let [.., high, low] = number.to_be_bytes();
        // Prefixes of four lengths, so that there are four looks.
        let text = format!(
            "permit out 6 from 100.64.{high}.{low}/{} 443 to assigned",
            32 - number % 4
        );
        rules.push(rule(number, Some(text))?);
    }
    rules.push(rule(count, None)?);
    let mut predefined = Predefined::new([], [], [])?;
    predefined.add(b"many", rules)?;
    Ok(predefined)
}

fn decision_ns(count: u32) -> Result<f64, Box<dyn Error>> {
    let predefined = rulebase(count)?;
    let mut session = testing::pdu_session(TEID, OuterHeaderCreation::gtpu_ipv4(Teid(0x2001), GNB));
    let mut update = PdrUpdate::new(PdrId(1));
    update.activate = predefined.rulebase(b"many").map(Arc::clone).into_iter().collect();
    session.update_pdr(update)?;
    session.instantiate(&predefined);
    let network = testing::network();
    let image = compile(&Arc::new(session), &network, &NumberedHops)?;
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let begin = Instant::now();
            for packet in 0..PACKETS {
                // In an order without a pattern: an odd factor passes through all.
                let number = packet.wrapping_mul(2_654_435_761) % (2 * count);
                let [.., high, low] = number.to_be_bytes();
                let tuple = tuple([100, 64, high, low]);
                let side = Side::Tunnel {
                    local: LocalId(0),
                    teid: Teid(TEID),
                    qfi: None,
                };
                black_box(image.classifier.classify(&PacketView { side, tuple: &tuple }));
            }
            begin.elapsed().as_nanos() as f64 / f64::from(PACKETS)
        })
        .collect();
    times.sort_by(f64::total_cmp);
    Ok(times[ROUNDS / 2])
}

fn tuple(dst: [u8; 4]) -> IpTuple {
    IpTuple {
        addrs: Addrs::V4 {
            src: testing::UE.octets(),
            dst,
        },
        proto: 6,
        src_port: 40_000,
        dst_port: 443,
        tos: 0,
        flow_label: 0,
        spi: 0,
        fragment: Fragment::None,
        l4_offset: 20,
        total_len: 40,
        ttl: 64,
    }
}
