//! Any sequence of datagrams at the PFCP endpoint, after an association. The input is a list of length (2 octets) and
//! that number of octets. Workers confirm every effect.

use std::net::SocketAddr;
use std::sync::Arc;

use flow::Nanos;
use n4::{Config, Endpoint, NodeName};
use pfcp::ie::{NodeId, RecoveryTimeStamp};
use pfcp::message::{AssociationSetupRequest, Message};
use pfcp::{Header, SequenceNumber};
use rules::testing::{self, NumberedHops};
use session::{Effect, Random};

fn settle(endpoint: &mut Endpoint, now: Nanos) {
    while let Some(effect) = endpoint.poll_effect() {
        match effect {
            Effect::Apply { op, .. }
            | Effect::Query { op, .. }
            | Effect::Fence { op, .. }
            | Effect::Drain { op, .. } => {
                endpoint.handle_applied(now, op, Ok(None));
            }
            Effect::SelectWorker { .. } | Effect::PortBlock { .. } => {}
        }
    }
    while endpoint.poll_transmit().is_some() {}
}

/// See the module.
pub fn run(input: &[u8]) {
    let (smf, upf): (SocketAddr, SocketAddr) = (
        "10.0.0.2:8805".parse().expect("an address"),
        "10.0.0.1:8805".parse().expect("an address"),
    );
    let node = NodeName::from(upf.ip());
    let mut endpoint = Endpoint::new(
        Config {
            inspects: true,
            ..Config::new(node, 2)
        },
        Arc::new(testing::network()),
        Box::new(NumberedHops),
        Random::from_number(1),
    );
    let setup = Message::from(AssociationSetupRequest::new(
        NodeId::Ipv4("10.0.0.2".parse().expect("an address")),
        RecoveryTimeStamp::from_unix(1_700_000_000),
    ));
    let mut buffer = [0; 200];
    let header = Header::node(setup.message_type(), SequenceNumber::new(1));
    let length = setup.encode(&header, &mut buffer).expect("room");
    let mut now = Nanos(0);
    endpoint.handle_datagram(now, smf, upf, &buffer[..length]);
    settle(&mut endpoint, now);

    let mut rest = input;
    while let Some((length, tail)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_be_bytes(*length)).min(tail.len());
        let (datagram, after) = tail.split_at(length);
        rest = after;
        now = Nanos(now.0 + 50_000_000);
        endpoint.handle_datagram(now, smf, upf, datagram);
        settle(&mut endpoint, now);
        endpoint.handle_timeout(now);
        settle(&mut endpoint, now);
    }
}
