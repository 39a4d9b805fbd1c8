//! A tiny run of everything that needs no second core: sums hold, samples are as the interpreter says.

use super::load::Load;
use super::model::Model;
use super::progress::Progress;
use super::selffed::{Effort, Figure, measure};
use super::world::{Setting, World};

const TINY: Effort = Effort {
    runs: 1,
    seconds: 0.02,
};

fn tiny(model: Model) -> Figure {
    let progress = Progress::silent();
    let mut world = World::new(Setting::new(model), &progress).unwrap();
    world.install_flows(0, model.flows(), &progress).unwrap();
    let load = Load::saturated(&model, model.flows());
    measure(&mut world, "tiny", load, TINY, &progress).unwrap()
}

#[test]
fn every_model_forwards_what_it_is_given() {
    let models = [
        Model::v(2, 1).unwrap().with_sessions(64),
        Model::v(5, 4).unwrap().with_sessions(64),
        Model::v(1, 0).unwrap().with_sessions(1),
        Model::i().with_sessions(100),
        Model::open().with_sessions(100),
        Model {
            sessions: 600,
            active: 10,
            ..Model::s()
        },
    ];
    for model in models {
        let figure = tiny(model);
        assert!(figure.is_sound(), "{figure:#?}");
        assert!(
            figure.checked.same > 0 || figure.counted.rx < 5_000,
            "{figure:#?}"
        );
        assert_eq!(figure.counted.hits, figure.counted.rx, "{figure:#?}");
        assert_eq!(figure.entries as u32, model.entries(), "{figure:#?}");
    }
}

#[test]
fn urrs_count_each_packet() {
    let progress = Progress::silent();
    let model = Model::v(2, 1).unwrap().with_sessions(16);
    let mut world = World::new(Setting::new(model), &progress).unwrap();
    world.install_flows(0, model.flows(), &progress).unwrap();
    assert_eq!(world.feed().counts().given, u64::from(model.flows()));
    let sent: u64 = world.feed().counts().sent.iter().sum();
    assert_eq!(world.urr_packets().unwrap(), sent * u64::from(model.policy.urrs));
}

#[test]
fn workers_of_a_pair_keep_to_their_own_packets() {
    let progress = Progress::silent();
    let model = Model::v(2, 1).unwrap().with_sessions(32);
    for id in 0..2 {
        let setting = Setting {
            worker: (id, 2),
            ..Setting::new(model)
        };
        let mut world = World::new(setting, &progress).unwrap();
        world.install_flows(0, model.flows(), &progress).unwrap();
        assert_eq!(world.stats().handed_over, 0);
        assert_eq!(world.worker.flows() as u32, model.flows());
    }
}
