//! Any flow description: parsed or refused; what is parsed prints as what parses to the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rules::sdf::FlowDescription;

fuzz_target!(|text: &str| {
    if let Ok(description) = text.parse::<FlowDescription>() {
        assert_eq!(description.to_string().parse(), Ok(description));
    }
});
