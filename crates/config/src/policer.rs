//! Policers: rates that the sessions of a slice or a data network share.

use flow::meter::Rate;
use rules::model::SNssai;
use rules::network::{Policer, Policers};
use serde::Deserialize;
use serde_saphyr::Spanned;

use super::error::Fault;
use super::{Bounded, Config};

/// A rate in kbit/s: up to 10 Tbit/s.
type Kbit = Bounded<0, 10_000_000_000>;

/// One policer, for a slice, a data network, or a data network within a slice.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicerConfig {
    /// Its name, which a session's record holds.
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
}

/// A slice (S-NSSAI, TS 23.003 §28.4.2).
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SliceConfig {
    /// Slice/Service Type.
    pub sst: Bounded<0, 255>,
    /// Slice Differentiator, six hexadecimal digits; none.
    #[serde(default)]
    pub sd: Option<String>,
}

impl SliceConfig {
    fn s_nssai(&self) -> Option<SNssai> {
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

impl PolicerConfig {
    fn policer(&self) -> Policer {
        let rate = |kbit: Option<Kbit>| kbit.map_or(Rate::UNLIMITED, |kbit| Rate::from_kbit(kbit.value()));
        Policer {
            name: self.name.value.clone(),
            slice: self.slice.as_ref().and_then(SliceConfig::s_nssai),
            dnn: self.dnn.clone(),
            rates: [rate(self.uplink_kbit), rate(self.downlink_kbit)],
        }
    }
}

impl Config {
    /// The policers in their order.
    pub(super) fn policers(&self) -> Vec<Policer> {
        self.policers.iter().map(PolicerConfig::policer).collect()
    }
}

/// Finds the first policer that contradicts something.
pub(super) fn check(config: &Config) -> Result<(), Fault> {
    let policers = config.policers();
    for (place, (one, policer)) in config.policers.iter().zip(&policers).enumerate() {
        let name = &one.name;
        let fault = |message: &str| Err(Fault::new(name, format!("policer `{}`: {message}", name.value)));
        if place >= Policers::MAX {
            return Err(Fault::new(name, format!("policers: more than {}", Policers::MAX)));
        }
        if !(1..=100).contains(&name.value.len()) {
            return fault("the name has no character, or more than 100");
        }
        if one.slice.as_ref().is_some_and(|slice| slice.s_nssai().is_none()) {
            return fault("slice.sd: not six hexadecimal digits");
        }
        if one
            .dnn
            .as_ref()
            .is_some_and(|dnn| !(1..=100).contains(&dnn.len()))
        {
            return fault("dnn: no character, or more than 100");
        }
        if one.slice.is_none() && one.dnn.is_none() {
            return fault("names neither slice nor dnn");
        }
        let mut earlier = policers.iter().take(place);
        if earlier.clone().any(|other| other.name == policer.name) {
            return fault("another has this name");
        }
        if earlier.any(|other| other.slice == policer.slice && same(other, policer)) {
            return fault("another is for the same sessions");
        }
    }
    Ok(())
}

fn same(one: &Policer, other: &Policer) -> bool {
    let lower = |policer: &Policer| policer.dnn.as_ref().map(|dnn| dnn.to_ascii_lowercase());
    lower(one) == lower(other)
}
