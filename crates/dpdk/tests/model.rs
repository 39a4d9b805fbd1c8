//! A packet under any sequence of operations, against the plain vector of its octets.

use dpdk::testing::eal;
use dpdk::{HEADROOM, Mbuf, Mempool, PoolConfig};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Prepend(usize, u8),
    Append(usize, u8),
    Adj(usize),
    Trim(usize),
    Chain(usize, u8),
    Truncate(usize),
    PullUp(usize),
}

fn step() -> impl Strategy<Value = Step> {
    // Around the bounds of headroom, tailroom and segment lengths.
    let n = || prop_oneof![0..40_usize, 100..140_usize, 2000..2100_usize, Just(usize::MAX)];
    prop_oneof![
        (n(), any::<u8>()).prop_map(|(n, octet)| Step::Prepend(n, octet)),
        (n(), any::<u8>()).prop_map(|(n, octet)| Step::Append(n, octet)),
        n().prop_map(Step::Adj),
        n().prop_map(Step::Trim),
        (0..200_usize, any::<u8>()).prop_map(|(n, octet)| Step::Chain(n, octet)),
        (0..400_usize).prop_map(Step::Truncate),
        n().prop_map(Step::PullUp),
        (0..400_usize).prop_map(Step::PullUp),
    ]
}

/// The packet as its segments' octets, with the free octets before the first and after each.
struct Model {
    segments: Vec<Vec<u8>>,
    headroom: usize,
    tailrooms: Vec<usize>,
}

impl Model {
    /// Does the step to both; both must agree on whether it can be done.
    fn apply(&mut self, mbuf: &mut Mbuf, pool: &Mempool, step: &Step) {
        let first = self.segments[0].len();
        let last = self.segments[self.segments.len() - 1].len();
        match *step {
            Step::Prepend(n, octet) => {
                let room = mbuf.prepend(n).map(|room| room.fill(octet)).is_some();
                assert_eq!(room, n <= self.headroom);
                if room {
                    self.segments[0].splice(..0, vec![octet; n]);
                    self.headroom -= n;
                }
            }
            Step::Append(n, octet) => {
                let room = mbuf.append(n).map(|room| room.fill(octet)).is_some();
                assert_eq!(room, n <= *self.tailrooms.last().unwrap());
                if room {
                    self.segments.last_mut().unwrap().extend(vec![octet; n]);
                    *self.tailrooms.last_mut().unwrap() -= n;
                }
            }
            Step::Adj(n) => {
                assert_eq!(mbuf.adj(n), n <= first);
                if n <= first {
                    self.segments[0].drain(..n);
                    self.headroom += n;
                }
            }
            Step::Trim(n) => {
                assert_eq!(mbuf.trim(n), n <= last);
                if n <= last {
                    self.segments.last_mut().unwrap().truncate(last - n);
                    *self.tailrooms.last_mut().unwrap() += n;
                }
            }
            Step::Chain(n, octet) => {
                mbuf.chain(pool.alloc_with(&vec![octet; n]).unwrap()).unwrap();
                self.segments.push(vec![octet; n]);
                self.tailrooms.push(2048 - n);
            }
            Step::Truncate(n) => {
                let whole = self.segments.concat().len();
                assert_eq!(mbuf.truncate(n), n <= whole);
                if n < whole {
                    self.truncate(n);
                }
            }
            Step::PullUp(n) => {
                let missing = n.saturating_sub(first);
                let can = missing == 0 || n <= self.segments.concat().len() && missing <= self.tailrooms[0];
                assert_eq!(mbuf.pull_up(n), can);
                if can {
                    self.pull_up(missing);
                }
            }
        }
    }

    fn truncate(&mut self, mut left: usize) {
        let mut at = 0;
        while left > self.segments[at].len() {
            left -= self.segments[at].len();
            at += 1;
        }
        self.segments.truncate(at + 1);
        self.tailrooms.truncate(at + 1);
        self.tailrooms[at] += self.segments[at].len() - left;
        self.segments[at].truncate(left);
    }

    fn pull_up(&mut self, mut missing: usize) {
        while missing > 0 {
            let octets = missing.min(self.segments[1].len());
            let moved: Vec<u8> = self.segments[1].drain(..octets).collect();
            self.segments[0].extend(moved);
            self.tailrooms[0] -= octets;
            missing -= octets;
            if self.segments[1].is_empty() {
                self.segments.remove(1);
                self.tailrooms.remove(1);
            }
        }
    }

    fn check(&self, mbuf: &Mbuf) {
        assert_eq!(mbuf.segments().collect::<Vec<_>>(), self.segments);
        assert_eq!(mbuf.data(), self.segments[0]);
        let all = self.segments.concat();
        assert_eq!(
            (mbuf.len(), usize::from(mbuf.segment_count())),
            (all.len(), self.segments.len())
        );
        assert_eq!(
            (mbuf.headroom(), mbuf.tailroom()),
            (self.headroom, *self.tailrooms.last().unwrap())
        );
        let mut copy = vec![0; all.len() / 2];
        assert!(mbuf.copy_to(all.len() - copy.len(), &mut copy));
        assert_eq!(copy, all[all.len() - copy.len()..]);
        assert!(!mbuf.copy_to(0, &mut vec![0; all.len() + 1]));
    }
}

proptest! {
    #[test]
    fn a_packet_is_the_vector_of_its_octets(steps in prop::collection::vec(step(), 0..30)) {
        let pool = Mempool::new(eal(), PoolConfig::with_buffers(63)).unwrap();
        let mut mbuf = pool.alloc().unwrap();
        let mut model = Model { segments: vec![vec![]], headroom: HEADROOM, tailrooms: vec![2048] };
        for step in &steps {
            model.apply(&mut mbuf, &pool, step);
            model.check(&mbuf);
        }
        drop(mbuf);
        assert_eq!(pool.in_use(), 0);
    }
}
