//! What the decision about a flow's first packet takes in rulebases of many rules; the same rules one by one, as
//! filters of a PDR; and DPDK's `rte_acl`, which finds the rule, but does not say which fields it has read.
//!
//! Nanoseconds a packet, the median of several rounds that take turns: packets in random order, and a few that come
//! again and again (hot); `rte_acl` with 32 packets to a call and with one. Its table is for one IP version and one
//! direction, and its keys are ready; a rulebase has both, and the session and its PDR are found as well.
//!
//! `cargo run --release -p rules --features testing --example rulebase_rate`

use std::error::Error;
use std::hint::black_box;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use flow::Direction;
use packet::{IpTuple, Teid};
use rules::classifier::{Classifier, PacketView, Side};
use rules::compile::compile;
use rules::model::{
    OuterHeaderCreation, PdiUpdate, PdrId, PdrUpdate, Precedence, Predefined, PredefinedRule, SessionRules,
};
use rules::testing::long_lists::{
    Draw, LongRule, TEID, long_list, packet_of, packet_to_server, predefined_rules, seen, server_list,
};
use rules::testing::rte_acl::RteAcl;
use rules::testing::{self, GNB, NumberedHops, UserPacket};

/// The lists: each rule a server, and rules that overlap in all fields.
const SERVERS: &str = "servers";
const OVERLAPS: &str = "overlaps";
const SIZES: [usize; 3] = [10, 1_000, 10_000];
const PACKETS: usize = 65_536;
/// How many there are of packets that come again and again.
const HOT: usize = 64;
/// Packets that are compared with the rules one by one.
const FEW: usize = 2_000;
const ROUNDS: usize = 15;
const SEED: u64 = 20_261_124;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    if let (Some(name), Some(count)) = (arguments.next(), arguments.next()) {
        println!("{}", index_kib(&list(&name, count.parse()?))?);
        return Ok(());
    }
    let mut draw = Draw::new(SEED);
    without_rules(&mut draw)?;
    println!(
        "                     rulebase        one by one  rte_acl by 32   rte_acl by 1    built in, ms     memory, KiB"
    );
    println!(
        "list          rules     hot  random      random     hot  random     hot  random    own  rte_acl    own  rte_acl"
    );
    for (name, is_ipv4) in [(SERVERS, true), (OVERLAPS, true), (OVERLAPS, false)] {
        for count in SIZES {
            let rules = list(name, count);
            let mut packet = || match name {
                SERVERS => packet_to_server(&mut draw, count),
                _ => packet_of(&mut draw, &rules, is_ipv4, Direction::Uplink),
            };
            let packets: Vec<_> = (0..PACKETS).map(|_| packet()).collect();
            report(name, &rules, &packets, is_ipv4)?;
        }
    }
    Ok(())
}

fn list(name: &str, count: usize) -> Vec<LongRule> {
    match name {
        SERVERS => server_list(count),
        _ => long_list(&mut Draw::new(SEED), count),
    }
}

/// What a decision takes in a session whose PDRs have no filters and activate nothing.
fn without_rules(draw: &mut Draw) -> Outcome<()> {
    let plain = classifier(&session())?;
    let packets = (0..PACKETS).map(|_| seen(&packet_to_server(draw, SIZES[0]), Direction::Uplink));
    let packets: Vec<_> = packets.collect();
    let rounds = (0..ROUNDS).map(|_| decision_ns(&plain, &packets));
    println!("a decision without rules: {:.0} ns", median(rounds.collect()));
    Ok(())
}

/// One line.
fn report(name: &str, rules: &[LongRule], packets: &[UserPacket], is_ipv4: bool) -> Outcome<()> {
    let numbered = (1..).zip(rules);
    let entries = numbered.flat_map(|(id, rule)| rule.entries(id, is_ipv4, Direction::Uplink));
    let mut rte_acl = RteAcl::new(&entries.collect::<Vec<_>>(), packets, is_ipv4);
    let views: Vec<_> = packets
        .iter()
        .map(|packet| seen(packet, Direction::Uplink))
        .collect();
    let (predefined, build_ns) = rulebase(rules)?;
    let indexed = classifier(&with_rulebase(&predefined)?)?;
    let one_by_one = classifier(&with_filters(rules)?)?;
    compare(&indexed, &predefined, &views, &rte_acl.matches())?;
    let mut rounds: [Vec<f64>; 7] = Default::default();
    for _ in 0..ROUNDS {
        let times = [
            decision_ns(&indexed, &views[..HOT]),
            decision_ns(&indexed, &views),
            decision_ns(&one_by_one, &views[..FEW]),
            rte_acl.lookup_ns(32, HOT),
            rte_acl.lookup_ns(32, PACKETS),
            rte_acl.lookup_ns(1, HOT),
            rte_acl.lookup_ns(1, PACKETS),
        ];
        for (all, time) in rounds.iter_mut().zip(times) {
            all.push(time);
        }
    }
    let [hot, random, linear, hot_32, random_32, hot_1, random_1] = rounds.map(median);
    println!(
        "{name:8} v{}  {:6}  {hot:6.0}  {random:6.0}  {linear:10.0}  {hot_32:6.0}  {random_32:6.0}  {hot_1:6.0}  {random_1:6.0} \
         {:6.1} {:8.1} {:6.0} {:8.0}",
        if is_ipv4 { 4 } else { 6 },
        rules.len(),
        build_ns / 1e6,
        rte_acl.build_ns / 1e6,
        measured_kib(name, rules.len())?,
        rte_acl.octets / 1024.0,
    );
    Ok(())
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// The rules, and one of all packets as the last; with the nanoseconds that it takes, the median.
fn rulebase(rules: &[LongRule]) -> Outcome<(Predefined, f64)> {
    let plain = without_contents(rules);
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let plain = plain.clone();
        let begin = Instant::now();
        black_box(predefined(plain)?);
        times.push(begin.elapsed().as_nanos() as f64);
    }
    Ok((predefined(with_last(rules))?, median(times)))
}

/// The same rules, as what nothing is billed.
fn without_contents(rules: &[LongRule]) -> Vec<PredefinedRule> {
    let mut rules = with_last(rules);
    rules.iter_mut().for_each(|rule| rule.content = None);
    rules
}

fn with_last(rules: &[LongRule]) -> Vec<PredefinedRule> {
    let mut rules = predefined_rules(rules);
    let last = PredefinedRule {
        precedence: Precedence(u32::MAX),
        filters: Vec::new(),
        content: None,
        ..rules[0].clone()
    };
    rules.push(last);
    rules
}

fn predefined(rules: Vec<PredefinedRule>) -> Outcome<Predefined> {
    let mut predefined = Predefined::new([], [], [])?;
    predefined.add(b"many", rules)?;
    Ok(predefined)
}

fn session() -> SessionRules {
    testing::pdu_session(TEID.0, OuterHeaderCreation::gtpu_ipv4(Teid(0x2001), GNB))
}

/// A session whose uplink PDR activates them.
fn with_rulebase(predefined: &Predefined) -> Outcome<SessionRules> {
    let mut session = session();
    let mut update = PdrUpdate::new(PdrId(1));
    update.activate = predefined.rulebase(b"many").map(Arc::clone).into_iter().collect();
    session.update_pdr(update)?;
    session.instantiate(predefined);
    Ok(session)
}

/// A session whose uplink PDR has their filters itself: it tries them in the same order until one matches.
fn with_filters(rules: &[LongRule]) -> Outcome<SessionRules> {
    let mut session = session();
    let mut update = PdrUpdate::new(PdrId(1));
    update.pdi = Some(PdiUpdate {
        sdf_filters: Some(rules.iter().flat_map(LongRule::filters).collect()),
        ..PdiUpdate::default()
    });
    session.update_pdr(update)?;
    Ok(session)
}

fn classifier(session: &SessionRules) -> Outcome<Classifier> {
    Ok(compile(&Arc::new(session.clone()), &testing::network(), &NumberedHops)?.classifier)
}

/// Both find the same rules.
fn compare(
    classifier: &Classifier,
    predefined: &Predefined,
    packets: &[(Side, IpTuple)],
    expected: &[u32],
) -> Outcome<()> {
    for ((side, tuple), expected) in packets.iter().zip(expected) {
        let found = classifier.classify(&PacketView { side: *side, tuple });
        let content = found.and_then(|found| predefined.content(found.decision.content));
        let place = content.map_or(Ok(0), |content| content.name.parse())?;
        if place != *expected {
            return Err(format!("{tuple:?}: rule {place}, and by rte_acl {expected}").into());
        }
    }
    Ok(())
}

/// Nanoseconds of a decision about one of these packets.
fn decision_ns(classifier: &Classifier, packets: &[(Side, IpTuple)]) -> f64 {
    let turns = if packets.len() == HOT { PACKETS / HOT } else { 1 };
    let begin = Instant::now();
    for _ in 0..turns {
        for (side, tuple) in packets {
            black_box(classifier.classify(&PacketView { side: *side, tuple }));
        }
    }
    begin.elapsed().as_nanos() as f64 / (turns * packets.len()) as f64
}

/// [`index_kib`] in a process that has had no other list: what one gives back is not used for the next.
fn measured_kib(name: &str, count: usize) -> Outcome<f64> {
    let own = std::env::current_exe()?;
    let said = Command::new(own).args([name, &count.to_string()]).output()?;
    Ok(String::from_utf8(said.stdout)?.trim().parse()?)
}

/// What a rulebase takes beside the rules as they are configured: the growth of the process by a number of them.
fn index_kib(rules: &[LongRule]) -> Outcome<f64> {
    let rules = without_contents(rules);
    let copies = 200_000 / rules.len();
    let before = resident_kib()?;
    let plain: Vec<_> = (0..copies).map(|_| rules.clone()).collect();
    let between = resident_kib()?;
    let made = (0..copies).map(|_| predefined(rules.clone()));
    let made = made.collect::<Outcome<Vec<_>>>()?;
    let growth = resident_kib()? - between - (between - before);
    black_box((plain, made));
    Ok(growth / copies as f64)
}

fn resident_kib() -> Outcome<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.ok_or("no resident set")?.parse()?)
}
