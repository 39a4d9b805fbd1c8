//! Next hops: who keeps them, and those that are this node itself.

use super::*;

#[test]
fn a_tunnel_of_our_own_is_its_own_next_hop() {
    for (address, owner) in [(testing::N3_ADDRESS, N3), (testing::N9_ADDRESS, N9)] {
        let header = OuterHeaderCreation::gtpu_ipv4(Teid(7), address);
        let rules = forwarding(DestinationInterface::Access, Some(header));
        let forward = far_2(&rules);
        let next_hop = NumberedHops.resolve(owner, address.into());
        assert_eq!((forward.egress, Some(forward.adjacency)), (owner, next_hop));
    }
}

#[test]
fn next_hops_are_held_by_their_image() {
    struct Counted(AdjacencyRef);
    impl Adjacencies for Counted {
        fn resolve(&self, instance: InstanceId, next_hop: IpAddr) -> Option<AdjacencyId> {
            NumberedHops.resolve(instance, next_hop)
        }
        fn hold(&self, _: AdjacencyId) -> AdjacencyRef {
            self.0.clone()
        }
    }
    let hops = Counted(AdjacencyRef::default());
    let image = compile(&Arc::new(session()), &testing::network(), &hops).unwrap();
    assert!(hops.0.is_shared());
    let copy = image.clone();
    drop(image);
    assert!(hops.0.is_shared());
    drop(copy);
    assert!(!hops.0.is_shared());
}
