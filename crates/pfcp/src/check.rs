//! Presence rules that depend on the interface, which a codec cannot know by itself.

use crate::error::Error;
use crate::group::CreatePdr;
use crate::ie_type::IeType;

/// The reference point that a message came over (TS 29.244 §4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Interface {
    /// SMF and UPF.
    N4,
    /// SGW-C and SGW-U.
    Sxa,
    /// PGW-C and PGW-U.
    Sxb,
}

impl CreatePdr<'_> {
    /// Checks what Table 7.5.2.2-1 says for `interface` only: Precedence is mandatory on N4 and Sxb, and has no place
    /// on Sxa.
    ///
    /// # Errors
    /// Cause 66 and Precedence.
    pub fn check(&self, interface: Interface) -> Result<(), Error> {
        match (interface, self.precedence) {
            (Interface::Sxa, _) | (_, Some(_)) => Ok(()),
            (Interface::N4 | Interface::Sxb, None) => Err(Error::missing(IeType::PRECEDENCE)),
        }
    }
}
