//! Why a library is not taken.

use core::fmt;

/// What a library says of its interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// `NDPI_API_VERSION` of its headers.
    pub api: u16,
    /// The octets of the states of a flow, and in it of TCP and UDP.
    pub state_octets: [u32; 3],
}

/// The one that is known: that of nDPI 4.2, Debian's package libndpi4.2.
pub const KNOWN: Interface = Interface {
    api: 8668,
    state_octets: [688, 136, 88],
};

/// Why a library is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The name is neither that of a file in the loader's folders nor a whole path.
    Name,
    /// The file at a path may be changed by others than root and the user of this process; or it cannot be looked at.
    Ownership(String),
    /// The loader refuses it.
    NotLoaded(String),
    /// It has no such function.
    NoFunction(&'static str),
    /// It is another nDPI than the one that is known.
    Interface {
        /// What it calls itself.
        revision: String,
        /// What it says.
        found: Interface,
    },
    /// It has no memory for a module, or more protocols than there is room for.
    NoModule,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name => {
                f.write_str("it must be the name of a file without a folder, or begin with a slash")
            }
            Self::Ownership(fault) | Self::NotLoaded(fault) => f.write_str(fault),
            Self::NoFunction(name) => write!(f, "it is no nDPI that is known: it has no function `{name}`"),
            Self::Interface { revision, found } => write!(
                f,
                "it is nDPI {revision}, with the interface {found}; known is that of nDPI 4.2, {KNOWN}"
            ),
            Self::NoModule => {
                f.write_str("it makes no module: there is no memory, or it is no nDPI that is known")
            }
        }
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [flow, tcp, udp] = self.state_octets;
        write!(f, "{} (states of {flow}, {tcp} and {udp} octets)", self.api)
    }
}

impl std::error::Error for OpenError {}
