//! The loaded library, and what it calls protocols.

use core::fmt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use dpi::{NdpiId, NdpiProtocol};

use crate::functions::{Functions, load};
use crate::module::{Module, STATE_OCTETS, text};
use crate::open_error::{Interface, KNOWN, OpenError};
use crate::{allocation, ownership};

/// A library of nDPI that was loaded, and whose interface is known. It stays loaded for good.
pub struct Library {
    functions: Functions,
    revision: String,
    /// The names of protocols by their numbers. The first is that of none.
    names: Box<[String]>,
}

const _: () = assert!(KNOWN.state_octets[0] as usize == STATE_OCTETS);

impl Library {
    /// Loads the library `file`: the name of a file in the loader's folders, or a whole path. Of one at a path root or
    /// this process's user is the owner, and others may not write to it.
    ///
    /// # Errors
    /// There is none, or it is not one that is known.
    pub fn open(file: &str) -> Result<Self, OpenError> {
        let path = Path::new(file);
        match (path.is_absolute(), file.contains('/')) {
            (true, _) => ownership::check(path).map_err(OpenError::Ownership)?,
            (false, true) => return Err(OpenError::Name),
            (false, false) if file.is_empty() => return Err(OpenError::Name),
            (false, false) => (),
        }
        let functions = load(path)?;
        let revision = check(&functions)?;
        set_allocator(&functions);
        let module = Module::new(functions).ok_or(OpenError::NoModule)?;
        let count = u16::try_from(module.protocols()).ok();
        let count = count.filter(|count| (1..=NdpiId::LAST).contains(count));
        let count = count.ok_or(OpenError::NoModule)?;
        Ok(Self {
            functions,
            revision,
            names: (0..count).map(|number| module.name(number)).collect(),
        })
    }

    /// The release that it says it is.
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// The protocol with this name, whatever its case.
    pub fn protocol(&self, name: &str) -> Option<NdpiId> {
        let mut names = self.names.iter().skip(1);
        let place = names.position(|known| known.eq_ignore_ascii_case(name))?;
        NdpiId::new(u16::try_from(place + 1).ok()?)
    }

    /// The names of protocols, in the order of their numbers.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().skip(1).map(String::as_str)
    }

    /// What a flow of this is called: `BitTorrent`, or with what carries it `TLS.Facebook`.
    pub fn name(&self, protocol: NdpiProtocol) -> String {
        let name = |id: NdpiId| {
            self.names
                .get(usize::from(id.number()))
                .map_or("?", String::as_str)
        };
        let application = name(protocol.application);
        match protocol.carrier {
            Some(carrier) => format!("{}.{application}", name(carrier)),
            None => application.to_owned(),
        }
    }

    pub(crate) fn functions(&self) -> Functions {
        self.functions
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nDPI {}", self.revision)
    }
}

/// The release of a library with the interface that is known.
#[allow(unsafe_code)]
fn check(functions: &Functions) -> Result<String, OpenError> {
    // SAFETY: they take nothing, and return numbers, and a text that is there as long as the library is.
    let (revision, found) = unsafe {
        let interface = Interface {
            api: (functions.ndpi_get_api_version)(),
            state_octets: [
                (functions.ndpi_detection_get_sizeof_ndpi_flow_struct)(),
                (functions.ndpi_detection_get_sizeof_ndpi_flow_tcp_struct)(),
                (functions.ndpi_detection_get_sizeof_ndpi_flow_udp_struct)(),
            ],
        };
        (text((functions.ndpi_revision)()), interface)
    };
    match found == KNOWN {
        true => Ok(revision),
        false => Err(OpenError::Interface { revision, found }),
    }
}

/// The libraries whose allocator is set, by the addresses of their functions that set it: few.
static SET: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Has the library allocate by functions of ours. Once: it may be in use when it is opened again.
#[allow(unsafe_code)]
fn set_allocator(functions: &Functions) {
    let mut set = SET.lock().unwrap_or_else(PoisonError::into_inner);
    let library = functions.set_ndpi_malloc as usize;
    if set.contains(&library) {
        return;
    }
    set.push(library);
    // SAFETY: each call sets a pointer. No other thread has the library yet: none has come out of here with it.
    unsafe {
        (functions.set_ndpi_malloc)(allocation::allocate);
        (functions.set_ndpi_free)(allocation::release);
    }
}
