//! What we tell peers that we can do (TS 29.244 §8.2.25): exactly what is implemented.

use pfcp::ie::UpFunctionFeatures;

/// What is done here: F-TEIDs are allocated (FTUP) and End Markers sent (EMPU), both mandatory on N4; packets are
/// buffered, for as long and as many as BARs say (DDND, DLBD, UDBC).
const DONE: [UpFunctionFeatures; 5] = [
    UpFunctionFeatures::FTUP,
    UpFunctionFeatures::EMPU,
    UpFunctionFeatures::DDND,
    UpFunctionFeatures::DLBD,
    UpFunctionFeatures::UDBC,
];

/// UP Function Features, written on six octets, which releases since 15 all understand.
pub(crate) fn up_function_features() -> UpFunctionFeatures {
    let none = UpFunctionFeatures::FTUP;
    DONE.into_iter().fold(none, |all, one| all | one).on_octets(6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_promised_that_is_not_done() {
        // Octet 5: DDND, DLBD, FTUP; octet 6: EMPU, UDBC (TS 29.244 Table 8.2.25-1).
        assert_eq!(up_function_features().bits(), 0x0516);
    }
}
