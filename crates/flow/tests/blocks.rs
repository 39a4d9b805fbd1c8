//! `Blocks` against a plain model, under generated images and changes.

use flow::meter::{Meter, MeterSpec, Rate, SharedId};
use flow::{
    AdjacencyId, BlockError, BlockImage, BlockRef, Blocks, Bounds, CounterLimit, Direction, FlowEntry,
    FlowFlags, FlowKey4, Flows, Forward, ForwardFlags, ForwardKind, Installed, InstanceId, LimitAction, Mark,
    Millisecond, Nanos, OuterAddresses, PackedForward, PacketTimes, PortId, ReplaceMap, SessionGroupId,
    SessionIndex, Template, UrrCount, Verdict, Volumes,
};
use proptest::prelude::*;

fn template() -> BoxedStrategy<Template> {
    let addresses = prop_oneof![
        any::<([u8; 4], [u8; 4])>()
            .prop_map(|(source, destination)| OuterAddresses::V4 { source, destination }),
        any::<([u8; 16], [u8; 16])>()
            .prop_map(|(source, destination)| OuterAddresses::V6 { source, destination }),
    ];
    (any::<u32>(), addresses, any::<u16>(), any::<u8>())
        .prop_map(|(teid, addresses, source_port, tos)| Template {
            teid,
            addresses,
            source_port,
            tos,
        })
        .boxed()
}

fn forward() -> BoxedStrategy<Forward> {
    let kind = prop::sample::select(vec![
        ForwardKind::Drop,
        ForwardKind::Buffer,
        ForwardKind::Tunnel,
        ForwardKind::Plain,
        ForwardKind::Punt,
    ]);
    let template = prop::option::of(template());
    let mirror = prop::option::of(any::<u16>().prop_map(PortId));
    let flags = any::<u8>().prop_map(|bits| ForwardFlags::from_bits(bits & !ForwardFlags::MIRROR.bits()));
    let way = (any::<u16>(), any::<u32>(), template, prop::option::of(0u8..64));
    (kind, flags, way, mirror)
        .prop_map(
            |(kind, flags, (egress, adjacency, template, dscp), mirror)| Forward {
                kind,
                flags,
                egress: InstanceId(egress),
                adjacency: AdjacencyId(adjacency),
                template,
                dscp: dscp.filter(|_| template.is_none()),
                mirror,
            },
        )
        .boxed()
}

fn mark() -> BoxedStrategy<Mark> {
    (0u8..64, any::<bool>(), 0u8..8)
        .prop_map(|(qfi, rqi, ppi)| Mark::NONE.with_qfi(qfi).with_rqi(rqi).with_ppi(ppi))
        .boxed()
}

/// One bucket, and sometimes two.
fn meter() -> BoxedStrategy<MeterSpec> {
    (0u64..1000, 0u64..10_000, 0u8..8)
        .prop_map(|(rate, burst, kind)| {
            let rate = Rate::from_kbit(rate);
            match kind {
                0 => MeterSpec::SrTcm {
                    cir: rate,
                    cbs: burst,
                    ebs: burst,
                    aware: false,
                },
                _ => MeterSpec::Single { rate, burst },
            }
        })
        .boxed()
}

fn meters() -> BoxedStrategy<Vec<[Option<MeterSpec>; 2]>> {
    let pair = || [prop::option::of(meter()), prop::option::of(meter())];
    prop_oneof![
        2 => Just(Vec::new()),
        4 => prop::collection::vec(pair(), 0..5),
        1 => prop::collection::vec(pair(), 0..=64),
    ]
    .boxed()
}

fn volumes() -> BoxedStrategy<Volumes> {
    let octets = || prop::option::of(prop_oneof![0u64..200_000, any::<u64>()]);
    (octets(), octets(), octets())
        .prop_map(|(total, uplink, downlink)| Volumes {
            total,
            uplink,
            downlink,
        })
        .boxed()
}

/// Bounds that change no count.
fn bounds() -> BoxedStrategy<Bounds> {
    (volumes(), prop::option::of(volumes()))
        .prop_map(|(watermarks, octets)| Bounds {
            watermarks,
            limit: octets.map(|octets| CounterLimit {
                octets,
                action: LimitAction::Event,
            }),
        })
        .boxed()
}

/// Mostly what sessions look like, sometimes as large as can be.
fn image() -> BoxedStrategy<BlockImage> {
    let forwards = prop_oneof![
        4 => prop::collection::vec(forward(), 0..5),
        1 => prop::collection::vec(forward(), 0..=BlockImage::MAX_FORWARDS),
    ];
    let marks =
        prop_oneof![4 => prop::collection::vec(mark(), 0..5), 1 => prop::collection::vec(mark(), 0..=64)];
    let urrs = prop_oneof![4 => 0u8..4, 1 => 0u8..=64];
    let counters = urrs.prop_flat_map(|urrs| {
        let bounds = prop::collection::vec(bounds(), 0..=usize::from(urrs));
        (Just(urrs), 0..=urrs, prop_oneof![Just(Vec::new()), bounds])
    });
    let rest = (any::<[u64; 2]>(), any::<[u8; 2]>(), any::<u16>());
    (forwards, marks, meters(), counters, rest)
        .prop_map(
            |(forwards, marks, meters, (urrs, before_qos, bounds), (closed, inline, shared))| {
                let inline = inline.map(|slot| slot % 6);
                BlockImage {
                    forwards,
                    marks,
                    meters,
                    shared: SharedId(shared),
                    group: SessionGroupId::new(shared % 512).expect("a number"),
                    closed_ul: closed[0],
                    closed_dl: closed[1],
                    urrs,
                    before_qos,
                    units: 0,
                    weights: Vec::new(),
                    bounds,
                    inline,
                }
            },
        )
        .boxed()
}

#[derive(Clone, Debug)]
enum Step {
    Install(BlockImage),
    Replace {
        which: prop::sample::Index,
        image: BlockImage,
        stay: Vec<Option<u8>>,
        flows: bool,
    },
    Remove(prop::sample::Index),
    Count {
        which: prop::sample::Index,
        urrs: u64,
        octets: u16,
        downlink: bool,
        /// Seconds after the step before.
        later: u64,
    },
    TakeTimes {
        which: prop::sample::Index,
        slot: u8,
    },
    SetForward {
        which: prop::sample::Index,
        slot: u8,
        forward: Forward,
    },
    SetClosed {
        which: prop::sample::Index,
        closed: [u64; 2],
    },
}

/// Mostly the same millisecond.
fn later() -> BoxedStrategy<u64> {
    prop_oneof![4 => Just(0), 2 => 1u64..3, 1 => 65_530u64..65_540].boxed()
}

fn step() -> BoxedStrategy<Step> {
    let which = any::<prop::sample::Index>;
    prop_oneof![
        4 => image().prop_map(Step::Install),
        2 => (which(), image(), prop::collection::vec(prop::option::of(0u8..70), 0..70), any::<bool>())
            .prop_map(|(which, image, stay, flows)| Step::Replace { which, image, stay, flows }),
        2 => which().prop_map(Step::Remove),
        6 => (which(), any::<u64>(), any::<u16>(), any::<bool>(), later())
            .prop_map(|(which, urrs, octets, downlink, later)| Step::Count { which, urrs, octets, downlink, later }),
        1 => (which(), 0u8..70).prop_map(|(which, slot)| Step::TakeTimes { which, slot }),
        1 => (which(), 0u8..8, forward()).prop_map(|(which, slot, forward)| Step::SetForward { which, slot, forward }),
        1 => (which(), any::<[u64; 2]>()).prop_map(|(which, closed)| Step::SetClosed { which, closed }),
    ].boxed()
}

/// What a block should hold, and flow entries that are valid for it.
struct Model {
    block: BlockRef,
    generation: u32,
    session: SessionIndex,
    image: BlockImage,
    counts: Vec<UrrCount>,
    times: Vec<Option<PacketTimes>>,
}

impl Model {
    fn entry(&self, direction: Direction) -> FlowEntry<FlowKey4> {
        let flags = FlowFlags::NONE.with_if(FlowFlags::DOWNLINK, direction == Direction::Downlink);
        FlowEntry {
            verdict: Verdict {
                block: self.block,
                generation: self.generation,
                flags,
                ..Verdict::NONE
            },
            ..FlowEntry::default()
        }
    }
}

struct World {
    blocks: Blocks,
    models: Vec<Model>,
    gone: Vec<FlowEntry<FlowKey4>>,
    generations: std::collections::HashSet<u32>,
    sessions: u32,
    /// In milliseconds.
    now: u64,
}

impl World {
    fn apply(&mut self, step: Step) -> Result<(), TestCaseError> {
        if let Step::Install(image) = step {
            return self.install(image);
        }
        if self.models.is_empty() {
            return Ok(());
        }
        match step {
            Step::Install(_) => {}
            Step::Replace {
                which,
                image,
                stay,
                flows,
            } => {
                let flows = if flows { Flows::Keep } else { Flows::Revoke };
                let at = which.index(self.models.len());
                self.replace(at, image, &stay, flows)?;
            }
            Step::Remove(which) => {
                let at = which.index(self.models.len());
                let model = self.models.swap_remove(at);
                self.gone
                    .extend(Direction::BOTH.map(|direction| model.entry(direction)));
                prop_assert!(self.blocks.remove(model.block));
                prop_assert!(!self.blocks.remove(model.block));
            }
            Step::Count {
                which,
                urrs,
                octets,
                downlink,
                later,
            } => {
                let direction = Direction::BOTH[usize::from(downlink)];
                let model = which.get_mut(&mut self.models);
                let mut block = self.blocks.live(&model.entry(direction)).unwrap();
                self.now += later;
                let counted = block.count(urrs, octets.into(), Millisecond::of(Nanos::from_millis(self.now)));
                prop_assert_eq!(counted.action, None);
                let after_qos = model.counts.len() - usize::from(model.image.before_qos);
                count(&mut model.counts[..after_qos], urrs, octets.into(), direction);
                let counting = model.times[..after_qos].iter_mut().enumerate().take(64);
                for (_, times) in counting.filter(|(slot, _)| urrs >> slot & 1 == 1) {
                    let now = Nanos::from_millis(self.now);
                    let first = times.map_or(now, |times| times.first);
                    *times = Some(PacketTimes { first, last: now });
                }
            }
            Step::TakeTimes { which, slot } => {
                let model = which.get_mut(&mut self.models);
                let times = model.times.get_mut(usize::from(slot)).and_then(Option::take);
                prop_assert_eq!(self.blocks.take_times(model.block, slot), times);
            }
            Step::SetForward { which, slot, forward } => {
                let model = which.get_mut(&mut self.models);
                let place = model.image.forwards.get_mut(usize::from(slot));
                prop_assert_eq!(
                    self.blocks.set_forward(model.block, slot, &forward),
                    place.is_some()
                );
                place.into_iter().for_each(|place| *place = forward);
            }
            Step::SetClosed { which, closed } => {
                let model = which.get_mut(&mut self.models);
                [model.image.closed_ul, model.image.closed_dl] = closed;
                prop_assert!(self.blocks.set_closed(model.block, closed[0], closed[1]));
            }
        }
        Ok(())
    }

    fn install(&mut self, image: BlockImage) -> Result<(), TestCaseError> {
        let session = SessionIndex(self.sessions);
        self.sessions += 1;
        match self.blocks.install(session, &image) {
            Ok(installed) => {
                prop_assert!(
                    self.generations.insert(installed.generation),
                    "a generation was used twice"
                );
                let counts = vec![UrrCount::default(); image.urrs.into()];
                let times = vec![None; image.urrs.into()];
                let Installed { block, generation } = installed;
                self.models.push(Model {
                    block,
                    generation,
                    session,
                    image,
                    counts,
                    times,
                });
            }
            Err(error) => prop_assert!(matches!(error, BlockError::Full { .. }), "{}", error),
        }
        Ok(())
    }

    fn replace(
        &mut self,
        at: usize,
        image: BlockImage,
        stay: &[Option<u8>],
        flows: Flows,
    ) -> Result<(), TestCaseError> {
        // Names for the old URRs, so that the map comes out as generated (slots from 64 up name no URR).
        let old: Vec<u32> = (0..64).collect();
        let new: Vec<u32> = stay
            .iter()
            .enumerate()
            .map(|(n, slot)| slot.map_or(1000 + n as u32, u32::from))
            .collect();
        let map = ReplaceMap::by_ids(&old, &new);
        let model = &mut self.models[at];
        let before = Direction::BOTH.map(|direction| model.entry(direction));
        match self.blocks.replace(model.block, &image, &map, flows) {
            Err(error) => prop_assert!(matches!(error, BlockError::Full { .. }), "{}", error),
            Ok(installed) => {
                let was = |slot: usize| stay.get(slot).copied().flatten().filter(|&old| old < 64);
                let count = |slot| was(slot).and_then(|old| model.counts.get(usize::from(old)).copied());
                model.counts = (0..usize::from(image.urrs))
                    .map(|slot| count(slot).unwrap_or_default())
                    .collect();
                let times = |slot| was(slot).and_then(|old| *model.times.get(usize::from(old))?);
                model.times = (0..usize::from(image.urrs)).map(times).collect();
                let is_new = installed.generation != model.generation;
                prop_assert!(!is_new || self.generations.insert(installed.generation));
                prop_assert!(is_new || flows == Flows::Keep && installed.block == model.block);
                if is_new {
                    self.gone.extend(before);
                }
                (model.block, model.generation, model.image) = (installed.block, installed.generation, image);
            }
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.blocks.len(), self.models.len());
        for entry in &self.gone {
            prop_assert!(self.blocks.live(entry).is_none(), "a stale entry found a block");
        }
        for model in &self.models {
            let block = self.blocks.get(model.block).unwrap();
            prop_assert_eq!(
                (block.session(), block.generation()),
                (model.session, model.generation)
            );
            let counts: Vec<_> = (0..=255).map_while(|slot| block.urr(slot)).collect();
            prop_assert_eq!(&counts, &model.counts);
            for (slot, times) in (0..).zip(&model.times) {
                prop_assert_eq!(block.times(slot), *times);
            }
            for direction in Direction::BOTH {
                self.check_live(model, direction)?;
            }
        }
        Ok(())
    }

    /// What a packet sees is what the image says, inline or on a line of its own; beyond it there is nothing.
    fn check_live(&self, model: &Model, direction: Direction) -> Result<(), TestCaseError> {
        let seen = self.blocks.get(model.block).unwrap();
        let closed = [model.image.closed_ul, model.image.closed_dl][direction as usize];
        prop_assert_eq!(
            (seen.closed(direction), seen.shared(), seen.group()),
            (closed, model.image.shared, model.image.group)
        );
        for slot in 0..=64u8 {
            let spec = model
                .image
                .meters
                .get(usize::from(slot))
                .and_then(|specs| specs[direction as usize]);
            prop_assert_eq!(seen.meter(slot, direction), spec.map(Meter::new));
        }
        for slot in 0..=255u8 {
            let forward = model
                .image
                .forwards
                .get(usize::from(slot))
                .copied()
                .unwrap_or(Forward::DROP);
            let mark = model
                .image
                .marks
                .get(usize::from(slot))
                .copied()
                .unwrap_or(Mark::NONE);
            prop_assert_eq!((seen.forward(slot), seen.mark(slot)), (forward, mark));
        }
        Ok(())
    }
}

fn count(counts: &mut [UrrCount], urrs: u64, octets: u64, direction: Direction) {
    for (slot, count) in counts.iter_mut().enumerate().take(64) {
        if urrs >> slot & 1 == 0 {
            continue;
        }
        let (packets, sum) = match direction {
            Direction::Uplink => (&mut count.ul_packets, &mut count.ul_octets),
            Direction::Downlink => (&mut count.dl_packets, &mut count.dl_octets),
        };
        *packets += 1;
        *sum += octets;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn blocks_agree_with_a_model(steps in prop::collection::vec(step(), 1..80)) {
        let blocks = Blocks::new(8, Blocks::TYPICAL_LINES).unwrap();
        let mut world =
            World { blocks, models: Vec::new(), gone: Vec::new(), generations: Default::default(), sessions: 0, now: 0 };
        for step in steps {
            world.apply(step)?;
        }
        world.check()?;
    }

    #[test]
    fn a_packet_sees_what_a_query_sees(image in image(), qers: u64) {
        let mut blocks = Blocks::new(1, 512).unwrap();
        let installed = blocks.install(SessionIndex(3), &image).unwrap();
        for direction in Direction::BOTH {
            let flags = FlowFlags::NONE.with_if(FlowFlags::DOWNLINK, direction == Direction::Downlink);
            let Installed { block, generation } = installed;
            let verdict = Verdict { block, generation, flags, ..Verdict::NONE };
            let entry = FlowEntry::<FlowKey4> { verdict, ..FlowEntry::default() };
            let closed = blocks.get(installed.block).unwrap().closed(direction);
            let live = blocks.live(&entry).unwrap();
            prop_assert_eq!(live.is_closed(qers), closed & qers != 0);
            let seen: Vec<_> = (0..=255).map(|slot| (live.forward(slot), live.mark(slot))).collect();
            let block = blocks.get(installed.block).unwrap();
            for (slot, seen) in (0..=255).zip(seen) {
                prop_assert_eq!(seen, (PackedForward::from(&block.forward(slot)), block.mark(slot)));
            }
        }
    }

    /// Whatever an entry names, looking at it does no harm.
    #[test]
    fn an_entry_that_names_anything_is_stale(image in image(), block: u32, generation: u32, urrs: u64) {
        let mut blocks = Blocks::new(2, 20).unwrap();
        let installed = blocks.install(SessionIndex(0), &image).unwrap();
        let verdict = Verdict { block: BlockRef(block), generation, urrs, ..Verdict::NONE };
        let entry = FlowEntry::<FlowKey4> { verdict, ..FlowEntry::default() };
        blocks.prefetch(&entry);
        let is_it = block == installed.block.0 && generation == installed.generation;
        prop_assert_eq!(blocks.live(&entry).is_some(), is_it);
    }
}

#[test]
fn what_is_too_large_is_refused_and_changes_nothing() {
    let mut blocks = Blocks::new(1, Blocks::TYPICAL_LINES).unwrap();
    let fits = BlockImage {
        urrs: 64,
        ..BlockImage::default()
    };
    let block = blocks.install(SessionIndex(0), &fits).unwrap().block;
    let bad = [
        BlockImage {
            urrs: 65,
            ..BlockImage::default()
        },
        BlockImage {
            marks: vec![Mark::NONE; 65],
            ..BlockImage::default()
        },
        BlockImage {
            meters: vec![[None; 2]; 65],
            ..BlockImage::default()
        },
        BlockImage {
            bounds: vec![Bounds::NONE; 3],
            urrs: 2,
            ..BlockImage::default()
        },
        BlockImage {
            before_qos: 1,
            ..BlockImage::default()
        },
        BlockImage {
            forwards: vec![Forward::DROP; 251],
            ..BlockImage::default()
        },
    ];
    for image in bad {
        assert_eq!(
            blocks.install(SessionIndex(1), &image),
            Err(BlockError::OutOfBounds)
        );
        let replaced = blocks.replace(block, &image, &ReplaceMap::NONE, Flows::Keep);
        assert_eq!(replaced, Err(BlockError::OutOfBounds));
    }
    assert_eq!((blocks.len(), blocks.get(block).unwrap().urrs()), (1, 64));
    let none = blocks.replace(BlockRef(1), &fits, &ReplaceMap::NONE, Flows::Keep);
    assert_eq!(none, Err(BlockError::Dead));
}

#[test]
fn as_many_typical_blocks_as_promised_fit() {
    let watermark = Bounds {
        watermarks: Volumes::of_total(1),
        limit: None,
    };
    let image = BlockImage {
        forwards: vec![Forward::DROP; 4],
        marks: vec![Mark::NONE; 4],
        meters: vec![[MeterSpec::mbr(Rate::from_kbit(1)); 2]; 2],
        urrs: 2,
        bounds: vec![watermark; 2],
        ..BlockImage::default()
    };
    let with_counter = BlockImage {
        urrs: 3,
        ..image.clone()
    };
    for (lines, image) in [
        (Blocks::TYPICAL_LINES, image),
        (Blocks::TYPICAL_LINES_WITH_COUNTER, with_counter),
    ] {
        let mut blocks = Blocks::new(1000, lines).unwrap();
        assert!((0..1000).all(|session| blocks.install(SessionIndex(session), &image).is_ok()));
    }
}

proptest! {
    #[test]
    fn each_block_is_in_one_part_with_its_mark(
        steps in prop::collection::vec((0u32..40, prop::option::of((0u8..60, 0u8..20))), 1..200),
    ) {
        let mut blocks = Blocks::new(64, Blocks::TYPICAL_LINES).unwrap();
        let mut known = std::collections::BTreeMap::new();
        for (session, image) in steps {
            if let Some(block) = known.remove(&session) {
                blocks.remove(block);
            }
            let image = image.map(|(urrs, forwards)| BlockImage {
                forwards: vec![Forward::DROP; forwards.into()],
                urrs,
                ..BlockImage::default()
            });
            let installed = image.and_then(|image| blocks.install(SessionIndex(session), &image).ok());
            known.extend(installed.map(|installed| (session, installed.block)));
            let found: Vec<_> = (0..blocks.parts()).flat_map(|part| blocks.part(part)).collect();
            prop_assert!(found.is_sorted_by_key(|block| block.place));
            prop_assert!(found.windows(2).all(|pair| pair[0].place != pair[1].place));
            prop_assert!(found.iter().all(|block| block.place < blocks.places()));
            let sessions: std::collections::BTreeSet<_> = found.iter().map(|block| block.session.0).collect();
            prop_assert_eq!(sessions, known.keys().copied().collect());
            prop_assert!(found.iter().all(|block| blocks.marked(known[&block.session.0]) == Some(*block)));
        }
    }
}
