//! Policers: rates that the sessions of a slice or a data network share.

use rules::model::SNssai;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_saphyr::Spanned;

use crate::bounded::Bounded;

/// A rate in kbit/s: up to 10 Tbit/s.
pub(crate) type Kbit = Bounded<0, 10_000_000_000>;

/// One policer, for a slice, a data network, or a data network within a slice.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PolicerConfig {
    /// Its name, which a session's record holds.
    #[schemars(with = "String")]
    pub name: Spanned<String>,
    /// The slice; any.
    #[serde(default)]
    pub slice: Option<SliceConfig>,
    /// The data network (APN/DNN, else the network instance towards it); any.
    #[serde(default)]
    pub dnn: Option<String>,
    /// The rate of all uplink packets together, in kbit/s of IP packets; no limit.
    #[serde(default)]
    pub uplink_kbit: Option<Kbit>,
    /// The same downlink.
    #[serde(default)]
    pub downlink_kbit: Option<Kbit>,
    /// Whether packets above the rates wait in queues (`egress`) instead of being dropped: then every instance towards
    /// gNBs, other user planes and data networks has queues; no.
    #[serde(default)]
    pub shape: bool,
    /// With `shape`: its part of what an instance lets pass, where other policers and sessions without one, which have
    /// 1, want it, too; 1.
    #[serde(default = "PolicerConfig::default_weight")]
    pub weight: Bounded<1, 255>,
}

impl PolicerConfig {
    const fn default_weight() -> Bounded<1, 255> {
        Bounded::new(1)
    }
}

/// A slice (S-NSSAI, TS 23.003 §28.4.2).
#[derive(Debug, Clone, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SliceConfig {
    /// Slice/Service Type.
    pub sst: Bounded<0, 255>,
    /// Slice Differentiator, six hexadecimal digits; none.
    #[serde(default)]
    pub sd: Option<String>,
}

impl SliceConfig {
    pub(crate) fn s_nssai(&self) -> Option<SNssai> {
        let sd = match &self.sd {
            None => SNssai::NO_SD,
            Some(digits) => three_octets(digits)?,
        };
        let sst = self.sst.value() as u8;
        Some(SNssai { sst, sd })
    }
}

fn three_octets(digits: &str) -> Option<[u8; 3]> {
    let is_hex = digits.len() == 6 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let value = u32::from_str_radix(digits, 16).ok().filter(|_| is_hex)?;
    let [_, a, b, c] = value.to_be_bytes();
    Some([a, b, c])
}
