//! LACP on one member: the machines of IEEE 802.1AX-2020 §6.4 (receive, periodic, mux with independent control,
//! transmit) on simulated time.

use std::time::Duration;

use flow::Nanos;
use packet::MacAddr;

use super::pdu::{End, Lacpdu, PortState};

const FAST_PERIODIC: Duration = Duration::from_secs(1);
const SLOW_PERIODIC: Duration = Duration::from_secs(30);
const SHORT_TIMEOUT: Duration = Duration::from_secs(3);
const LONG_TIMEOUT: Duration = Duration::from_secs(90);
/// How long a link waits for others that come at the same time.
const AGGREGATE_WAIT: Duration = Duration::from_secs(2);
/// LACPDUs in [`FAST_PERIODIC`], at most (§6.4.16).
const MOST_IN_PERIOD: u8 = 3;

/// The receive machine (§6.4.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Receive {
    /// The link is down.
    Disabled,
    /// No LACPDU within the timeout; without one until `until` the partner is defaulted.
    Expired { until: Nanos },
    /// There is no partner.
    Defaulted,
    /// An LACPDU was received within the timeout.
    Current { until: Nanos },
}

/// The mux machine (§6.4.15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mux {
    Detached,
    Waiting { until: Nanos },
    Attached,
    Collecting,
    Distributing,
}

/// LACP on one link.
#[derive(Debug)]
pub(super) struct Member {
    actor: End,
    /// As its last LACPDU reported it; all zero while it is not known.
    partner: End,
    receive: Receive,
    mux: Mux,
    /// An LACPDU is to be sent.
    wanted: bool,
    /// When the next periodic one is due.
    periodic: Option<Nanos>,
    sent: SentLacpdus,
}

/// LACPDUs that were sent in the current [`FAST_PERIODIC`].
#[derive(Clone, Copy, Debug)]
struct SentLacpdus {
    /// End of the period.
    until: Nanos,
    /// How many, at most [`MOST_IN_PERIOD`].
    count: u8,
}

/// Identifies the group that a link belongs to: its partner's system and key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartnerId {
    system_priority: u16,
    system: MacAddr,
    key: u16,
}

impl Member {
    /// A link that is down. Of `actor`'s state only the timeout counts.
    pub fn new(actor: End) -> Self {
        let state = PortState::ACTIVITY
            .with(PortState::AGGREGATION, true)
            .with(PortState::DEFAULTED, true)
            .with(
                PortState::SHORT_TIMEOUT,
                actor.state.has(PortState::SHORT_TIMEOUT),
            );
        Self {
            actor: End { state, ..actor },
            partner: End::default(),
            receive: Receive::Disabled,
            mux: Mux::Detached,
            wanted: false,
            periodic: None,
            sent: SentLacpdus {
                until: Nanos::ZERO,
                count: 0,
            },
        }
    }

    #[cfg(test)]
    pub fn actor(&self) -> &End {
        &self.actor
    }

    pub fn partner(&self) -> &End {
        &self.partner
    }

    /// Its state as text.
    pub fn state_name(&self) -> &'static str {
        match (self.receive, self.mux) {
            (Receive::Disabled, _) => "link down",
            (Receive::Defaulted, _) => "no partner",
            (Receive::Expired { .. }, _) => "partner silent",
            (_, Mux::Detached) => "not selected",
            (_, Mux::Waiting { .. }) => "waiting",
            (_, Mux::Attached) => "partner not in sync",
            (_, Mux::Collecting) => "collecting",
            (_, Mux::Distributing) => "distributing",
        }
    }

    pub fn collects(&self) -> bool {
        matches!(self.mux, Mux::Collecting | Mux::Distributing)
    }

    pub fn distributes(&self) -> bool {
        self.mux == Mux::Distributing
    }

    /// The group of the link, if its partner is known and may aggregate.
    pub fn candidate(&self) -> Option<PartnerId> {
        let has_partner = matches!(self.receive, Receive::Current { .. } | Receive::Expired { .. });
        let known = !self.actor.state.has(PortState::DEFAULTED);
        let ready = has_partner && known && self.partner.state.has(PortState::AGGREGATION);
        // A link that is looped back is no candidate.
        let other = self.partner.system != self.actor.system;
        (ready && other).then_some(PartnerId {
            system_priority: self.partner.system_priority,
            system: self.partner.system,
            key: self.partner.key,
        })
    }

    /// The link came up or went down.
    pub fn set_link(&mut self, now: Nanos, up: bool) {
        if !up {
            self.receive = Receive::Disabled;
            self.periodic = None;
            self.detach();
            self.partner.state = self.partner.state.with(PortState::SYNCHRONIZATION, false);
        } else if self.receive == Receive::Disabled {
            self.expire(now);
            self.wanted = true;
            self.periodic = Some(now + FAST_PERIODIC);
        }
    }

    /// No LACPDU within the timeout: the partner's synchronization is no longer valid (§6.4.12, EXPIRED).
    fn expire(&mut self, now: Nanos) {
        self.receive = Receive::Expired {
            until: now + SHORT_TIMEOUT,
        };
        self.partner.state = self
            .partner
            .state
            .with(PortState::SYNCHRONIZATION, false)
            .with(PortState::SHORT_TIMEOUT, true);
        self.note(PortState::EXPIRED, true);
    }

    /// There is no partner (§6.4.12, DEFAULTED).
    fn default(&mut self) {
        self.receive = Receive::Defaulted;
        self.partner = End {
            // LACPDUs are still sent every second.
            state: PortState::SHORT_TIMEOUT,
            ..End::default()
        };
        self.note(PortState::DEFAULTED, true);
        self.note(PortState::EXPIRED, false);
        self.detach();
    }

    fn note(&mut self, bits: PortState, on: bool) {
        let state = self.actor.state.with(bits, on);
        self.wanted |= state != self.actor.state;
        self.actor.state = state;
    }

    /// An LACPDU has come. True if it came from another port or group than before, so that groups are to be chosen
    /// anew.
    pub fn handle(&mut self, now: Nanos, pdu: &Lacpdu) -> bool {
        if self.receive == Receive::Disabled {
            return false;
        }
        let aggregates = |end: &End| end.state.has(PortState::AGGREGATION);
        let is_other = self.actor.state.has(PortState::DEFAULTED)
            || !self.partner.is_same_port(&pdu.actor)
            || aggregates(&self.partner) != aggregates(&pdu.actor);
        if is_other {
            self.detach();
        }
        self.wanted |= self.is_misunderstood(&pdu.partner);
        self.partner = pdu.actor;
        let is_matched =
            self.actor.is_same_port(&pdu.partner) && aggregates(&self.actor) == aggregates(&pdu.partner);
        let in_sync =
            pdu.actor.state.has(PortState::SYNCHRONIZATION) && (is_matched || !aggregates(&pdu.actor));
        self.partner.state = self.partner.state.with(PortState::SYNCHRONIZATION, in_sync);
        self.note(PortState::DEFAULTED, false);
        self.note(PortState::EXPIRED, false);
        let silence = if self.actor.state.has(PortState::SHORT_TIMEOUT) {
            SHORT_TIMEOUT
        } else {
            LONG_TIMEOUT
        };
        self.receive = Receive::Current { until: now + silence };
        self.shorten_period(now);
        is_other
    }

    /// Whether the partner's view of this actor is out of date (§6.4.9, update_NTT).
    fn is_misunderstood(&self, received: &End) -> bool {
        const COMPARED: PortState = PortState(0x0f);
        !self.actor.is_same_port(received) || self.actor.state.of(COMPARED) != received.state.of(COMPARED)
    }

    fn interval(&self) -> Duration {
        if self.partner.state.has(PortState::SHORT_TIMEOUT) {
            FAST_PERIODIC
        } else {
            SLOW_PERIODIC
        }
    }

    /// A partner that has changed to the short timeout gets an LACPDU every second from now on.
    fn shorten_period(&mut self, now: Nanos) {
        let latest = now + self.interval();
        self.periodic = Some(self.periodic.map_or(latest, |at| at.min(latest)));
    }

    fn detach(&mut self) {
        self.set_mux(Mux::Detached);
    }

    fn set_mux(&mut self, mux: Mux) {
        self.mux = mux;
        let (collects, distributes) = (self.collects(), self.distributes());
        let attached = !matches!(mux, Mux::Detached | Mux::Waiting { .. });
        self.note(PortState::SYNCHRONIZATION, attached);
        self.note(PortState::COLLECTING, collects);
        self.note(PortState::DISTRIBUTING, distributes);
    }

    /// Advances the mux machine (§6.4.15) by the selected group and the partner's state.
    pub fn advance(&mut self, now: Nanos, selected: Option<PartnerId>) {
        if selected.is_none() || self.candidate() != selected {
            if self.mux != Mux::Detached {
                self.detach();
            }
            return;
        }
        loop {
            let in_sync = self.partner.state.has(PortState::SYNCHRONIZATION);
            let collects = in_sync && self.partner.state.has(PortState::COLLECTING);
            let next = match self.mux {
                Mux::Detached => Mux::Waiting {
                    until: now + AGGREGATE_WAIT,
                },
                Mux::Waiting { until } if now >= until => Mux::Attached,
                Mux::Attached if in_sync => Mux::Collecting,
                Mux::Collecting | Mux::Distributing if !in_sync => Mux::Attached,
                Mux::Collecting if collects => Mux::Distributing,
                Mux::Distributing if !collects => Mux::Collecting,
                _ => return,
            };
            self.set_mux(next);
        }
    }

    /// When something is due.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        let silent = match self.receive {
            Receive::Expired { until } | Receive::Current { until } => Some(until),
            Receive::Disabled | Receive::Defaulted => None,
        };
        let waited = match self.mux {
            Mux::Waiting { until } => Some(until),
            _ => None,
        };
        let held_back = self.wanted.then_some(self.sent.until);
        let sending = held_back.filter(|_| self.receive != Receive::Disabled);
        [silent, waited, sending, self.periodic]
            .into_iter()
            .flatten()
            .min()
    }

    /// Does what is due, but for the mux. True if the group is to be chosen anew.
    pub fn handle_timeout(&mut self, now: Nanos) -> bool {
        if self.periodic.is_some_and(|at| at <= now) {
            self.wanted = true;
            self.periodic = Some(now + self.interval());
        }
        match self.receive {
            Receive::Current { until } if until <= now => {
                self.expire(now);
                self.shorten_period(now);
                true
            }
            Receive::Expired { until } if until <= now => {
                self.default();
                true
            }
            _ => false,
        }
    }

    /// The LACPDU to send now, if one is due and the rate allows it.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Lacpdu> {
        if !self.wanted || self.receive == Receive::Disabled {
            return None;
        }
        if now >= self.sent.until {
            self.sent = SentLacpdus {
                until: now + FAST_PERIODIC,
                count: 0,
            };
        }
        if self.sent.count >= MOST_IN_PERIOD {
            return None;
        }
        self.sent.count += 1;
        self.wanted = false;
        Some(Lacpdu {
            actor: self.actor,
            partner: self.partner,
        })
    }
}
