//! Keys of Initial packets, and their protection (RFC 9001 §5).

use core::ops::Range;

use super::header::{ConnectionId, Initial};

/// What the keys of a flow's Initial packets are derived from: the Destination Connection ID of the client's first
/// Initial packet, and after a Retry that of the packet which answers it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeySource {
    /// Of the last packet that was opened with keys of its own ID.
    id: Option<ConnectionId>,
}

impl KeySource {
    /// Opens a packet in `scratch`, and says where in it the payload is. Nothing if it is not authentic under keys that
    /// the client may have, or longer than `scratch`.
    ///
    /// AWS-LC allocates the contexts of its keys and frees them before this returns; the memory does not grow.
    pub fn open(&mut self, initial: &Initial<'_>, scratch: &mut [u8]) -> Option<Range<usize>> {
        if let Some(id) = self.id
            && let Some(payload) = protection::open(initial, &id, scratch)
        {
            return Some(payload);
        }
        if self.id == Some(initial.destination) {
            return None;
        }
        let payload = protection::open(initial, &initial.destination, scratch)?;
        self.id = Some(initial.destination);
        Some(payload)
    }
}

#[cfg(not(feature = "quic"))]
mod protection {
    use super::*;

    pub(super) fn open(_: &Initial<'_>, _: &ConnectionId, _: &mut [u8]) -> Option<Range<usize>> {
        None
    }
}

#[cfg(feature = "quic")]
mod protection {
    use aws_lc_rs::aead::quic::{AES_128 as MASK, HeaderProtectionKey};
    use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
    use aws_lc_rs::digest::{SHA256, digest};

    use super::super::header::Version;
    use super::*;

    const KEY_LEN: usize = 16;
    const HASH_LEN: usize = 32;
    const HASH_BLOCK: usize = 64;
    const SAMPLE_LEN: usize = 16;
    const LONGEST_NUMBER: usize = 4;

    /// Salt and labels of a version: RFC 9001 §5.2, §5.1; RFC 9369 §3.3.1, §3.3.2.
    struct Derivation {
        salt: [u8; 20],
        key: &'static str,
        iv: &'static str,
        header_protection: &'static str,
    }

    const V1: Derivation = Derivation {
        salt: [
            0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad,
            0xcc, 0xbb, 0x7f, 0x0a,
        ],
        key: "quic key",
        iv: "quic iv",
        header_protection: "quic hp",
    };
    const V2: Derivation = Derivation {
        salt: [
            0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93, 0x81, 0xbe, 0x6e, 0x26, 0x9d, 0xcb,
            0xf9, 0xbd, 0x2e, 0xd9,
        ],
        key: "quicv2 key",
        iv: "quicv2 iv",
        header_protection: "quicv2 hp",
    };

    /// HMAC with SHA-256 (RFC 2104) of a key and a message of at most a block each. That of the library keeps each key
    /// in a context on the heap, and takes twice as long. Nothing here is secret: all can derive these keys.
    fn hmac(key: &[u8], message: &[u8]) -> Option<[u8; HASH_LEN]> {
        let mut inner = [0x36; 2 * HASH_BLOCK];
        let mut outer = [0x5c; HASH_BLOCK + HASH_LEN];
        for (at, octet) in key.iter().enumerate().take(HASH_BLOCK) {
            inner[at] ^= octet;
            outer[at] ^= octet;
        }
        let end = HASH_BLOCK + message.len();
        inner.get_mut(HASH_BLOCK..end)?.copy_from_slice(message);
        let inner = digest(&SHA256, inner.get(..end)?);
        outer.get_mut(HASH_BLOCK..)?.copy_from_slice(inner.as_ref());
        digest(&SHA256, &outer).as_ref().try_into().ok()
    }

    /// HKDF-Expand-Label without context (RFC 8446 §7.1), of at most a hash: one HMAC (RFC 5869 §2.3).
    fn expand<const N: usize>(secret: &[u8; HASH_LEN], label: &str) -> Option<[u8; N]> {
        const PREFIX: &[u8] = b"tls13 ";
        let mut info = [0; HASH_BLOCK];
        let end = 3 + PREFIX.len() + label.len();
        info.get_mut(..3)?
            .copy_from_slice(&[0, N as u8, (PREFIX.len() + label.len()) as u8]);
        info.get_mut(3..3 + PREFIX.len())?.copy_from_slice(PREFIX);
        info.get_mut(3 + PREFIX.len()..end)?
            .copy_from_slice(label.as_bytes());
        // Behind the label the length of no context, and the number of the first block.
        *info.get_mut(end + 1)? = 1;
        hmac(secret, info.get(..end + 2)?)?.first_chunk().copied()
    }

    /// What a client protects its Initial packets with.
    pub(super) struct Keys {
        pub(super) key: [u8; KEY_LEN],
        pub(super) iv: [u8; NONCE_LEN],
        pub(super) header_protection: [u8; KEY_LEN],
    }

    impl Keys {
        /// RFC 9001 §5.2.
        pub(super) fn of_client(version: Version, id: &ConnectionId) -> Option<Keys> {
            let derivation = match version {
                Version::V1 => &V1,
                Version::V2 => &V2,
            };
            let initial_secret = hmac(&derivation.salt, id.as_bytes())?;
            let client_secret = expand(&initial_secret, "client in")?;
            Some(Keys {
                key: expand(&client_secret, derivation.key)?,
                iv: expand(&client_secret, derivation.iv)?,
                header_protection: expand(&client_secret, derivation.header_protection)?,
            })
        }

        /// RFC 9001 §5.3.
        pub(super) fn nonce(&self, number: u32) -> Nonce {
            let mut nonce = self.iv;
            for (octet, of_number) in nonce.iter_mut().rev().zip(number.to_le_bytes()) {
                *octet ^= of_number;
            }
            Nonce::assume_unique_for_key(nonce)
        }

        pub(super) fn aead(&self) -> Option<LessSafeKey> {
            Some(LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &self.key).ok()?))
        }

        /// RFC 9001 §5.4.3.
        pub(super) fn mask(&self, sample: &[u8]) -> Option<[u8; 5]> {
            let key = HeaderProtectionKey::new(&MASK, &self.header_protection).ok()?;
            key.new_mask(sample).ok()
        }
    }

    pub(super) fn open(initial: &Initial<'_>, id: &ConnectionId, scratch: &mut [u8]) -> Option<Range<usize>> {
        let keys = Keys::of_client(initial.version, id)?;
        let packet = scratch.get_mut(..initial.packet.len())?;
        packet.copy_from_slice(initial.packet);
        let (header_len, number) = unprotect_header(&keys, packet, initial.number_at)?;
        let (header, sealed) = packet.split_at_mut_checked(header_len)?;
        // The first packets of a connection have numbers below 2^32: what is sent of one is all of it (RFC 9000 §17.1).
        let opened = keys
            .aead()?
            .open_in_place(keys.nonce(number), Aad::from(header), sealed)
            .ok()?;
        Some(header_len..header_len + opened.len())
    }

    /// Takes header protection off (RFC 9001 §5.4.1). The length of the header, and the Packet Number.
    fn unprotect_header(keys: &Keys, packet: &mut [u8], number_at: usize) -> Option<(usize, u32)> {
        let sample_at = number_at + LONGEST_NUMBER;
        let mask = keys.mask(packet.get(sample_at..sample_at + SAMPLE_LEN)?)?;
        let first = packet.first_mut()?;
        *first ^= mask[0] & 0x0f;
        let number_len = usize::from(*first & 3) + 1;
        let header_len = number_at + number_len;
        let octets = packet.get_mut(number_at..header_len)?;
        let mut number = 0;
        for (octet, mask) in octets.iter_mut().zip(&mask[1..]) {
            *octet ^= mask;
            number = number << 8 | u32::from(*octet);
        }
        Some((header_len, number))
    }
}

#[cfg(all(test, feature = "quic"))]
mod tests {
    use super::super::{CryptoFrame, Version, crypto_frames, packets};
    use super::protection::Keys;
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        let pairs = digits
            .chunks(2)
            .map(|pair| core::str::from_utf8(pair).expect("digits"));
        pairs
            .map(|pair| u8::from_str_radix(pair, 16).expect("digits"))
            .collect()
    }

    /// The CRYPTO frame of RFC 9001 Appendix A.2, which RFC 9369 Appendix A.2 has, too.
    const CRYPTO: &str = "060040f1010000ed0303ebf8fa56f12939b9584a3896472ec40bb863cfd3e868
        04fe3a47f06a2b69484c00000413011302010000c000000010000e00000b6578
        616d706c652e636f6dff01000100000a00080006001d00170018001000070005
        04616c706e000500050100000000003300260024001d00209370b2c9caa47fba
        baf4559fedba753de171fa71f50f1ce15d43e994ec74d748002b000302030400
        0d0010000e0403050306030203080408050806002d00020101001c0002400100
        3900320408ffffffffffffffff05048000ffff07048000ffff08011001048000
        75300901100f088394c8f03e51570806048000ffff";

    struct Vector {
        version: Version,
        key: &'static str,
        iv: &'static str,
        header_protection: &'static str,
        header: &'static str,
        /// How the protected packet of 1,200 octets starts and ends.
        start: &'static str,
        end: &'static str,
    }

    const VECTORS: [Vector; 2] = [
        // RFC 9001 Appendix A.1, A.2.
        Vector {
            version: Version::V1,
            key: "1f369613dd76d5467730efcbe3b1a22d",
            iv: "fa044b2f42a3fd3b46fb255c",
            header_protection: "9f50449e04a0e810283a1e9933adedd2",
            header: "c300000001088394c8f03e5157080000449e00000002",
            start: "c000000001088394c8f03e5157080000449e7b9aec34d1b1c98dd7689fb8ec11",
            end: "e221af44860018ab0856972e194cd934",
        },
        // RFC 9369 Appendix A.1, A.2.
        Vector {
            version: Version::V2,
            key: "8b1a0bc121284290a29e0971b5cd045d",
            iv: "91f73e2351d8fa91660e909f",
            header_protection: "45b95e15235d6f45a6b19cbcb0294ba9",
            header: "d36b3343cf088394c8f03e5157080000449e00000002",
            start: "d76b3343cf088394c8f03e5157080000449ea0c95e82ffe67b6abcdb4298b485",
            end: "a18b2faa745b6fe189cf772a9f84cbfc",
        },
    ];

    /// The packet of a vector: that it ends with its tag means that all of it is right.
    fn protected(vector: &Vector, keys: &Keys) -> Vec<u8> {
        let header = hex(vector.header);
        let mut payload = hex(CRYPTO);
        payload.resize(1_162, 0);
        let aad = aws_lc_rs::aead::Aad::from(&header);
        let aead = keys.aead().expect("a key");
        aead.seal_in_place_append_tag(keys.nonce(2), aad, &mut payload)
            .expect("a sealed payload");
        let mut packet = [header, payload].concat();
        let mask = keys.mask(&packet[22..38]).expect("a mask");
        packet[0] ^= mask[0] & 0x0f;
        packet[18..22]
            .iter_mut()
            .zip(&mask[1..])
            .for_each(|(octet, mask)| *octet ^= mask);
        packet
    }

    #[test]
    fn the_client_initials_of_the_rfcs_are_opened() {
        let id = ConnectionId::new(&hex("8394c8f03e515708")).expect("an ID");
        for vector in &VECTORS {
            let keys = Keys::of_client(vector.version, &id).expect("keys");
            assert_eq!(keys.key[..], hex(vector.key));
            assert_eq!(keys.iv[..], hex(vector.iv));
            assert_eq!(keys.header_protection[..], hex(vector.header_protection));

            let packet = protected(vector, &keys);
            assert_eq!(packet.len(), 1_200);
            assert!(packet.starts_with(&hex(vector.start)) && packet.ends_with(&hex(vector.end)));

            let initial = packets(&packet).next().expect("an Initial packet");
            assert_eq!((initial.version, initial.destination), (vector.version, id));
            let mut scratch = [0; 2_000];
            let payload = KeySource::default()
                .open(&initial, &mut scratch)
                .expect("an authentic packet");
            let crypto = hex(CRYPTO);
            let expected = CryptoFrame {
                offset: 0,
                data: &crypto[4..],
            };
            assert_eq!(
                crypto_frames(&scratch[payload]).collect::<Vec<_>>(),
                [Ok(expected)]
            );
        }
    }

    #[test]
    fn a_packet_that_is_changed_is_not_opened() {
        let id = ConnectionId::new(&hex("8394c8f03e515708")).expect("an ID");
        let keys = Keys::of_client(Version::V1, &id).expect("keys");
        let packet = protected(&VECTORS[0], &keys);
        for at in (0..packet.len()).step_by(7) {
            let mut changed = packet.clone();
            changed[at] ^= 1;
            let opened = packets(&changed)
                .next()
                .and_then(|initial| KeySource::default().open(&initial, &mut [0; 2_000]));
            assert_eq!(opened, None, "{at}");
        }
        let whole = packets(&packet).next().expect("an Initial packet");
        assert_eq!(KeySource::default().open(&whole, &mut [0; 1_199]), None);
    }

    #[test]
    fn the_id_that_keys_are_from_is_kept() {
        let id = ConnectionId::new(&hex("8394c8f03e515708")).expect("an ID");
        let keys = Keys::of_client(Version::V1, &id).expect("keys");
        let packet = protected(&VECTORS[0], &keys);
        let initial = packets(&packet).next().expect("an Initial packet");
        // An ID of the server's, as clients have it once they have received a packet.
        let mut source = KeySource {
            id: ConnectionId::new(b"another"),
        };
        assert!(source.open(&initial, &mut [0; 2_000]).is_some());
        assert_eq!(source.id, Some(id));
    }
}
