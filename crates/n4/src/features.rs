//! What we tell peers that we can do (TS 29.244 §8.2.25): exactly what is implemented.

use pfcp::ie::UpFunctionFeatures as Features;

/// UP Function Features that are implemented. EMPU, mandatory on N4 as well as FTUP, is missing until end markers are
/// sent.
const OURS: &[Features] = &[
    Features::FTUP,
    Features::SSET,
    Features::BUNDL,
    Features::MPAS,
    Features::RESPS,
];

/// Our UP Function Features, on six octets at least, which releases since 15 all understand.
pub fn up_function_features() -> Features {
    let none = Features::empty().on_octets(6);
    OURS.iter().fold(none, |all, one| all | *one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_promised_that_is_not_done() {
        let promised = Features::FTUP | Features::SSET | Features::MPAS | Features::RESPS | Features::BUNDL;
        assert_eq!(up_function_features(), promised);
        assert!(up_function_features().octets() >= 6);
    }
}
