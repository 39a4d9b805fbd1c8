//! What the PDRs of a session refer to that many sessions have: rulebases, names of applications, an access list.
//!
//! Very many sessions refer to the same things alike. So what says how is made once for them: the thread that compiles
//! sessions finds again what it made last, and the first packets of their flows find it in a cache of the processor.

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use super::activations::Activations;
use super::named_applications::NamedApplication;
use crate::model::{AccessList, DetectionReads};

/// What a session's PDRs refer to of things that sessions share.
#[derive(PartialEq, Debug)]
pub(super) struct Shared {
    pub(super) activations: Activations,
    pub(super) named: Box<[NamedApplication]>,
    pub(super) access_list: Option<Arc<AccessList>>,
    /// What any of them reads of flows.
    pub(super) reads: DetectionReads,
}

/// How many of those that a thread made last are found again.
const REMEMBERED: usize = 16;

thread_local! {
    /// Those that this thread made last, and the place of the next one.
    static LAST: RefCell<([Weak<Shared>; REMEMBERED], usize)> = RefCell::default();
}

impl Shared {
    pub(super) fn new(
        activations: Activations,
        named: Box<[NamedApplication]>,
        access_list: Option<Arc<AccessList>>,
    ) -> Self {
        let named_reads = named.iter().map(NamedApplication::reads);
        let list_reads = access_list.iter().map(|list| list.reads());
        let reads = named_reads
            .chain(list_reads)
            .chain([activations.reads()])
            .collect();
        Self {
            activations,
            named,
            access_list,
            reads,
        }
    }

    /// The same, where there is one already that refers to the very same things.
    pub(super) fn once(self) -> Arc<Self> {
        LAST.with_borrow_mut(|(last, next)| {
            let known = last
                .iter()
                .filter_map(Weak::upgrade)
                .find(|one| one.is_same(&self));
            known.unwrap_or_else(|| {
                let made = Arc::new(self);
                last[*next] = Arc::downgrade(&made);
                *next = (*next + 1) % REMEMBERED;
                made
            })
        })
    }

    /// Whether it refers to the very same things alike: not to others that say the same, which would take long to
    /// compare.
    fn is_same(&self, other: &Self) -> bool {
        let lists = [&self.access_list, &other.access_list].map(|list| list.as_ref().map(Arc::as_ptr));
        lists[0] == lists[1]
            && self.activations.is_same(&other.activations)
            && self.named.len() == other.named.len()
            && self
                .named
                .iter()
                .zip(&other.named)
                .all(|(own, other)| own.is_same(other))
    }
}
