//! A module of nDPI: its tables and caches. One thread uses it at a time.

#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_void};
use core::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use crate::allocation::counted;
use crate::functions::{DONT_LOAD_TOR_HOSTS, Functions, RawModule, RawProtocol, RawProtocols};

/// Octets of the state of a flow: the library is refused if it has others.
pub(crate) const STATE_OCTETS: usize = 688;

/// The state of a flow, all zeros at its start.
#[repr(C, align(64))]
pub(crate) struct State([u8; STATE_OCTETS]);

impl State {
    pub(crate) const START: Self = Self([0; STATE_OCTETS]);
}

/// Longest packet that is shown.
pub(crate) const LONGEST_PACKET: usize = 65_535;
/// Zeros behind a packet: some comparisons read on behind its end.
pub(crate) const ZEROS: usize = 64;

/// Modules are made one at a time.
static MAKING: Mutex<()> = Mutex::new(());

/// A module.
pub(crate) struct Module {
    functions: Functions,
    raw: NonNull<RawModule>,
    /// What it has allocated, octets.
    octets: i64,
}

// SAFETY: nDPI 4.2 keeps nothing of a thread in a module, and who has it alone calls it.
unsafe impl Send for Module {}

impl Module {
    /// A module that looks for all protocols. `functions` are of a library whose interface is the known one.
    pub(crate) fn new(functions: Functions) -> Option<Self> {
        let _alone = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
        let all = RawProtocols([u32::MAX; 16]);
        let make = || {
            // SAFETY: no other thread is in here. `all` is as long as nDPI's sets are, and is read before the call
            // returns.
            unsafe {
                let raw = NonNull::new((functions.ndpi_init_detection_module)(DONT_LOAD_TOR_HOSTS))?;
                (functions.ndpi_set_protocol_detection_bitmask2)(raw.as_ptr(), &raw const all);
                (functions.ndpi_finalize_initialization)(raw.as_ptr());
                Some(raw)
            }
        };
        let (raw, octets) = counted(make);
        raw.map(|raw| Self {
            functions,
            raw,
            octets,
        })
    }

    /// What it has allocated, with what it has of flows, octets.
    pub(crate) fn octets(&self) -> u64 {
        self.octets.try_into().unwrap_or(0)
    }

    /// Numbers of protocols are below this.
    pub(crate) fn protocols(&self) -> u32 {
        // SAFETY: the module is there.
        unsafe { (self.functions.ndpi_get_num_supported_protocols)(self.raw.as_ptr()) }
    }

    /// What a protocol is named.
    pub(crate) fn name(&self, number: u16) -> String {
        // SAFETY: the module is there; the text is its own, and is read before anything else is done with it.
        unsafe { text((self.functions.ndpi_get_proto_name)(self.raw.as_ptr(), number)) }
    }

    /// Shows it a packet of a flow, from its IP header on: the first `len` octets of `room`, which it may change.
    pub(crate) fn look(
        &mut self,
        state: &mut State,
        (room, len): (&mut [u8; LONGEST_PACKET + ZEROS], u16),
        now_ms: u64,
    ) -> RawProtocol {
        let state: *mut c_void = (&raw mut *state).cast();
        let (process, raw) = (self.functions.ndpi_detection_process_packet, self.raw.as_ptr());
        // SAFETY: the module is there; the state has the library's length and alignment, is all zeros or what this
        // module has made of it; `room` has `len` octets. nDPI keeps no pointer to either.
        let (found, octets) = counted(|| unsafe { process(raw, state, room.as_mut_ptr(), len, now_ms) });
        self.octets += octets;
        found
    }

    /// Frees what the state of a flow has, and makes it one of a flow of which nothing was seen.
    pub(crate) fn clear(&mut self, state: &mut State) {
        let raw: *mut c_void = (&raw mut *state).cast();
        // SAFETY: as in `look`; what it has is freed once, since all of it is zeros afterwards.
        let ((), octets) = counted(|| unsafe { (self.functions.ndpi_free_flow_data)(raw) });
        self.octets += octets;
        *state = State::START;
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: it is there, and never used again.
        unsafe { (self.functions.ndpi_exit_detection_module)(self.raw.as_ptr()) }
    }
}

/// A text of nDPI's.
///
/// # Safety
/// It is null, or ends with a zero and does not change meanwhile.
pub(crate) unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller says so.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
