//! Keys and the message authentication code of frames: HMAC-SHA-256 (RFC 2104, FIPS 180-4), its first 16 octets.

use std::fmt;

use hmac::{Hmac, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

/// Octets of the MAC behind the payload.
pub const MAC_LEN: usize = 16;

/// The pre-shared key of host and accelerator. It is overwritten when it is dropped, and not shown by `Debug`.
#[derive(Clone)]
pub struct Key(Zeroizing<Vec<u8>>);

impl Key {
    /// Octets of a key, at least.
    pub const MIN_LEN: usize = 32;

    /// A key of these octets, which are to be random. An error when they are fewer than [`Self::MIN_LEN`].
    pub fn new(octets: Vec<u8>) -> Result<Self, ShortKey> {
        let octets = Zeroizing::new(octets);
        if octets.len() < Self::MIN_LEN {
            return Err(ShortKey(octets.len()));
        }
        Ok(Self(octets))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// A key of this number of octets: too few.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortKey(pub usize);

impl fmt::Display for ShortKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the key has {} octets, at least {} are needed",
            self.0,
            Key::MIN_LEN
        )
    }
}

impl std::error::Error for ShortKey {}

/// A random number that one end draws for one contact.
pub(super) type Nonce = [u8; 16];

/// What the key of a contact is made of, beside the pre-shared key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Contact {
    pub channel: u8,
    pub handshake: u32,
    pub host_boot: u64,
    pub accelerator_boot: u64,
    pub host_nonce: Nonce,
    pub accelerator_nonce: Nonce,
}

const HELLO_LABEL: &[u8] = b"sluice in-band 1 hello";
const CONTACT_LABEL: &[u8] = b"sluice in-band 1 contact";

/// In front of octets beside the channel: no frame begins so, whose first octet is [`VERSION`](super::VERSION).
const BESIDE: u8 = 0xff;

/// The first half of what an HMAC gives.
fn first_of(mac: Hmac<Sha256>) -> [u8; MAC_LEN] {
    let [first @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _]: [u8; 32] =
        mac.finalize().into_bytes().into();
    first
}

/// The key of frames' MACs, with its two first blocks already hashed.
#[derive(Clone)]
pub(super) struct MacKey(Hmac<Sha256>);

impl MacKey {
    fn new(key: &[u8]) -> Self {
        Self(<Hmac<Sha256> as Mac>::new_from_slice(key).expect("HMAC takes keys of any length"))
    }

    fn derive(key: &Key, parts: &[&[u8]]) -> Self {
        let Self(mut derivation) = Self::new(&key.0);
        for part in parts {
            derivation.update(part);
        }
        let derived: Zeroizing<[u8; 32]> = Zeroizing::new(derivation.finalize().into_bytes().into());
        Self::new(&derived[..])
    }

    /// The key of HELLO frames of `channel`.
    pub fn of_hello(key: &Key, channel: u8) -> Self {
        Self::derive(key, &[HELLO_LABEL, &[channel]])
    }

    /// The key of all other frames of a contact.
    pub fn of_contact(key: &Key, contact: &Contact) -> Self {
        let parts: [&[u8]; 7] = [
            CONTACT_LABEL,
            &[contact.channel],
            &contact.handshake.to_be_bytes(),
            &contact.host_boot.to_be_bytes(),
            &contact.accelerator_boot.to_be_bytes(),
            &contact.host_nonce,
            &contact.accelerator_nonce,
        ];
        Self::derive(key, &parts)
    }

    /// The MAC of `octets`.
    pub fn mac(&self, octets: &[u8]) -> [u8; MAC_LEN] {
        let mut mac = self.0.clone();
        mac.update(octets);
        first_of(mac)
    }

    /// The MAC of octets beside the channel, sent by the end with this role.
    pub fn mac_beside(&self, role: u8, octets: &[u8]) -> [u8; MAC_LEN] {
        let mut mac = self.0.clone();
        mac.update(&[BESIDE, role]);
        mac.update(octets);
        first_of(mac)
    }

    /// Whether `mac` is that of such octets, in a time that does not depend on where they differ.
    pub fn verifies_beside(&self, role: u8, octets: &[u8], mac: &[u8; MAC_LEN]) -> bool {
        let mut expected = self.0.clone();
        expected.update(&[BESIDE, role]);
        expected.update(octets);
        expected.verify_truncated_left(mac).is_ok()
    }

    /// Whether `mac` is that of `octets`, in a time that does not depend on where they differ.
    pub fn verifies(&self, octets: &[u8], mac: &[u8; MAC_LEN]) -> bool {
        let mut expected = self.0.clone();
        expected.update(octets);
        expected.verify_truncated_left(mac).is_ok()
    }
}
