//! Passes packets through the meters and counters of a session block, to count instructions:
//! `valgrind --tool=callgrind target/release/examples/objects METERS SHARED URRS BOUNDED PACKETS`, all numbers; the
//! difference between two runs is what counts.

use flow::meter::{MeterSpec, Offer, Rate, SharedId, SharedMeters};
use flow::{BlockImage, Blocks, Bounds, Direction, Millisecond, Nanos, SessionIndex, Volumes};

fn main() {
    let numbers: Vec<u64> = std::env::args()
        .skip(1)
        .map(|text| text.parse().expect("arguments are numbers"))
        .collect();
    let [meters, shared, urrs, bounded, packets] = numbers[..] else {
        panic!("five arguments: METERS SHARED URRS BOUNDED PACKETS")
    };
    let single = MeterSpec::Single {
        rate: Rate::from_kbit(1_000_000),
        burst: 1 << 30,
    };
    let watermark = Bounds {
        watermarks: Volumes::of_total(1 << 40),
        limit: None,
    };
    let image = BlockImage {
        meters: vec![[Some(single); 2]; meters as usize],
        shared: SharedId(shared as u16),
        urrs: urrs as u8,
        bounds: vec![watermark; if bounded == 0 { 0 } else { urrs as usize }],
        ..BlockImage::default()
    };
    let mut blocks = Blocks::new(1, Blocks::TYPICAL_LINES).expect("memory");
    let installed = blocks.install(SessionIndex(0), &image).expect("room");
    let mut array = SharedMeters::new(8);
    let slots = |count: u64| (1u64 << count) - 1;
    let mut passed = 0;
    for number in 0..packets {
        let Some(mut block) = blocks.live_at(installed.block, installed.generation, Direction::Downlink)
        else {
            continue;
        };
        let offer = Offer::new(200, Nanos(number * 100));
        passed += u64::from(block.meter(slots(meters), &offer, &mut array).is_ok());
        let counted = block.count(slots(urrs), 200, Millisecond::of(offer.now));
        passed += counted.watermarks + counted.limits;
    }
    println!("{passed}");
}
