//! A list of filter sets in the order of precedence, packed and with an index: for rules that very many sessions share,
//! of which there may be very many.

use std::sync::Arc;

use flow::Direction;

use super::filter::SdfFilter;
use super::filter_index::{FilterIndex, FilterPlace};
use super::matching::{matches, pack_filter};
use super::packed::{Addresses, PatternBuilder, PatternView, Span, TooManyPatterns};
use super::reader::{FieldReader, is_long_ipv6, remote_end};

/// Filter sets, each with what it leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FilterTable<T> {
    /// In the order of matching.
    entries: Box<[TableEntry<T>]>,
    /// The filters, packed.
    patterns: Arc<[u64]>,
    index: FilterIndex,
}

/// One filter set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TableEntry<T> {
    /// Its place in the order of matching: the lower value first.
    pub(crate) precedence: u32,
    /// Empty: every packet.
    filters: Span,
    /// Whether a packet has to match something else as well.
    is_partial: bool,
    /// What it leads to.
    pub(crate) value: T,
}

/// A filter set before it is packed.
pub(crate) struct FilterSet<'a, T> {
    pub(crate) precedence: u32,
    /// A packet matches if it matches any of these, or if there are none.
    pub(crate) filters: &'a [SdfFilter],
    /// Whether a packet has to match something else as well: [`FilterTable::find`] passes it over.
    pub(crate) is_partial: bool,
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
                is_partial: set.is_partial,
                value: set.value,
            });
        }
        let patterns = builder.pack();
        Ok(Self {
            index: index_of(&entries, &PatternView::of(&patterns)),
            entries: entries.into(),
            patterns,
        })
    }

    /// The values, in the order of matching.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().map(|entry| &entry.value)
    }

    /// The entry at a place in the order of matching.
    pub(crate) fn entry(&self, place: u32) -> Option<&TableEntry<T>> {
        self.entries.get(place as usize)
    }

    /// How many entries have a precedence below `before`; they are the first ones.
    pub(crate) fn count_before(&self, before: Option<u32>) -> u32 {
        let is_before = |before| self.entries.partition_point(|entry| entry.precedence < before);
        before.map_or(self.entries.len(), is_before) as u32
    }

    /// Whether a packet matches the filters of an entry.
    pub(crate) fn fits(
        &self,
        entry: &TableEntry<T>,
        direction: Direction,
        reader: &mut FieldReader<'_>,
    ) -> bool {
        let view = PatternView::of(&self.patterns);
        let mut filters = view.filters(entry.filters).iter();
        entry.filters.is_empty() || filters.any(|filter| matches(filter, direction, &view, reader))
    }

    /// The place of the first entry that a packet matches, of those below `end`, without the partial ones.
    pub(crate) fn find(&self, end: u32, direction: Direction, reader: &mut FieldReader<'_>) -> Option<u32> {
        let view = PatternView::of(&self.patterns);
        let has_long_prefix = is_long_ipv6(self.index.longest_ipv6());
        let remote =
            |reader: &mut FieldReader<'_>| reader.address_for_lookup(remote_end(direction), has_long_prefix);
        self.index.find(end, remote, reader, |place, reader| {
            let filter = place.filter.and_then(|filter| view.filter(filter));
            filter.is_none_or(|filter| matches(filter, direction, &view, reader))
        })
    }
}

/// The index of the filters of these sets.
fn index_of<T>(entries: &[TableEntry<T>], view: &PatternView<'_>) -> FilterIndex {
    let mut index = FilterIndex::default();
    let whole = (0..).zip(entries).filter(|(_, entry)| !entry.is_partial);
    for (set, entry) in whole {
        if entry.filters.is_empty() {
            index.enter(FilterPlace { set, filter: None }, None);
        }
        for (filter, packed) in entry.filters.places().zip(view.filters(entry.filters)) {
            let remote = match packed.remote.addresses(view) {
                Addresses::Prefix(prefix) => Some(prefix),
                Addresses::Any | Addresses::Assigned => None,
            };
            let filter = Some(filter);
            index.enter(FilterPlace { set, filter }, remote);
        }
    }
    index.complete()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet_view::{PacketView, Side};
    use crate::prefix::IpPrefix;
    use flow::{KeyFields, LocalId};
    use packet::{Addrs, Fragment, IpTuple, Teid};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::net::IpAddr;

    const UE: [u8; 4] = [10, 45, 0, 2];

    /// Addresses that often are in prefixes of [`any_filter`].
    fn any_remote() -> impl Strategy<Value = IpAddr> {
        let v4 = (0..3u8, 0..3u8).prop_map(|(a, b)| IpAddr::from([192, 0, a, b]));
        let v6 = (0..3u16, 0..3u16).prop_map(|(a, b)| IpAddr::from([0x2001, 0xdb8, a, b, 0, 0, 0, b]));
        prop_oneof![3 => v4, 1 => v6]
    }

    fn any_filter() -> impl Strategy<Value = SdfFilter> {
        let len = prop::sample::select(vec![0u8, 16, 24, 30, 32, 48, 64, 126, 128]);
        let remote = prop_oneof![
            1 => Just("any".to_owned()),
            4 => (any_remote(), len).prop_map(|(address, len)| {
                let most = if address.is_ipv4() { 32 } else { 128 };
                let prefix = IpPrefix::new(address, len.min(most)).expect("not too long");
                format!("{}/{}", prefix.address(), prefix.len())
            }),
        ];
        let protocol = prop::sample::select(vec!["ip", "6", "17"]);
        let port = prop::sample::select(vec!["", " 80", " 443-8000"]);
        (remote, protocol, port).prop_map(|(remote, protocol, port)| {
            let text = format!("permit out {protocol} from {remote}{port} to assigned");
            SdfFilter {
                flow_description: Some(text.parse().expect("a description")),
                ..SdfFilter::default()
            }
        })
    }

    fn any_tuple() -> impl Strategy<Value = IpTuple> {
        let port = prop::sample::select(vec![80u16, 443, 5060]);
        let protocol = prop::sample::select(vec![6u8, 17]);
        (any_remote(), protocol, port).prop_map(|(remote, proto, dst_port)| tuple(remote, proto, dst_port))
    }

    /// An uplink packet of a UE.
    fn tuple(remote: IpAddr, proto: u8, dst_port: u16) -> IpTuple {
        let addrs = match remote {
            IpAddr::V4(dst) => Addrs::V4 {
                src: UE,
                dst: dst.octets(),
            },
            IpAddr::V6(dst) => Addrs::V6 {
                src: [1; 16],
                dst: dst.octets(),
            },
        };
        IpTuple {
            addrs,
            proto,
            src_port: 40_000,
            dst_port,
            tos: 0,
            flow_label: 0,
            spi: 0,
            fragment: Fragment::None,
            l4_offset: 20,
            total_len: 40,
            ttl: 64,
        }
    }

    /// What a table is to find: the sets one by one.
    fn find_one_by_one(
        table: &FilterTable<usize>,
        before: Option<u32>,
        reader: &mut FieldReader<'_>,
    ) -> Option<usize> {
        let mut entries = table.entries.iter();
        let is_it = |entry: &&TableEntry<usize>| {
            before.is_none_or(|before| entry.precedence < before)
                && table.fits(entry, Direction::Uplink, reader)
        };
        entries.find(is_it).map(|entry| entry.value)
    }

    /// A filter of a set that comes before the set's first one with a prefix decides without the remote address.
    #[test]
    fn the_remote_address_is_read_only_where_it_counts() {
        let filter = |text: &str| SdfFilter {
            flow_description: text.parse().ok(),
            ..SdfFilter::default()
        };
        let filters = [
            "permit out ip from any to assigned",
            "permit out ip from 192.0.0.0/16 to assigned",
        ]
        .map(filter);
        let table = FilterTable::new([FilterSet {
            precedence: 0,
            filters: &filters,
            is_partial: false,
            value: (),
        }])
        .expect("few");
        let ue = PatternBuilder::new(&[IpPrefix::host(IpAddr::from(UE))])
            .expect("one")
            .pack();
        let ue = PatternView::of(&ue);
        let tuple = tuple([192, 0, 0, 1].into(), 6, 80);
        let side = Side::Tunnel {
            local: LocalId(0),
            teid: Teid(1),
            qfi: None,
        };
        let mut reader = FieldReader::new(&PacketView { side, tuple: &tuple }, &ue, false);
        assert_eq!(table.find(1, Direction::Uplink, &mut reader), Some(0));
        assert_eq!(reader.fields(), KeyFields::ADDRESS);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

        #[test]
        fn the_index_finds_what_trying_all_finds(
            sets in vec((0..4u32, vec(any_filter(), 0..4)), 0..40),
            tuples in vec(any_tuple(), 1..20),
            before in prop::option::of(0..40u32),
        ) {
            // Precedence rises, some are equal.
            let mut precedence = 0;
            let sets: Vec<(u32, Vec<SdfFilter>)> = sets
                .into_iter()
                .enumerate()
                .map(|(place, (step, filters))| {
                    precedence += step;
                    // A set of all packets ends every search: few of them, and late.
                    let lacks = filters.is_empty() && place < 30;
                    let more = if lacks { "permit out 6 from 192.0.2.2 to assigned".parse().ok() } else { None };
                    let more = more.map(|flow| SdfFilter { flow_description: Some(flow), ..SdfFilter::default() });
                    (precedence, filters.into_iter().chain(more).collect())
                })
                .collect();
            let table = FilterTable::new(sets.iter().enumerate().map(|(value, (precedence, filters))| FilterSet {
                precedence: *precedence,
                filters,
                is_partial: false,
                value,
            }))
            .expect("few");
            let ue = PatternBuilder::new(&[IpPrefix::host(IpAddr::from(UE)), IpPrefix::new(IpAddr::from([1; 16]), 64).expect("a length")]).expect("two").pack();
            let ue = PatternView::of(&ue);
            for tuple in &tuples {
                let side = Side::Tunnel { local: LocalId(0), teid: Teid(1), qfi: None };
                let packet = PacketView { side, tuple };
                let mut reader = FieldReader::new(&packet, &ue, false);
                let found = table.find(table.count_before(before), Direction::Uplink, &mut reader);
                let found = found.and_then(|place| table.entry(place)).map(|entry| entry.value);
                let mut slow = FieldReader::new(&packet, &ue, false);
                prop_assert_eq!(found, find_one_by_one(&table, before, &mut slow));
                let (fields, slow) = (reader.fields(), slow.fields());
                prop_assert!(slow.contains(fields), "the key is no narrower: {fields:?}, {slow:?}");
            }
        }
    }
}
