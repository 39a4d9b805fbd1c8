//! Whom a session is for (TS 29.244 §8.2.101 User ID, §8.2.117 APN/DNN, §8.2.175 S-NSSAI).
//!
//! Nothing here refuses a request: it only informs. What cannot be read is left out.

use pfcp::ie::ApnDnn;
use pfcp::message::SessionEstablishmentRequest;
use rules::model::SNssai;
use session::Subscriber;

/// `None` when the request says nothing of it.
pub(super) fn of(request: &SessionEstablishmentRequest<'_>) -> Option<Subscriber> {
    let user = request.user_id.unwrap_or_default();
    let digits = |octets: Option<pfcp::ie::Octets8<'_>>| octets.and_then(|octets| tbcd(octets.0));
    let text = |octets: Option<pfcp::ie::Octets8<'_>>| octets.and_then(|octets| plain(octets.0));
    let subscriber = Subscriber {
        imsi: digits(user.imsi),
        imei: digits(user.imei),
        msisdn: digits(user.msisdn),
        nai: text(user.nai),
        supi: text(user.supi),
        gpsi: text(user.gpsi),
        pei: text(user.pei),
        dnn: request.apn_dnn.and_then(name),
        s_nssai: request.s_nssai.map(slice),
    };
    (subscriber != Subscriber::default()).then_some(subscriber)
}

/// The slice of an S-NSSAI IE.
pub(super) fn slice(sent: pfcp::ie::SNssai) -> SNssai {
    SNssai {
        sst: sent.sst,
        sd: sent.sd,
    }
}

/// Digits, the first in the low half of an octet; the high half of the last may be filled (TS 29.274 §8.3).
fn tbcd(octets: &[u8]) -> Option<Box<str>> {
    let halves = octets.iter().flat_map(|octet| [octet & 0xf, octet >> 4]);
    let digits: String = halves
        .take_while(|half| *half != 0xf)
        .map(|half| char::from(b"0123456789*#abc"[usize::from(half)]))
        .collect();
    (!digits.is_empty()).then(|| digits.into())
}

/// The most octets of a text: what an IE with a length of one octet can have. DNNs have 100 (TS 23.003 §9.1).
const LONGEST: usize = 255;

/// Text; octets that are none are written as `\x` and two digits.
fn plain(octets: &[u8]) -> Option<Box<str>> {
    let octets = octets.get(..LONGEST).unwrap_or(octets);
    let text = octets.utf8_chunks().flat_map(|chunk| {
        let valid = chunk.valid().chars().map(String::from);
        valid.chain(chunk.invalid().iter().map(|octet| format!("\\x{octet:02x}")))
    });
    let text: String = text.collect();
    (!text.is_empty()).then(|| text.into())
}

/// The labels of a DNN with dots between; one that is not in labels is taken as text, as some SMFs send it.
fn name(sent: ApnDnn<'_>) -> Option<Box<str>> {
    labels(sent.0).map_or_else(|| plain(sent.0), |labels| plain(&labels))
}

fn labels(mut octets: &[u8]) -> Option<Vec<u8>> {
    let mut name = Vec::new();
    while let Some((length, rest)) = octets.split_first().filter(|(length, _)| **length > 0) {
        let (label, behind) = rest.split_at_checked(usize::from(*length).min(64))?;
        if !name.is_empty() {
            name.push(b'.');
        }
        name.extend_from_slice(label);
        octets = behind;
    }
    Some(name).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_in_halves_of_octets() {
        assert_eq!(tbcd(&[0x00, 0x01, 0x21, 0xf3]).as_deref(), Some("0010123"));
        assert_eq!(tbcd(&[0x21, 0x43]).as_deref(), Some("1234"));
        assert_eq!(tbcd(&[]), None);
        assert_eq!(tbcd(&[0xff]), None);
    }

    #[test]
    fn a_dnn_is_in_labels_or_as_it_is_read() {
        let named = |octets: &'static [u8]| name(ApnDnn(octets)).map(String::from);
        assert_eq!(named(b"\x08internet"), Some("internet".into()));
        assert_eq!(named(b"\x03ims\x06mnc001\x00"), Some("ims.mnc001".into()));
        assert_eq!(named(b"internet"), Some("internet".into()));
        assert_eq!(named(b"\x03a\xffb"), Some("a\\xffb".into()));
        assert_eq!(named(b""), None);
    }

    #[test]
    fn a_slice_without_a_differentiator_has_none() {
        let sent = |sd| slice(pfcp::ie::SNssai { sst: 1, sd });
        assert_eq!(sent([0xff; 3]).differentiator(), None);
        assert_eq!(sent([0, 0, 10]).differentiator(), Some([0, 0, 10]));
        assert_eq!(sent([0, 0, 10]).sst, 1);
    }
}
