//! The subscriber of a session, and what was entered of the session for usage records so far.

use flow::UrrCount;
use rules::boxed_option::{Absent, BoxedOption};
use rules::model::{LocalPolicy, SNssai, SessionRules};
use rules::network::Network;
use std::sync::Arc;
use usage::Moment;

/// Whom a session is for, as its control plane says. The slice and the data network choose what the configuration has
/// for the session ([`local_policy`](Self::local_policy)); nothing else of it changes what packets do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Subscriber {
    /// IMSI, digits.
    pub imsi: Option<Box<str>>,
    /// IMEI or IMEISV, digits.
    pub imei: Option<Box<str>>,
    /// MSISDN, digits.
    pub msisdn: Option<Box<str>>,
    /// Network Access Identifier.
    pub nai: Option<Box<str>>,
    /// SUPI that is no IMSI.
    pub supi: Option<Box<str>>,
    /// GPSI that is no MSISDN.
    pub gpsi: Option<Box<str>>,
    /// PEI that is no IMEI.
    pub pei: Option<Box<str>>,
    /// DNN or APN, with dots.
    pub dnn: Option<Box<str>>,
    /// The slice.
    pub s_nssai: Option<SNssai>,
}

impl Subscriber {
    /// What the configuration has for a session with these rules, whose subscriber may be known.
    pub fn local_policy(known: Option<&Self>, rules: &SessionRules, network: &Network) -> LocalPolicy {
        let dnn = known.and_then(|known| known.dnn.as_deref());
        let slice = known.and_then(|known| known.s_nssai);
        network.local_policy(slice, dnn.map(str::as_bytes), rules.named_instances())
    }
}

/// What a session carries for its entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SessionAccounting {
    pub(crate) subscriber: Option<Arc<Subscriber>>,
    /// Since when it has been live.
    pub(crate) since: Since,
    pub(crate) entered: BoxedOption<Entered>,
}

/// Since when something has been, or that it never was, in the room of a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Since(Moment);

impl Default for Since {
    /// Never.
    fn default() -> Since {
        Since(Moment(i64::MIN))
    }
}

impl Since {
    pub(crate) fn get(self) -> Option<Moment> {
        (self != Since::default()).then_some(self.0)
    }

    /// Since `now`, if it was not before.
    pub(crate) fn begin(&mut self, now: Moment) {
        if self.get().is_none() {
            *self = Since(now);
        }
    }
}

impl From<Option<Moment>> for Since {
    fn from(since: Option<Moment>) -> Since {
        since.map_or_else(Since::default, Since)
    }
}

/// The usage reports of a session that were entered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entered {
    pub(crate) reports: u64,
    /// What they have in sum.
    pub(crate) count: UrrCount,
}

impl Absent for Entered {
    const ABSENT: &'static Self = &Entered {
        reports: 0,
        count: UrrCount {
            ul_packets: 0,
            ul_octets: 0,
            dl_packets: 0,
            dl_octets: 0,
            events: 0,
        },
    };
}

impl From<Entered> for BoxedOption<Entered> {
    fn from(entered: Entered) -> Self {
        let mut boxed = Self::NONE;
        if entered != Entered::default() {
            *boxed.get_or_insert_default() = entered;
        }
        boxed
    }
}

impl SessionAccounting {
    /// The slice of the session.
    pub(crate) fn slice(&self) -> Option<SNssai> {
        self.subscriber
            .as_deref()
            .and_then(|subscriber| subscriber.s_nssai)
    }

    pub(crate) fn of(subscriber: Option<Arc<Subscriber>>) -> SessionAccounting {
        SessionAccounting {
            subscriber,
            ..SessionAccounting::default()
        }
    }
}
