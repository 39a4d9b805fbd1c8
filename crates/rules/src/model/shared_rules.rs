//! All of a session's rules but its FARs, which copies of the rules have in common.
//!
//! Most requests that change a session, those of handovers and of UEs that fall idle or wake, change its FARs alone: a
//! copy of the rules has the rest in common with them, until one of both changes it.

use core::ops::{Deref, DerefMut};
use std::collections::BTreeMap;
use std::sync::Arc;

use super::access_list::AccessList;
use super::endpoint::TrafficEndpoint;
use super::far::Bar;
use super::pdr::Pdr;
use super::qer::Qer;
use super::urr::Urr;
use crate::boxed_option::{Absent, BoxedOption};
use crate::sdf::{SdfFilter, SdfFilterId};

/// What is not of FARs.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedRules(Option<Arc<NonFarRules>>);

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct NonFarRules {
    pub(super) pdrs: Vec<Pdr>,
    pub(super) qers: Vec<Qer>,
    pub(super) urrs: Vec<Urr>,
    pub(super) access_list: Option<Arc<AccessList>>,
    pub(super) optional: BoxedOption<OptionalRules>,
}

/// What few sessions have.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct OptionalRules {
    pub(super) bars: Vec<Bar>,
    pub(super) endpoints: Vec<TrafficEndpoint>,
    /// Filters that PDRs name by id; a definition outlives the PDR that brought it while another uses it.
    pub(super) shared_filters: BTreeMap<SdfFilterId, SdfFilter>,
}

static NO_RULES: NonFarRules = NonFarRules {
    pdrs: Vec::new(),
    qers: Vec::new(),
    urrs: Vec::new(),
    access_list: None,
    optional: BoxedOption::NONE,
};

impl Absent for OptionalRules {
    const ABSENT: &'static Self = &Self {
        bars: Vec::new(),
        endpoints: Vec::new(),
        shared_filters: BTreeMap::new(),
    };
}

impl NonFarRules {
    /// Notes definitions of filters; the latest one of an id is everyone's.
    pub(super) fn share(&mut self, definitions: Vec<(SdfFilterId, SdfFilter)>) {
        if !definitions.is_empty() {
            self.optional
                .get_or_insert_default()
                .shared_filters
                .extend(definitions);
        }
    }
}

impl SharedRules {
    /// Whether it is the same piece of memory.
    pub(super) fn is_shared_with(&self, other: &Self) -> bool {
        std::ptr::eq(&raw const **self, &raw const **other)
    }
}

impl Deref for SharedRules {
    type Target = NonFarRules;

    fn deref(&self) -> &NonFarRules {
        self.0.as_deref().unwrap_or(&NO_RULES)
    }
}

impl DerefMut for SharedRules {
    /// To change it; what others have in common with it is copied first. Who may not change anything should not ask.
    fn deref_mut(&mut self) -> &mut NonFarRules {
        Arc::make_mut(self.0.get_or_insert_default())
    }
}

impl PartialEq for SharedRules {
    fn eq(&self, other: &Self) -> bool {
        self.is_shared_with(other) || **self == **other
    }
}

impl Eq for SharedRules {}
