//! SDF filters at random.

use proptest::prelude::*;

use crate::model::{SdfFilter, SdfFilterId, TosTrafficClass};

/// Flow Descriptions that some generated packets match.
pub(super) const DESCRIPTIONS: [&str; 12] = [
    "permit out ip from any to assigned",
    "permit out ip from any to any",
    "permit out 17 from any 53 to assigned",
    "permit out 6 from 192.0.2.0/24 80,1000-2000 to assigned",
    "permit out ip from 198.51.100.7 to 10.45.0.2",
    "permit out 58 from ff02::2/128 to assigned",
    "permit out ip from 2001:db8:ffff::/64 to assigned 80",
    "permit out ip from 2001:db8:ffff::1 to 2001:db8:45:2::/64",
    "permit out ip from any to 2001:db8:45:2::1",
    "permit out 50 from any to any",
    "permit in 17 from assigned 80 to any 53",
    "permit out ip from any 0-65535 to any",
];

pub(super) fn any_filter() -> BoxedStrategy<SdfFilter> {
    let description = prop::option::weighted(0.8, prop::sample::select(&DESCRIPTIONS[..]));
    let tos = prop::option::weighted(
        0.15,
        prop::sample::select(&[(0xb8u8, 0xfcu8), (0xb8, 0xff), (0, 0)][..]),
    );
    let spi = prop::option::weighted(0.1, prop::sample::select(&[0x0050_0050u32, 0][..]));
    let label = prop::option::weighted(0.1, 0..2u32);
    let id = prop::option::weighted(0.3, 0..2u32);
    (description, tos, spi, label, id)
        .prop_map(|(description, tos, spi, flow_label, id)| SdfFilter {
            flow_description: description.map(|text| text.parse().expect("a description")),
            tos_traffic_class: tos.map(|(value, mask)| TosTrafficClass { value, mask }),
            spi,
            flow_label,
            filter_id: id.map(SdfFilterId),
        })
        .boxed()
}
