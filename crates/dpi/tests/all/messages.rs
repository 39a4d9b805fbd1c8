//! Messages of the protocols, as clients make them.

/// A ClientHello: its handshake message with these extensions (type and data) besides `padding` octets of one more.
pub fn client_hello_with(extensions: &[(u16, Vec<u8>)], padding: usize) -> Vec<u8> {
    let mut list = Vec::new();
    for (kind, data) in extensions.iter().chain([&(21, vec![0; padding])]) {
        list.extend(kind.to_be_bytes());
        list.extend((data.len() as u16).to_be_bytes());
        list.extend(data);
    }
    let mut body = [&[3, 3][..], &[7; 32], &[0], &[0, 2, 0x13, 0x01], &[1, 0]].concat();
    body.extend((list.len() as u16).to_be_bytes());
    body.extend(list);
    let len = (body.len() as u32).to_be_bytes();
    [&[1][..], &len[1..], &body].concat()
}

/// The data of the extension `server_name`.
pub fn server_name(host: &str) -> Vec<u8> {
    let len = host.len() as u16;
    let (list, name) = ((len + 3).to_be_bytes(), len.to_be_bytes());
    [&list[..], &[0], &name, host.as_bytes()].concat()
}

/// A ClientHello for `host`, padded.
pub fn client_hello(host: &str, padding: usize) -> Vec<u8> {
    client_hello_with(&[(10, vec![0, 2, 0, 29]), (0, server_name(host))], padding)
}

/// A handshake message in records with `fragment` octets each, at most.
pub fn records(handshake: &[u8], fragment: usize) -> Vec<u8> {
    let record = |octets: &[u8]| {
        let len = (octets.len() as u16).to_be_bytes();
        [&[22, 3, 1][..], &len, octets].concat()
    };
    handshake.chunks(fragment).flat_map(record).collect()
}

#[cfg(feature = "quic")]
pub mod quic {
    use aws_lc_rs::aead::quic::{AES_128, HeaderProtectionKey};
    use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
    use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
    use dpi::quic::Version;

    struct Octets(usize);

    impl KeyType for Octets {
        fn len(&self) -> usize {
            self.0
        }
    }

    fn expand(secret: &Prk, label: &str, octets: usize) -> Vec<u8> {
        let mut expanded = vec![0; octets];
        let len = [0, octets as u8, (6 + label.len()) as u8];
        let info = [&len[..], b"tls13 ", label.as_bytes(), &[0]];
        let okm = secret
            .expand(&info, Octets(octets))
            .expect("a length that HKDF has");
        okm.fill(&mut expanded).expect("as many octets");
        expanded
    }

    /// A CRYPTO frame with a piece of a stream.
    pub fn crypto(stream: &[u8], from: usize, to: usize) -> Vec<u8> {
        let [offset, len] = [from, to - from].map(|value| (value as u32 | 0x8000_0000).to_be_bytes());
        [&[6][..], &offset, &len, &stream[from..to]].concat()
    }

    /// An Initial packet as RFC 9001 §5 and RFC 9369 protect it, with keys from `key_id`.
    pub fn initial(
        version: Version,
        key_id: &[u8],
        destination: &[u8],
        number: u8,
        payload: &[u8],
    ) -> Vec<u8> {
        let (salt, prefix, type_bits, wire_version) = match version {
            Version::V1 => ("38762cf7f55934b34d179ae6a4c80cadccbb7f0a", "quic", 0u8, 1u32),
            Version::V2 => (
                "0dede3def700a6db819381be6e269dcbf9bd2ed9",
                "quicv2",
                1,
                0x6b33_43cf,
            ),
        };
        let digits = |at: usize| u8::from_str_radix(&salt[at..at + 2], 16).expect("digits");
        let salt: Vec<u8> = (0..salt.len()).step_by(2).map(digits).collect();
        let secret = Salt::new(HKDF_SHA256, &salt).extract(key_id);
        let client = Prk::new_less_safe(HKDF_SHA256, &expand(&secret, "client in", 32));
        let expanded = |label: &str, octets| expand(&client, &format!("{prefix} {label}"), octets);

        let sealed_len = payload.len() + 16 + 1;
        let mut header = vec![0xc0 | type_bits << 4];
        header.extend(wire_version.to_be_bytes());
        header.push(destination.len() as u8);
        header.extend(destination);
        // No Source Connection ID, a token of two octets.
        header.extend([0, 2, 9, 9]);
        header.extend((sealed_len as u16 | 0x4000).to_be_bytes());
        header.push(number);
        let mut nonce: [u8; 12] = expanded("iv", 12).try_into().expect("twelve octets");
        nonce[11] ^= number;
        let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &expanded("key", 16)).expect("a key"));
        let mut sealed = payload.to_vec();
        let nonce = Nonce::assume_unique_for_key(nonce);
        key.seal_in_place_append_tag(nonce, Aad::from(&header), &mut sealed)
            .expect("a sealed payload");
        let mask = HeaderProtectionKey::new(&AES_128, &expanded("hp", 16)).expect("a key");
        let mask = mask.new_mask(&sealed[3..19]).expect("a mask");
        header[0] ^= mask[0] & 0x0f;
        *header.last_mut().expect("a number") ^= mask[1];
        [header, sealed].concat()
    }
}
