//! Names in PFCP: as they are, or as a sequence of DNS labels (TS 29.244 §8.2.4, §8.2.117).

/// Whether `octets` are this name, in either form; case does not count.
pub(super) fn is_name(octets: &[u8], name: &str) -> bool {
    let name = name.as_bytes();
    name.eq_ignore_ascii_case(octets) || labels_spell(octets, name)
}

/// Whether `octets` are the DNS labels (RFC 1035 §3.1: a length octet before each) of the dotted `name`. A closing
/// root label is accepted.
fn labels_spell(octets: &[u8], name: &[u8]) -> bool {
    let mut rest = octets;
    for part in name.split(|&octet| octet == b'.') {
        let Some((&len, tail)) = rest.split_first() else {
            return false;
        };
        if usize::from(len) != part.len() || len == 0 {
            return false;
        }
        match tail.split_at_checked(part.len()) {
            Some((label, tail)) if label.eq_ignore_ascii_case(part) => rest = tail,
            _ => return false,
        }
    }
    rest.is_empty() || rest == [0]
}
