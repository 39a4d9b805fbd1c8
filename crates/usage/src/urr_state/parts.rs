//! Volumes and counts by their parts: total, uplink, downlink.

use flow::UrrCount;
use rules::model::Volume;

pub(super) fn volume(volume: Option<&Volume>) -> Volume {
    volume.copied().unwrap_or_default()
}

pub(super) fn packets(count: UrrCount) -> u64 {
    count.ul_packets.wrapping_add(count.dl_packets)
}

/// Total, uplink, downlink.
pub(super) fn octets(count: UrrCount) -> [u64; 3] {
    [
        count.ul_octets.wrapping_add(count.dl_octets),
        count.ul_octets,
        count.dl_octets,
    ]
}

pub(super) fn parts(volume: Volume) -> [Option<u64>; 3] {
    [volume.total, volume.uplink, volume.downlink]
}

/// Which parts of `volume` are reached: bit 0 total, 1 uplink, 2 downlink.
pub(super) fn reached(volume: Volume, octets: [u64; 3]) -> u8 {
    let parts = parts(volume).into_iter().zip(octets).enumerate();
    parts.fold(0, |mask, (kind, (bound, octets))| {
        mask | u8::from(bound.is_some_and(|bound| octets >= bound)) << kind
    })
}

/// Which parts there are.
pub(super) fn there(volume: Volume) -> u8 {
    reached(volume, [u64::MAX; 3])
}

/// A threshold of nothing calls for nothing: every moment reaches it.
pub(super) fn without_zero(volume: Volume) -> Volume {
    let keep = |part: Option<u64>| part.filter(|octets| *octets > 0);
    Volume {
        total: keep(volume.total),
        uplink: keep(volume.uplink),
        downlink: keep(volume.downlink),
    }
}

pub(super) fn subtract(volume: Volume, used: UrrCount) -> Volume {
    let [total, uplink, downlink] = octets(used);
    let less = |part: Option<u64>, used: u64| part.map(|octets| octets.saturating_sub(used));
    Volume {
        total: less(volume.total, total),
        uplink: less(volume.uplink, uplink),
        downlink: less(volume.downlink, downlink),
    }
}
