//! One EAL for all tests of a process. Not for production code.

use std::sync::OnceLock;

use crate::eal::Eal;

/// The process's EAL, started on first use in the mode that needs no privilege, with 512 MiB.
///
/// # Panics
///
/// When EAL does not start: no test can go on then.
pub fn eal() -> &'static Eal {
    static TESTS: OnceLock<&'static Eal> = OnceLock::new();
    TESTS.get_or_init(|| match Eal::builder().init() {
        Ok(eal) => eal,
        Err(error) => panic!("{error}"),
    })
}
