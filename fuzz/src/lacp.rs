//! Any frame to the slow protocols' address, and any sequence of LACPDUs, links that come and go, and time, at a LAG of
//! three members with LACP. The input is a list of event (1 octet: the lower half says which, the upper one the member)
//! and what belongs to it.

use flow::{Nanos, PortId};
use packet::MacAddr;
use transport::lag::{
    End, LacpConfig, Lacpdu, Lag, LagConfig, LagMember, LagMode, PortState, Slow, answer_marker,
};

const MEMBERS: u16 = 3;
const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
/// Octets of one end of a link in the input.
const END: usize = 15;

fn end(octets: &[u8; END]) -> End {
    let number = |at: usize| u16::from_be_bytes([octets[at], octets[at + 1]]);
    End {
        system_priority: number(0),
        system: MacAddr([octets[2], octets[3], octets[4], octets[5], octets[6], octets[7]]),
        key: number(8),
        port_priority: number(10),
        port: number(12),
        state: PortState(octets[14]),
    }
}

fn lag(fast: bool) -> Lag {
    let lacp = LacpConfig {
        fast,
        system_priority: 0x8000,
        key: 1,
    };
    Lag::new(LagConfig {
        port: PortId(9),
        mode: LagMode::Lacp(lacp),
        mac: MAC,
        members: (0..MEMBERS)
            .map(|port| LagMember {
                port: PortId(port),
                mac: MAC,
            })
            .collect(),
    })
}

/// A LAG, which links are up, and what each member said last.
struct Bench {
    lag: Lag,
    links: u8,
    said: [End; MEMBERS as usize],
    now: Nanos,
}

impl Bench {
    fn handle(&mut self, place: usize, pdu: &Lacpdu) {
        let written = pdu.frame(MAC);
        assert_eq!(Slow::parse(&written), Some(Slow::Lacp(*pdu)));
        self.lag.handle(self.now, place, pdu);
    }

    /// Sends what is to be sent: no more than a PDU a member at a time. Members that carry have their links up.
    fn settle(&mut self) {
        self.lag.handle_timeout(self.now);
        let mut sent = 0;
        while let Some(frame) = self.lag.poll_transmit(self.now) {
            sent += 1;
            assert!(sent <= usize::from(MEMBERS), "LACPDUs without end");
            let Some(Slow::Lacp(pdu)) = Slow::parse(&frame.bytes) else {
                panic!("an LACPDU that is none")
            };
            self.said[usize::from(frame.port.0)] = pdu.actor;
        }
        let share = self.lag.share();
        assert_eq!(
            share.distributing & !share.collecting,
            0,
            "a member sends and takes nothing"
        );
        assert_eq!(
            share.collecting & !self.links,
            0,
            "a member carries without a link"
        );
        let due = self.lag.poll_timeout();
        assert!(
            due.is_none_or(|due| due > self.now),
            "due at {due:?}, at {:?}",
            self.now
        );
    }
}

/// See the module.
pub fn run(input: &[u8]) {
    if let Some(Slow::Marker) = Slow::parse(input) {
        let mut answer = input.to_vec();
        answer_marker(&mut answer, MAC);
        assert_eq!(Slow::parse(&answer), Some(Slow::MarkerResponse));
    }
    let Some((first, mut rest)) = input.split_first() else {
        return;
    };
    let mut bench = Bench {
        lag: lag(first & 1 == 1),
        links: 0,
        said: [End::default(); MEMBERS as usize],
        now: Nanos(1),
    };
    while let Some((event, tail)) = rest.split_first() {
        rest = tail;
        let place = usize::from(event >> 4) % usize::from(MEMBERS);
        match event & 3 {
            0 => {
                bench.links ^= 1 << place;
                bench
                    .lag
                    .set_link(bench.now, place, bench.links >> place & 1 == 1);
            }
            1 => {
                let Some((tenths, tail)) = rest.split_first() else {
                    break;
                };
                rest = tail;
                bench.now = Nanos(bench.now.0 + u64::from(*tenths) * 100_000_000);
            }
            // With the fourth bit, the partner is as we are: so a group comes about.
            _ => {
                let Some((actor, tail)) = rest.split_first_chunk::<END>() else {
                    break;
                };
                rest = tail;
                let mut partner = bench.said[place];
                if event & 4 != 0 {
                    let Some((octets, tail)) = rest.split_first_chunk::<END>() else {
                        break;
                    };
                    (partner, rest) = (end(octets), tail);
                }
                bench.handle(
                    place,
                    &Lacpdu {
                        actor: end(actor),
                        partner,
                    },
                );
            }
        }
        bench.settle();
    }
}
