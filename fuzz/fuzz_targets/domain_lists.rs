#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sluice_fuzz::domain_lists::run(input));
