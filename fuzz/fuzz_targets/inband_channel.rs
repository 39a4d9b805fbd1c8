#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sluice_fuzz::inband_channel::run(input));
