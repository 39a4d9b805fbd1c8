//! The functions of nDPI 4.2 that are used, as `ndpi_api.h` declares them.

#![allow(unsafe_code)]

use core::ffi::{c_char, c_int, c_uint, c_ushort, c_void};
use std::path::Path;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW, Symbol};

use crate::open_error::OpenError;

/// `struct ndpi_detection_module_struct`.
#[repr(C)]
pub(crate) struct RawModule {
    _opaque: [u8; 0],
}

/// `NDPI_PROTOCOL_BITMASK`.
#[repr(C)]
pub(crate) struct RawProtocols(pub(crate) [u32; 16]);

/// `ndpi_protocol`, which is returned by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RawProtocol {
    pub(crate) master_protocol: u16,
    pub(crate) app_protocol: u16,
    _category: c_uint,
}

/// `ndpi_dont_load_tor_hosts`: a list of addresses as old as the library says nothing.
pub(crate) const DONT_LOAD_TOR_HOSTS: u32 = 1;

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)+) => {
        /// The functions.
        #[derive(Clone, Copy)]
        pub(crate) struct Functions {
            $($(#[$doc])* pub(crate) $name: $type,)+
        }

        impl Functions {
            /// Those of a loaded library.
            ///
            /// # Safety
            /// What it has under these names must be such functions, and they may not be called once it is unloaded.
            unsafe fn of(library: &Library) -> Result<Self, OpenError> {
                Ok(Self {
                    $($name: {
                        // SAFETY: the caller says so.
                        let symbol: Result<Symbol<$type>, _> = unsafe { library.get(stringify!($name).as_bytes()) };
                        *symbol.map_err(|_| OpenError::NoFunction(stringify!($name)))?
                    },)+
                })
            }
        }
    };
}

functions! {
    /// `NDPI_API_VERSION`.
    ndpi_get_api_version: unsafe extern "C" fn() -> u16;
    /// The release, as text.
    ndpi_revision: unsafe extern "C" fn() -> *const c_char;
    ndpi_detection_get_sizeof_ndpi_flow_struct: unsafe extern "C" fn() -> u32;
    ndpi_detection_get_sizeof_ndpi_flow_tcp_struct: unsafe extern "C" fn() -> u32;
    ndpi_detection_get_sizeof_ndpi_flow_udp_struct: unsafe extern "C" fn() -> u32;
    set_ndpi_malloc: unsafe extern "C" fn(extern "C" fn(usize) -> *mut c_void);
    set_ndpi_free: unsafe extern "C" fn(extern "C" fn(*mut c_void));
    /// Not to be called by two threads at a time.
    ndpi_init_detection_module: unsafe extern "C" fn(u32) -> *mut RawModule;
    ndpi_set_protocol_detection_bitmask2: unsafe extern "C" fn(*mut RawModule, *const RawProtocols);
    ndpi_finalize_initialization: unsafe extern "C" fn(*mut RawModule);
    ndpi_exit_detection_module: unsafe extern "C" fn(*mut RawModule);
    ndpi_get_num_supported_protocols: unsafe extern "C" fn(*mut RawModule) -> c_uint;
    ndpi_get_proto_name: unsafe extern "C" fn(*mut RawModule, u16) -> *const c_char;
    /// Module, state of a flow, packet from its IP header on and its length, ms.
    ndpi_detection_process_packet:
        unsafe extern "C" fn(*mut RawModule, *mut c_void, *const u8, c_ushort, u64) -> RawProtocol;
    /// Frees what the state of a flow has, not the state.
    ndpi_free_flow_data: unsafe extern "C" fn(*mut c_void);
}

/// Loads a library and finds its functions. It stays loaded for good: what it has brought with it may not bear the
/// contrary.
pub(crate) fn load(file: &Path) -> Result<Functions, OpenError> {
    let flags: c_int = RTLD_NOW | RTLD_LOCAL;
    // SAFETY: what a library does when it is loaded is its own; that it may be loaded says who configures it.
    let library = unsafe { Library::open(Some(file), flags) };
    let library = library.map_err(|error| OpenError::NotLoaded(reason(&error)))?;
    // SAFETY: it is no nDPI unless it has them all, and of any nDPI those called before its interface is known have had
    // these types since 3.0. It is never unloaded.
    let functions = unsafe { Functions::of(&library) }?;
    core::mem::forget(library);
    Ok(functions)
}

/// What the loader says.
fn reason(error: &libloading::Error) -> String {
    let text = error.to_string();
    match text.is_empty() {
        true => "the loader gives no reason".into(),
        false => text,
    }
}
