//! Uplink packets at the data network.
//!
//! Pure functions over shared paths; the shard that received a packet counts it.

use crate::Direction;
use crate::path::{Arrived, Check, Path, Wrong};

/// Checks a packet that came out towards the data network, from its IP header on: from the UE to the server, and
/// each octet as the UE sent it but for `hops` of TTL.
#[inline]
pub(crate) fn see<'a>(paths: &[Path], packet: &'a [u8], hops: u8) -> Result<Arrived<'a>, Wrong> {
    let arrived = Arrived::read(packet)?;
    let path = paths.get(arrived.stamp.flow as usize).ok_or(Wrong::Foreign)?;
    if arrived.stamp.direction != Direction::Uplink {
        return Err(Wrong::Misdirected(arrived.stamp.flow));
    }
    path.check(&arrived, Check::Exact { hops }).map(|()| arrived)
}
