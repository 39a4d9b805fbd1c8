//! Links that cease to carry anything, and carry something again.

use flow::{Nanos, PortId};

use super::Neighbours;
use super::entry::State;

impl Neighbours {
    /// The link of a port went down: its neighbours are unreachable at once, configured ones as well, and the paths of
    /// its routers move to others. Or it came up: own addresses are verified or announced, and all neighbours
    /// requested.
    pub fn set_link(&mut self, now: Nanos, port: PortId, up: bool) {
        if !self.links.set_link(port, up) {
            return;
        }
        self.own.set_link(now, port, up);
        if up {
            self.own.announce(Some(port));
        }
        self.restart(now, |_, interface| interface.port == port);
        self.handle_own_changes(now);
    }

    /// A port is behind something that there is no contact with: its neighbours cannot be asked, and what is known of
    /// its neighbours stays. The paths of its routers move to others. Or there is contact: its neighbours are asked at
    /// once, and used meanwhile as they are known. Own addresses in use stay in use; others are verified then.
    pub fn set_contact(&mut self, now: Nanos, port: PortId, has_contact: bool) {
        if !self.links.set_contact(port, has_contact) {
            return;
        }
        self.own.set_contact(now, port, has_contact);
        if has_contact {
            self.own.announce(Some(port));
            self.ask_all(now, port);
        }
        for group in self.groups.ids() {
            self.publish_paths(group, None);
        }
        self.handle_own_changes(now);
    }

    /// Has all neighbours on a port asked at `now`, from the first request on.
    fn ask_all(&mut self, now: Nanos, port: PortId) {
        for id in self.table.slots() {
            let Some(entry) = self.table.get(id) else { continue };
            let state = match entry.state {
                _ if self.port_of(entry) != Some(port) || self.is_cut_off(entry) => continue,
                State::Static(_) | State::Ourselves(_) => continue,
                State::Incomplete { .. } | State::Failed { .. } => State::Incomplete { asked: 0, at: now },
                State::Reachable { mac, .. } | State::Checking { mac, .. } => State::Checking {
                    mac,
                    asked: 0,
                    at: now,
                },
            };
            self.table.set(id, state);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use flow::InstanceId;
    use packet::MacAddr;
    use rules::network::multipath::{GroupId, PATHS};

    use super::super::{NeighbourMessage, NeighbourState, NeighboursConfig, OwnAddressState};
    use super::*;
    use crate::Interface;

    const OWN: PortId = PortId(0);
    const BEHIND: PortId = PortId(1);

    fn at(seconds: u64) -> Nanos {
        Nanos::from_secs(seconds)
    }

    /// The neighbour of instance 0 on the own port, or of instance 1 on the one behind an accelerator.
    fn neighbour(instance: u16) -> (InstanceId, IpAddr) {
        (InstanceId(instance), IpAddr::from([192, 0, instance as u8, 9]))
    }

    const fn station(instance: u16) -> MacAddr {
        MacAddr([2, 0, 0, 0, 1, instance as u8])
    }

    fn table() -> Neighbours {
        let interface = |(instance, port)| Interface {
            instance: InstanceId(instance),
            port,
            vlan: None,
            mac: MacAddr([2, 0, 0, 0, 0, instance as u8]),
            ipv4: Some(Ipv4Addr::new(192, 0, instance as u8, 1)),
            broadcast: None,
            ipv6: Some(Ipv6Addr::new(0x2001, 0xdb8, instance, 0, 0, 0, 0, 1)),
            mtu: 1500,
            fragmentation: rules::network::Fragmentation::Inner,
            tunnels: false,
        };
        let interfaces = [(0, OWN), (1, BEHIND)].map(interface).to_vec();
        Neighbours::new(NeighboursConfig::default(), interfaces)
    }

    /// Lets time pass second by second; how many frames left by the port behind the accelerator. `answers`: the
    /// neighbours reply.
    fn run(table: &mut Neighbours, seconds: std::ops::RangeInclusive<u64>, answers: bool) -> usize {
        let mut sent = 0;
        for second in seconds {
            table.handle_timeout(at(second));
            while let Some(frame) = table.poll_transmit() {
                sent += usize::from(frame.port == BEHIND);
            }
            for instance in 0..2 {
                let (of, address) = neighbour(instance);
                if answers {
                    table.handle_message(
                        at(second),
                        of,
                        address,
                        station(instance),
                        NeighbourMessage::Reply,
                    );
                }
            }
        }
        sent
    }

    #[test]
    fn what_is_known_stays_without_contact_and_is_asked_about_when_there_is_some() {
        let mut table = table();
        let (instance, address) = neighbour(1);
        let id = table.resolve(at(0), instance, address).expect("there is room");
        run(&mut table, 0..=0, true);
        while table.poll_change().is_some() {}
        table.set_contact(at(20), BEHIND, false);
        let seen = table.view(at(21), instance, address).map(|view| view.state);
        assert_eq!(seen, Some(NeighbourState::NoContact));
        assert_eq!(run(&mut table, 20..=200, false), 0, "none can be asked");
        assert!(table.poll_change().is_none(), "packets go to it as before");
        assert!(
            table
                .adjacency(id)
                .is_some_and(|adjacency| adjacency.is_resolved())
        );
        table.set_contact(at(201), BEHIND, true);
        assert_eq!(
            run(&mut table, 201..=201, false),
            3,
            "announced, verified, and asked at once"
        );
        assert!(table.poll_change().is_none(), "and used meanwhile");
        run(&mut table, 202..=208, false);
        assert!(!table.is_resolved(id), "it is gone");
    }

    #[test]
    fn who_is_not_known_is_asked_as_soon_as_there_is_contact() {
        let mut table = table();
        table.set_contact(at(0), BEHIND, false);
        let (instance, address) = neighbour(1);
        let id = table.pin(at(1), instance, address).expect("there is room");
        assert_eq!(run(&mut table, 1..=30, false), 0);
        table.set_contact(at(31), BEHIND, true);
        assert_eq!(
            run(&mut table, 31..=31, true),
            3,
            "announced, verified, and asked"
        );
        assert!(table.is_resolved(id));
    }

    #[test]
    fn whom_a_packet_looks_for_without_contact_is_forgotten_as_ever() {
        let mut table = table();
        table.set_contact(at(0), BEHIND, false);
        let (instance, address) = neighbour(1);
        table.resolve(at(1), instance, address).expect("there is room");
        assert!(
            table.is_settled(instance, address),
            "a reload does not wait for it"
        );
        run(&mut table, 1..=30, false);
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn an_own_address_is_verified_when_there_is_contact_and_once() {
        let mut table = table();
        table.set_contact(at(0), BEHIND, false);
        let state = |table: &Neighbours| {
            let mut own = table.own_addresses().filter(|own| own.instance == InstanceId(1));
            own.find(|own| own.address.is_ipv6()).map(|own| own.state)
        };
        run(&mut table, 0..=10, false);
        assert_eq!(state(&table), Some(OwnAddressState::Tentative));
        table.set_contact(at(11), BEHIND, true);
        run(&mut table, 11..=11, false);
        assert_eq!(state(&table), Some(OwnAddressState::Tentative));
        run(&mut table, 12..=12, false);
        assert_eq!(state(&table), Some(OwnAddressState::Preferred));
        table.set_contact(at(20), BEHIND, false);
        table.set_contact(at(21), BEHIND, true);
        assert_eq!(state(&table), Some(OwnAddressState::Preferred), "it stays in use");
    }

    #[test]
    fn paths_lead_to_routers_that_there_is_contact_with() {
        let mut table = table();
        let group = GroupId(0);
        table.balance(at(0), &[[neighbour(0), neighbour(1)].into()]);
        run(&mut table, 0..=2, true);
        let routers = |table: &Neighbours| {
            let of = |path| table.router_of_path(group, path);
            let mut routers: Vec<_> = (0..PATHS).filter_map(of).collect();
            routers.sort_unstable();
            routers.dedup();
            routers
        };
        let [own, behind] = [0, 1].map(|instance| {
            let (of, address) = neighbour(instance);
            table.find(of, address).expect("it is a router")
        });
        assert_eq!(routers(&table), [own, behind]);
        table.set_contact(at(3), BEHIND, false);
        assert_eq!(routers(&table), [own]);
        run(&mut table, 3..=60, true);
        table.set_contact(at(61), BEHIND, true);
        assert_eq!(routers(&table), [own, behind]);
    }
}
