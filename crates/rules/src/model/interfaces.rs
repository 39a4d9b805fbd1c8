//! Source and destination interfaces (TS 29.244 §8.2.2, §8.2.24).

use flow::Direction;

/// Defines an interface type of 4 bits, with the values that both clauses define alike: 0 Access, 1 Core, 2 SGi-LAN or
/// N6-LAN, 3 CP function.
macro_rules! interface {
    (
        $(#[$doc:meta])*
        $name:ident:
        $(#[$access:meta])* Access,
        $(#[$core:meta])* Core,
        $(#[$sgi_lan:meta])* SgiLan,
        $(#[$cp_function:meta])* CpFunction $(,)?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum $name {
            $(#[$access])*
            Access,
            $(#[$core])*
            Core,
            $(#[$sgi_lan])*
            SgiLan,
            $(#[$cp_function])*
            CpFunction,
            /// Another value, 4..=15.
            Other(u8),
        }

        impl $name {
            /// The interface with this value; only the low four bits count.
            pub const fn from_value(value: u8) -> Self {
                match value & 0x0f {
                    0 => Self::Access,
                    1 => Self::Core,
                    2 => Self::SgiLan,
                    3 => Self::CpFunction,
                    other => Self::Other(other),
                }
            }

            /// The value on the wire, 0..=15.
            pub const fn value(self) -> u8 {
                match self {
                    Self::Access => 0,
                    Self::Core => 1,
                    Self::SgiLan => 2,
                    Self::CpFunction => 3,
                    Self::Other(other) => other,
                }
            }
        }
    };
}

interface! {
    /// Where a packet comes from (TS 29.244 §8.2.2).
    SourceInterface:
    /// From the UE's side: uplink.
    Access,
    /// From the data network's side: downlink.
    Core,
    /// From the SGi-LAN or N6-LAN. Some SMFs send it for the data network.
    SgiLan,
    /// From the control plane function, over N4-u or Sx-u.
    CpFunction,
}

interface! {
    /// Where a packet goes (TS 29.244 §8.2.24).
    DestinationInterface:
    /// To the UE's side: downlink.
    Access,
    /// To the data network's side: uplink.
    Core,
    /// To the SGi-LAN or N6-LAN; treated as [`Core`](Self::Core), since some SMFs send it for the data network.
    SgiLan,
    /// To the control plane function, over N4-u or Sx-u.
    CpFunction,
}

impl SourceInterface {
    /// Uplink from Access, else downlink: the direction that SDF filters are read in (TS 29.244 §5.2.1A.2A).
    pub const fn direction(self) -> Direction {
        match self {
            Self::Access => Direction::Uplink,
            _ => Direction::Downlink,
        }
    }

    /// Whether it is the data network's side: plain packets come from it.
    pub const fn is_data_network(self) -> bool {
        matches!(self, Self::Core | Self::SgiLan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_interfaces_keep_their_values() {
        for value in 0..16 {
            assert_eq!(SourceInterface::from_value(value).value(), value);
        }
        assert_eq!(SourceInterface::from_value(0xf1), SourceInterface::Core);
    }

    #[test]
    fn destinations_keep_their_values() {
        for value in 0..16 {
            assert_eq!(DestinationInterface::from_value(value).value(), value);
        }
    }
}
