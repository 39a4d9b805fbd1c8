//! The final accounting of a session that only workers know: what is entered when they have confirmed its removal.

use flow::UrrCount;
use rules::image::UsageSnapshot;
use rules::model::{SessionRules, UrrId};
use std::sync::Arc;
use usage::sum;

use crate::ue_addresses::UeAddress;
use crate::usage_record_entry::EndCause;

/// What is to be entered of a removed session when its workers have answered with what they counted.
#[derive(Debug)]
pub(crate) struct FinalAccounting {
    pub(crate) cause: EndCause,
    pub(crate) rules: Arc<SessionRules>,
    pub(crate) ue_addresses: Arc<[UeAddress]>,
    pub(crate) counted: Vec<(UrrId, UrrCount)>,
}

impl FinalAccounting {
    pub(crate) fn new(
        cause: EndCause,
        rules: &Arc<SessionRules>,
        ue_addresses: &[UeAddress],
    ) -> FinalAccounting {
        FinalAccounting {
            cause,
            rules: Arc::clone(rules),
            ue_addresses: ue_addresses.into(),
            counted: Vec::new(),
        }
    }

    /// Adds what one of the workers that had the session counted.
    pub(crate) fn add(&mut self, usage: UsageSnapshot) {
        for (urr, count) in usage.counters {
            match self.counted.iter_mut().find(|(known, _)| *known == urr) {
                Some((_, known)) => *known = sum(*known, count),
                None => self.counted.push((urr, count)),
            }
        }
    }
}
