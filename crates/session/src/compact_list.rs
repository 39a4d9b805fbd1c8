//! Lists of which nearly every session has one element that is short: that is kept in the room of the list itself.

use std::fmt;

use smallvec::SmallVec;

/// An element with a short form, which has eight octets at most.
pub(crate) trait Compact: Copy {
    /// The short form.
    type Short: Copy;

    /// The short form, if it says all of this.
    fn shortened(&self) -> Option<Self::Short>;

    /// What a short form says.
    fn of_short(short: Self::Short) -> Self;
}

/// A list that does not change. One short element takes no room of its own.
#[derive(Clone)]
pub(crate) struct CompactList<T: Compact>(Kept<T>);

#[derive(Clone)]
enum Kept<T: Compact> {
    One(T::Short),
    Any(Box<[T]>),
}

impl<T: Compact> CompactList<T> {
    /// The elements.
    pub(crate) fn get(&self) -> SmallVec<[T; 2]> {
        let mut list = SmallVec::new();
        match &self.0 {
            Kept::One(short) => list.push(T::of_short(*short)),
            Kept::Any(all) => list.extend_from_slice(all),
        }
        list
    }
}

impl<T: Compact> Default for CompactList<T> {
    fn default() -> CompactList<T> {
        CompactList(Kept::Any(Box::default()))
    }
}

impl<T: Compact> From<&[T]> for CompactList<T> {
    fn from(all: &[T]) -> CompactList<T> {
        let short = match all {
            [one] => one.shortened(),
            _ => None,
        };
        CompactList(short.map_or_else(|| Kept::Any(all.into()), Kept::One))
    }
}

impl<T: Compact + fmt::Debug> fmt::Debug for CompactList<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.get()).finish()
    }
}

#[cfg(test)]
mod tests {
    use flow::LocalId;
    use packet::Teid;
    use rules::network::VrfId;
    use rules::prefix::IpPrefix;

    use super::*;
    use crate::gtpu_paths::GtpuPath;
    use crate::tunnels::Tunnel;
    use crate::ue_addresses::UeAddress;

    const _: () = assert!(size_of::<CompactList<Tunnel>>() == 2 * size_of::<usize>());
    const _: () = assert!(size_of::<CompactList<GtpuPath>>() == 2 * size_of::<usize>());
    const _: () = assert!(size_of::<CompactList<UeAddress>>() == 2 * size_of::<usize>());

    fn returns<T: Compact + PartialEq + fmt::Debug>(all: &[T], is_in_place: bool) {
        let list = CompactList::from(all);
        assert_eq!(&*list.get(), all);
        assert_eq!(matches!(list.0, Kept::One(_)), is_in_place, "{list:?}");
    }

    #[test]
    fn what_is_kept_comes_back() {
        let tunnel = |teid| (LocalId(3), Teid(teid));
        returns::<Tunnel>(&[], false);
        returns(&[tunnel(u32::MAX)], true);
        returns(&[tunnel(1), tunnel(2)], false);

        let path = |local: &str, peer: &str| GtpuPath {
            local: local.parse().unwrap(),
            peer: peer.parse().unwrap(),
        };
        let v4 = path("192.0.2.1", "192.0.2.2");
        returns(&[v4], true);
        returns(&[path("2001:db8::1", "2001:db8::2")], false);
        returns(&[path("192.0.2.1", "2001:db8::2")], false);
        returns(&[v4, path("192.0.2.1", "192.0.2.3")], false);

        let address = |text: &str, len| {
            let prefix = IpPrefix::new(text.parse().unwrap(), len).unwrap();
            (VrfId(u16::MAX), prefix)
        };
        let host = address("10.45.0.2", 32);
        returns(&[host], true);
        returns(&[address("10.45.0.0", 24)], true);
        returns(&[address("0.0.0.0", 0)], true);
        returns(&[address("2001:db8::", 64)], false);
        returns(&[host, address("2001:db8::", 64)], false);
    }
}
