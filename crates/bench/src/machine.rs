//! The machine, as far as the system reports it.

use std::fs;

use serde::Serialize;

use super::clock::{available_memory, meminfo, ticks_per_second};

/// A machine.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// Processors that this process may use.
    pub cores: usize,
    /// Ticks a second of the counter.
    pub ticks_per_second: f64,
    /// Octets of memory.
    pub memory: u64,
    /// Octets of memory that were to be had at the start.
    pub available: u64,
    /// Pages of hugetlbfs.
    pub huge_pages: u64,
    /// The kernel's policy about transparent huge pages.
    pub transparent_huge_pages: String,
    /// The kernel.
    pub kernel: String,
    /// Processes that wanted a processor, mean of the last minute at the start: above 0.1, figures are disturbed.
    pub load_average: f64,
}

impl Machine {
    /// This machine.
    #[must_use]
    pub fn this() -> Self {
        Self {
            cpu: cpu(),
            cores: cores(),
            ticks_per_second: ticks_per_second(),
            memory: meminfo("MemTotal:") * 1024,
            available: available_memory(),
            huge_pages: meminfo("HugePages_Total:"),
            transparent_huge_pages: line("/sys/kernel/mm/transparent_hugepage/enabled"),
            kernel: line("/proc/sys/kernel/osrelease"),
            load_average: line("/proc/loadavg")
                .split_whitespace()
                .next()
                .and_then(|word| word.parse().ok())
                .unwrap_or_default(),
        }
    }

    /// One line of text.
    #[must_use]
    pub fn line(&self) -> String {
        format!(
            "{}, {} cores, {:.2} GHz counter, {:.1} GiB, {} huge pages, transparent: {}, Linux {}, load {:.1}",
            self.cpu,
            self.cores,
            self.ticks_per_second / 1e9,
            self.memory as f64 / f64::from(1 << 30),
            self.huge_pages,
            self.transparent_huge_pages,
            self.kernel,
            self.load_average,
        )
    }
}

/// Processors that this process may use.
#[must_use]
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get())
}

fn cpu() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find(|line| line.starts_with("model name"));
    name.and_then(|line| line.split(": ").nth(1))
        .unwrap_or("unknown")
        .to_owned()
}

fn line(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}
