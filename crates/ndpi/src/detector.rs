//! What nDPI makes of the packets of flows: one worker's module, and the states of the flows that are looked at.

use std::sync::Arc;

use dpi::{NdpiId, NdpiProtocol};

use crate::library::Library;
use crate::module::{LONGEST_PACKET, Module, State, ZEROS};

/// What nDPI may allocate by itself for each of the flows that there is room for, octets.
const OCTETS_OF_A_FLOW: u64 = 4_096;
/// What it may allocate by itself for caches, octets.
const OCTETS_OF_CACHES: u64 = 1 << 20;

/// A flow that is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowIndex(pub u32);

/// A module of nDPI, and the states of a fixed number of flows.
pub struct Detector {
    library: Arc<Library>,
    module: Module,
    states: Box<[State]>,
    free: Vec<u32>,
    /// What the module may have allocated where another flow is begun, octets.
    most_octets: u64,
    /// Where nDPI gets its copy of a packet.
    room: Box<[u8; LONGEST_PACKET + ZEROS]>,
}

impl Detector {
    /// With room for `flows` flows. A state is 704 octets.
    ///
    /// Nothing: there is no memory for a module.
    pub fn new(library: &Arc<Library>, flows: u32) -> Option<Self> {
        let module = Module::new(library.functions())?;
        let room = vec![0; LONGEST_PACKET + ZEROS]
            .into_boxed_slice()
            .try_into()
            .ok()?;
        Some(Self {
            library: Arc::clone(library),
            most_octets: module.octets() + OCTETS_OF_CACHES + OCTETS_OF_A_FLOW * u64::from(flows),
            module,
            states: (0..flows).map(|_| State::START).collect(),
            free: (0..flows).rev().collect(),
            room,
        })
    }

    /// The library.
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// Flows that are looked at.
    pub fn flows(&self) -> u32 {
        (self.states.len() - self.free.len()) as u32
    }

    /// What nDPI has allocated by itself, octets.
    pub fn octets(&self) -> u64 {
        self.module.octets()
    }

    /// Begins a flow, if there is room. It is valid until it is closed.
    pub fn open(&mut self) -> Option<FlowIndex> {
        if self.module.octets() > self.most_octets {
            return None;
        }
        self.free.pop().map(FlowIndex)
    }

    /// Shows nDPI a packet of a flow, from its IP header on; what it is, if that is known by now. Packets of both ends
    /// come here, in any order, those without a payload need not. After 32 nDPI looks at no more of a flow. `now_ms`
    /// is in ms.
    pub fn look(&mut self, FlowIndex(flow): FlowIndex, packet: &[u8], now_ms: u64) -> Option<NdpiProtocol> {
        let state = self.states.get_mut(flow as usize)?;
        let len = u16::try_from(packet.len()).ok()?;
        let end = packet.len();
        self.room.get_mut(..end)?.copy_from_slice(packet);
        self.room.get_mut(end..end + ZEROS)?.fill(0);
        let found = self.module.look(state, (&mut self.room, len), now_ms);
        let (application, carrier) = (
            NdpiId::new(found.app_protocol),
            NdpiId::new(found.master_protocol),
        );
        Some(NdpiProtocol {
            application: application.or(carrier)?,
            carrier: carrier.filter(|_| application.is_some() && application != carrier),
        })
    }

    /// Ends a flow.
    pub fn close(&mut self, FlowIndex(flow): FlowIndex) {
        if let Some(state) = self.states.get_mut(flow as usize) {
            self.module.clear(state);
            self.free.push(flow);
        }
    }
}

impl Drop for Detector {
    fn drop(&mut self) {
        for state in &mut self.states {
            self.module.clear(state);
        }
    }
}
