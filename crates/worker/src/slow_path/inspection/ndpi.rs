//! What inspection has of nDPI, for others.

use dpi::NdpiProtocol;

use super::Inspection;

impl Inspection {
    /// Flows that nDPI looks at, and what it has allocated by itself, octets.
    pub fn ndpi_holdings(&self) -> (usize, u64) {
        let held = self.ndpi.as_ref();
        held.map_or((0, 0), |ndpi| (ndpi.len(), ndpi.octets()))
    }

    /// What nDPI calls a protocol.
    pub fn ndpi_name(&self, protocol: NdpiProtocol) -> Option<String> {
        Some(self.ndpi.as_ref()?.name(protocol))
    }
}
