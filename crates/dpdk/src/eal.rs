//! DPDK's environment abstraction layer: started once per process, never stopped.
//!
//! The default asks for nothing that an ordinary user lacks: no hugepages, no files shared with other
//! processes, no PCI. Ports are opened later, one by one ([`Port::open`](crate::Port::open)), not on EAL's
//! command line.

use std::ffi::CString;
use std::fmt;
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::OnceLock;

use crate::error::{Errno, Error};
use crate::log::{self, LogSink};

/// Proof that DPDK runs in this process. It lives as long as the process does.
#[derive(Debug)]
pub struct Eal {
    pci: bool,
    hugepages: bool,
    tsc_hz: u64,
    _private: (),
}

static EAL: OnceLock<Eal> = OnceLock::new();
/// Whether an initialisation was tried: DPDK does not take a second one, not even after a failure.
static TRIED: Mutex<bool> = Mutex::new(false);

impl Eal {
    /// A builder with the defaults of [`EalBuilder`].
    pub fn builder() -> EalBuilder {
        EalBuilder::default()
    }

    /// The running EAL, if this process has one.
    pub fn current() -> Option<&'static Eal> {
        EAL.get()
    }

    /// Ticks of [`tsc`] per second.
    pub fn tsc_hz(&self) -> u64 {
        self.tsc_hz
    }

    /// Whether devices on the PCI bus can be opened.
    pub fn has_pci(&self) -> bool {
        self.pci
    }

    /// Whether EAL's memory is in hugepages.
    pub fn has_hugepages(&self) -> bool {
        self.hugepages
    }

    /// Whether the buffers of pools must be where devices can reach them: in EAL's own memory.
    pub(crate) fn serves_devices(&self) -> bool {
        self.pci || self.hugepages
    }

    /// DPDK's version: `DPDK 22.11.11`.
    pub fn version(&self) -> String {
        // SAFETY: returns a static NUL-terminated text.
        let text = unsafe { std::ffi::CStr::from_ptr(dpdk_sys::rte_version()) };
        text.to_string_lossy().into_owned()
    }
}

/// The time stamp counter, in ticks of [`Eal::tsc_hz`]. Without a system call; cores agree on invariant-TSC CPUs.
#[inline]
pub fn tsc() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 CPU has the instruction; DPDK itself relies on user space being allowed it.
    return unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: reads a counter; no precondition.
    return unsafe { dpdk_sys::shim_tsc() };
}

/// A device's place on the PCI bus: `0000:3b:00.1`, or short `3b:00.1` in domain 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PciAddress {
    /// PCI domain.
    pub domain: u32,
    /// Bus number.
    pub bus: u8,
    /// Device number, 0 to 31.
    pub device: u8,
    /// Function number, 0 to 7.
    pub function: u8,
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PciAddress {
            domain,
            bus,
            device,
            function,
        } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function:x}")
    }
}

impl FromStr for PciAddress {
    type Err = Error;

    fn from_str(text: &str) -> Result<PciAddress, Error> {
        parse_pci(text).ok_or_else(|| Error::config("pci", text, "an address such as 0000:3b:00.1"))
    }
}

fn parse_pci(text: &str) -> Option<PciAddress> {
    let hex = |digits: &str, len: usize| {
        let well_formed =
            !digits.is_empty() && digits.len() <= len && digits.bytes().all(|b| b.is_ascii_hexdigit());
        well_formed.then(|| u32::from_str_radix(digits, 16).ok())?
    };
    let (slot, function) = text.rsplit_once('.')?;
    let (bus, device) = slot.rsplit_once(':')?;
    let (domain, bus) = bus.rsplit_once(':').unwrap_or(("0", bus));
    let address = PciAddress {
        domain: hex(domain, 8)?,
        bus: hex(bus, 2)? as u8,
        device: hex(device, 2)? as u8,
        function: hex(function, 1)? as u8,
    };
    (address.device < 32 && address.function < 8).then_some(address)
}

/// How EAL shall start. The defaults: 512 MiB of ordinary memory, nothing shared, no PCI, no telemetry socket.
#[derive(Clone, Debug)]
pub struct EalBuilder {
    hugepages: bool,
    in_memory: bool,
    memory_mib: u32,
    main_cpus: Vec<u32>,
    pci: Vec<PciAddress>,
    file_prefix: Option<String>,
    telemetry: bool,
    sink: LogSink,
}

impl Default for EalBuilder {
    fn default() -> EalBuilder {
        EalBuilder {
            hugepages: false,
            in_memory: true,
            memory_mib: 512,
            main_cpus: Vec::new(),
            pci: Vec::new(),
            file_prefix: None,
            telemetry: false,
            sink: log::to_stderr,
        }
    }
}

impl EalBuilder {
    /// Whether packet memory comes from hugepages (default: no). Most PCI drivers need them.
    pub fn hugepages(mut self, yes: bool) -> EalBuilder {
        self.hugepages = yes;
        self
    }

    /// Whether EAL leaves no file behind and shares nothing with other processes (default: yes). With no, DPDK's
    /// tools (`dpdk-pdump`) can attach.
    pub fn in_memory(mut self, yes: bool) -> EalBuilder {
        self.in_memory = yes;
        self
    }

    /// EAL's memory in MiB, at least 16 (default: 512), for rings, queues and what drivers need. Pools are in it only
    /// with hugepages or PCI. Without hugepages it is a fixed limit, and costs only what is touched; with hugepages it
    /// is what is reserved at once, and EAL may take more later.
    pub fn memory_mib(mut self, mib: u32) -> EalBuilder {
        self.memory_mib = mib;
        self
    }

    /// The CPUs that the calling thread, EAL's main lcore, may run on afterwards (default: those it may run on
    /// now). Other threads get an lcore id by [`Registration`](crate::Registration), not here.
    pub fn main_cpus(mut self, cpus: &[u32]) -> EalBuilder {
        self.main_cpus = cpus.to_vec();
        self
    }

    /// Adds a device to the PCI devices that may be used (default: none; then the bus is not even scanned).
    pub fn allow_pci(mut self, address: PciAddress) -> EalBuilder {
        self.pci.push(address);
        self
    }

    /// The prefix of files that EAL creates when not [in memory](EalBuilder::in_memory) (default: DPDK's, `rte`).
    pub fn file_prefix(mut self, prefix: impl Into<String>) -> EalBuilder {
        self.file_prefix = Some(prefix.into());
        self
    }

    /// Whether DPDK's own telemetry socket is opened (default: no).
    pub fn telemetry(mut self, yes: bool) -> EalBuilder {
        self.telemetry = yes;
        self
    }

    /// Where DPDK's log goes (default: warnings and errors to standard error). What DPDK says during a call that
    /// fails goes into the [`Error`] instead.
    pub fn log(mut self, sink: LogSink) -> EalBuilder {
        self.sink = sink;
        self
    }

    /// Starts EAL. The calling thread becomes the main lcore.
    ///
    /// # Errors
    ///
    /// [`Error::AlreadyInitialized`] on every call but the first; [`Error::Config`] for a value out of bounds;
    /// [`Error::Resource`] with EAL's own words when it does not start (the process can then not try again).
    pub fn init(self) -> Result<&'static Eal, Error> {
        let arguments = self.arguments()?;
        let mut tried = TRIED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if std::mem::replace(&mut *tried, true) {
            return Err(Error::AlreadyInitialized);
        }
        log::install(self.sink);
        start(arguments)?;
        // SAFETY: EAL has started, which is when the frequency is known.
        let tsc_hz = unsafe { dpdk_sys::rte_get_tsc_hz() };
        Ok(EAL.get_or_init(|| Eal {
            pci: !self.pci.is_empty(),
            hugepages: self.hugepages,
            tsc_hz,
            _private: (),
        }))
    }

    /// EAL's command line.
    fn arguments(&self) -> Result<Vec<CString>, Error> {
        if self.memory_mib < 16 {
            return Err(Error::config("memory_mib", self.memory_mib, "at least 16"));
        }
        let mut list: Vec<String> = ["sluice", "--iova-mode=va", "--lcores"].map(String::from).into();
        list.push(format!("0@({})", self.main_cpu_list()?));
        list.extend(["-m".into(), self.memory_mib.to_string()]);
        let mut flag = |wanted: bool, text: &str| list.extend(wanted.then(|| text.to_owned()));
        flag(!self.hugepages, "--no-huge");
        // EAL refuses the first with ordinary memory, which is in no file anyway.
        flag(self.in_memory && self.hugepages, "--in-memory");
        flag(self.in_memory && !self.hugepages, "--no-shconf");
        flag(!self.telemetry, "--no-telemetry");
        flag(self.pci.is_empty(), "--no-pci");
        list.extend(
            self.file_prefix
                .iter()
                .map(|prefix| format!("--file-prefix={prefix}")),
        );
        list.extend(self.pci.iter().map(|address| format!("--allow={address}")));
        let with_nul = |text: String| {
            CString::new(text.clone()).map_err(|_| Error::config("EAL argument", text, "no NUL octet"))
        };
        list.into_iter().map(with_nul).collect()
    }

    fn main_cpu_list(&self) -> Result<String, Error> {
        let cpus = if self.main_cpus.is_empty() {
            crate::cpu::thread_cpus()?
        } else {
            self.main_cpus.clone()
        };
        Ok(cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(","))
    }
}

fn start(arguments: Vec<CString>) -> Result<(), Error> {
    let shown = arguments
        .iter()
        .map(|a| a.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ");
    let mut argv: Vec<_> = arguments.into_iter().map(CString::into_raw).collect();
    let argc = argv.len() as i32;
    argv.push(std::ptr::null_mut());
    let argv = argv.leak();
    // SAFETY: argv has argc writable, NUL-terminated texts and a null at its end; all of it is leaked, for EAL
    // may keep pointers into it. TRIED is held, so this is the only call ever made in this process.
    let (code, log) = log::captured(|| unsafe { dpdk_sys::rte_eal_init(argc, argv.as_mut_ptr()) });
    if code >= 0 {
        return Ok(());
    }
    Err(Error::Resource {
        what: format!("EAL start ({shown})"),
        errno: Errno::last(),
        log,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pci_addresses_are_parsed_and_printed() {
        let full: PciAddress = "0001:3b:1f.7".parse().unwrap();
        assert_eq!(
            full,
            PciAddress {
                domain: 1,
                bus: 0x3b,
                device: 0x1f,
                function: 7
            }
        );
        assert_eq!(full.to_string(), "0001:3b:1f.7");
        assert_eq!(
            "3b:00.1".parse::<PciAddress>().unwrap().to_string(),
            "0000:3b:00.1"
        );
    }

    #[test]
    fn bad_pci_addresses_are_refused() {
        for bad in [
            "",
            "3b",
            "3b:00",
            "3b:20.0",
            "3b:00.8",
            "0:0:0:0.1",
            "+1:00.0",
            "3b:00.",
            "100:00.0",
            "x:0.0",
        ] {
            assert!(bad.parse::<PciAddress>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_default_needs_no_privilege() {
        let list = EalBuilder::default().arguments().unwrap();
        let has = |wanted: &str| list.iter().any(|a| a.to_str() == Ok(wanted));
        assert!(has("--no-huge") && has("--no-shconf") && has("--no-pci") && has("--no-telemetry"));
    }

    #[test]
    fn too_little_memory_is_refused_before_dpdk_sees_it() {
        let error = EalBuilder::default().memory_mib(15).arguments().unwrap_err();
        assert_eq!(error.to_string(), "memory_mib: 15 is not allowed: at least 16");
    }
}
