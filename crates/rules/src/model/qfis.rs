//! Sets of QoS flows.

use core::fmt;

use packet::Qfi;

/// QoS flows that a rule is for, each once: bit n is QFI n.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Qfis(u64);

impl Qfis {
    /// None.
    pub const NONE: Self = Self(0);

    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many there are.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether this one is among them.
    pub fn contains(self, qfi: Qfi) -> bool {
        self.0 >> qfi.get() & 1 != 0
    }

    /// Bit n: QFI n is among them.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// In rising order.
    pub fn iter(self) -> impl Iterator<Item = Qfi> + use<> {
        let numbers = (0..64_u8).filter(move |number| self.0 >> number & 1 != 0);
        numbers.filter_map(Qfi::new)
    }
}

impl FromIterator<Qfi> for Qfis {
    fn from_iter<I: IntoIterator<Item = Qfi>>(flows: I) -> Self {
        let bits = flows.into_iter().fold(0, |bits, qfi| bits | 1 << qfi.get());
        Self(bits)
    }
}

impl From<Vec<Qfi>> for Qfis {
    fn from(flows: Vec<Qfi>) -> Self {
        flows.into_iter().collect()
    }
}

impl fmt::Debug for Qfis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_once_in_rising_order() {
        let flows = |numbers: &[u8]| numbers.iter().copied().filter_map(Qfi::new).collect::<Qfis>();
        let some = flows(&[9, 63, 0, 9]);
        assert_eq!((some.len(), some.is_empty()), (3, false));
        assert_eq!(some.iter().map(Qfi::get).collect::<Vec<_>>(), [0, 9, 63]);
        assert_eq!(some, flows(&[0, 9, 63]));
        assert!(some.contains(Qfi::from_low_bits(63)) && !some.contains(Qfi::from_low_bits(1)));
        assert_eq!((Qfis::NONE.len(), Qfis::NONE.iter().count()), (0, 0));
    }
}
