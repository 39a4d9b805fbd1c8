//! A list of filter sets in the order of precedence, packed: for rules that very many sessions share.

use std::sync::Arc;

use flow::Direction;

use super::filter::SdfFilter;
use super::matching::{matches, pack_filter};
use super::packed::{PatternBuilder, PatternView, Span, TooManyPatterns};
use super::reader::FieldReader;

/// Filter sets, each with what it leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FilterTable<T> {
    /// In the order of matching.
    entries: Box<[TableEntry<T>]>,
    /// The filters, packed.
    patterns: Arc<[u64]>,
}

/// One filter set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TableEntry<T> {
    /// Its place in the order of matching: the lower value first.
    pub(crate) precedence: u32,
    /// Empty: every packet.
    filters: Span,
    /// What it leads to.
    pub(crate) value: T,
}

/// A filter set before it is packed.
pub(crate) struct FilterSet<'a, T> {
    pub(crate) precedence: u32,
    /// A packet matches if it matches any of these, or if there are none.
    pub(crate) filters: &'a [SdfFilter],
    pub(crate) value: T,
}

impl<T> FilterTable<T> {
    /// A table of these sets, in the order of matching.
    pub(crate) fn new<'a>(sets: impl IntoIterator<Item = FilterSet<'a, T>>) -> Result<Self, TooManyPatterns> {
        let mut builder = PatternBuilder::new(&[])?;
        let mut entries = Vec::new();
        for set in sets {
            let mut filters = Vec::with_capacity(set.filters.len());
            for filter in set.filters {
                filters.push(pack_filter(&mut builder, filter)?);
            }
            entries.push(TableEntry {
                precedence: set.precedence,
                filters: builder.filters(&filters)?,
                value: set.value,
            });
        }
        Ok(Self {
            entries: entries.into(),
            patterns: builder.pack(),
        })
    }

    /// The values, in the order of matching.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().map(|entry| &entry.value)
    }

    /// The first entry that a packet matches, of those with a precedence below `before`.
    pub(crate) fn find(
        &self,
        before: Option<u32>,
        direction: Direction,
        reader: &mut FieldReader<'_>,
    ) -> Option<&TableEntry<T>> {
        let view = PatternView::of(&self.patterns);
        let comes_before = |entry: &&TableEntry<T>| before.is_none_or(|before| entry.precedence < before);
        let mut entries = self.entries.iter().take_while(comes_before);
        entries.find(|entry| {
            let mut filters = view.filters(entry.filters).iter();
            entry.filters.is_empty() || filters.any(|filter| matches(filter, direction, &view, reader))
        })
    }
}
