//! Texts as a query of a request has them.

/// A text with what may not stand there by itself in `%` and two digits (RFC 3986 §2.1).
pub fn in_query(text: &str) -> String {
    let one = |octet: u8| match octet {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(octet).to_string(),
        _ => format!("%{octet:02X}"),
    };
    text.bytes().map(one).collect()
}
