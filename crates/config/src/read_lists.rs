//! What files of domain lists had when a configuration was read.

use std::sync::Arc;

use dpi::domain_lists::DomainLists;

/// The lists of a configuration, as they were when it was read.
#[derive(Debug)]
pub(crate) struct ReadLists {
    pub(crate) lists: Arc<DomainLists>,
    /// Of each list with lines that have no domain how many, and the number of the first.
    pub(crate) bad_lines: Vec<(String, u64, u64)>,
}

impl Default for ReadLists {
    fn default() -> Self {
        Self {
            lists: Arc::new(DomainLists::empty()),
            bad_lines: Vec::new(),
        }
    }
}
