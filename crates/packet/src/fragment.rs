//! [`Fragment`]: whether an IP packet is a fragment, in both families.

/// Whether a packet is a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(u8)]
pub enum Fragment {
    /// Whole.
    #[default]
    None,
    /// The fragment with offset 0: it has the ports.
    First,
    /// Another fragment: it has no ports.
    Later,
}
