//! The Internet checksum.

/// The ones' complement sum of all octets (RFC 1071), of words as they lie in memory.
pub(super) fn sum(octets: &[u8]) -> u16 {
    let (words, rest) = octets.as_chunks::<4>();
    let mut total: u64 = words
        .iter()
        .map(|word| u64::from(u32::from_ne_bytes(*word)))
        .sum();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    total += u64::from(u32::from_ne_bytes(last));
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}
