//! What a search text may mean.

use std::net::IpAddr;

use crate::commands::in_query;

/// Queries for sessions that a text may mean, the likeliest first. A SUPI is an IMSI behind `imsi-` (TS 23.003 §2.2A).
pub fn meanings(text: &str) -> Vec<String> {
    let text = text.trim();
    let is_number = text.bytes().all(|octet| octet.is_ascii_digit());
    let supi = text.get(..5).filter(|head| head.eq_ignore_ascii_case("imsi-"));
    if text.is_empty() {
        vec![String::new()]
    } else if supi.is_some() {
        vec![format!("imsi={}&", in_query(&text[5..]))]
    } else if let Ok(address) = text.parse::<IpAddr>() {
        vec![format!("ue={address}&")]
    } else if text.starts_with("0x") {
        let (teid, seid) = (
            format!("teid={}&", in_query(text)),
            format!("seid={}&", in_query(text)),
        );
        if text.len() <= 10 {
            vec![teid, seid]
        } else {
            vec![seid]
        }
    } else if is_number && (14..=15).contains(&text.len()) {
        vec![format!("imsi={text}&"), format!("seid={text}&")]
    } else if is_number {
        let teid = text.parse::<u32>().ok().map(|teid| format!("teid={teid}&"));
        teid.into_iter().chain([format!("seid={text}&")]).collect()
    } else {
        vec![format!("dnn={}&", in_query(text))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_what_it_looks_like() {
        for (text, queries) in [
            ("", &[""][..]),
            ("10.45.0.2", &["ue=10.45.0.2&"]),
            ("2001:db8::1", &["ue=2001:db8::1&"]),
            ("imsi-001010000000001", &["imsi=001010000000001&"]),
            (
                "001010000000001",
                &["imsi=001010000000001&", "seid=001010000000001&"],
            ),
            ("0x10", &["teid=0x10&", "seid=0x10&"]),
            ("0x8f3c21b09d4e7a65", &["seid=0x8f3c21b09d4e7a65&"]),
            ("17", &["teid=17&", "seid=17&"]),
            ("4294967296", &["seid=4294967296&"]),
            ("ims & more", &["dnn=ims%20%26%20more&"]),
        ] {
            assert_eq!(meanings(text), queries, "{text}");
        }
    }
}
