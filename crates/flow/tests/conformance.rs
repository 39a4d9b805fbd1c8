//! The backends of this crate keep the FlowOp contract.

use flow::conformance::{Driver, backends_agree, fake, local};

flow::conformance! {
    local: flow::conformance::local;
    fake_accelerator: flow::conformance::fake;
}

#[test]
fn both_agree() {
    backends_agree(
        96,
        [&|seed| Driver::new(local(seed)), &|seed| Driver::new(fake(seed))],
    );
}
