//! One session whose downlink FAR buffers or drops, and what comes of its packets.

use std::time::Duration;

use flow::OpId;
use packet::DropReason;
use rules::SessionRules;
use rules::image::{ImmediateActions, SessionChange, SessionImage};
use rules::model::{ApplyAction, FarId, FarUpdate};
use rules::testing::{self, UE, UserPacket};
use worker::{BufferLimits, Command};

use super::World;
use super::one_session::{REMOTE, session};

pub const BUFF: ApplyAction = ApplyAction::BUFF;
pub const LIMITS: BufferLimits = BufferLimits {
    queues: 16,
    packets: 12,
    octets: 100_000,
    per_queue: 8,
    per_session: 12,
    per_session_octets: 100_000,
    timeout: Duration::from_secs(10),
};

/// A session in a world, and its rules.
pub struct Case {
    pub world: World,
    pub image: Box<SessionImage>,
}

impl Case {
    pub fn new(limits: BufferLimits, action: ApplyAction) -> Self {
        Self::among(1, limits, action)
    }

    pub fn among(workers: u16, limits: BufferLimits, action: ApplyAction) -> Self {
        let mut world = World::with(testing::network(), workers, |config| config.buffers = limits);
        let image = world.install(1, with(&session(), action));
        Self { world, image }
    }

    /// Replaces the rules by what `edit` makes of them.
    pub fn change(&mut self, immediate: ImmediateActions, edit: impl FnOnce(&mut SessionRules)) {
        self.image = self.world.change(&self.image, immediate, edit);
    }

    /// The worker gets an image, in one poll; its events stay in the queue.
    pub fn replace(&mut self, image: Box<SessionImage>, immediate: ImmediateActions) {
        let change = SessionChange::Replace(image, immediate);
        let op = OpId(900);
        let commands = &mut self.world.controls[0].commands;
        commands
            .push(Command::Session { op, change })
            .expect("there is room");
        self.world.poll();
    }

    pub fn set(&mut self, action: ApplyAction) {
        self.change(ImmediateActions::default(), |rules| *rules = with(rules, action));
    }

    pub fn discard(&mut self) {
        let immediate = ImmediateActions {
            discards_buffered: true,
            ..ImmediateActions::default()
        };
        self.change(immediate, |_| {});
    }

    /// The numbers of the downlink packets that have come out since.
    pub fn out(&mut self) -> Vec<u8> {
        let frames = self.world.take().into_iter();
        frames
            .map(|(_, frame)| *frame.last().expect("a payload"))
            .collect()
    }

    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.world.drops()[reason.index()]
    }
}

/// The rules with another action in the downlink FAR.
pub fn with(rules: &SessionRules, action: ApplyAction) -> SessionRules {
    let mut rules = rules.clone();
    let update = FarUpdate {
        action: Some(action),
        ..FarUpdate::new(FarId(2))
    };
    rules.update_far(update).expect("it is there");
    rules
}

/// A packet to the UE with a number as its last octet.
pub fn numbered(number: u8) -> Vec<u8> {
    let mut packet = UserPacket::udp(REMOTE, UE, 53, 1000);
    packet.payload = vec![0, number];
    packet.bytes()
}
