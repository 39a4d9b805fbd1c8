//! Room of an accelerator that the workers of its host share.

use crate::accelerated::packet;
use crate::accelerated_workers::{Lossy, Team};
use crate::partial_mode::Mode;

#[test]
fn flows_of_one_worker_leave_room_for_those_of_another() {
    let mut team = Team::with_flows(2, Lossy::None, Mode::Full, 4);
    // The most flows that there are while packets of a session pass, one after the other.
    let pass = |team: &mut Team, ue| {
        let mut most = 0;
        for number in 0..40 {
            let (port, packet) = packet(ue, 1, number % 2 == 0 || ue % 2 == 1, number);
            team.arrive(port, &packet);
            for _ in 0..100 {
                team.step();
                most = most.max(team.node.engine().stats().flows);
            }
        }
        most
    };
    let most = [0, 2, 4].map(|ue| pass(&mut team, ue));
    assert_eq!(most.into_iter().max(), Some(3), "one is the other's: {most:?}");
    pass(&mut team, 1);
    let hits = |team: &Team| team.node.engine().stats().path.hits;
    let before = hits(&team);
    pass(&mut team, 1);
    assert_eq!(hits(&team) - before, 40);
}
