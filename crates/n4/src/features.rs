//! What we tell peers that we can do (TS 29.244 §8.2.25): exactly what is implemented.

use pfcp::ie::UpFunctionFeatures;

/// UP Function Features. FTUP only: F-TEIDs are allocated here. EMPU, mandatory on N4 as well, is missing until end
/// markers are sent. Written on six octets, which releases since 15 all understand.
pub(crate) fn up_function_features() -> UpFunctionFeatures {
    UpFunctionFeatures::FTUP.on_octets(6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_promised_that_is_not_done() {
        assert_eq!(up_function_features().bits(), UpFunctionFeatures::FTUP.bits());
    }
}
