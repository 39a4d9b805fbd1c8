//! A network namespace of this run's own, and pairs of virtual Ethernet in it: the ends `n3` and `n6` are the daemon's
//! ports, the ends `ran` and `dn` are the kernel's, whose sockets play the gNBs and the data network.
//!
//! Nothing is to be removed in the end: the kernel removes the namespace, with all that is in it, when its last process
//! has ended.

use std::env;
use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use super::super::error::BenchError;

/// Set in the environment of the process that has the namespace.
const INSIDE: &str = "SLUICE_BENCH_NAMESPACE";
/// This node's address on N3, and on N6.
pub const N3: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 1);
/// The same on N6.
pub const N6: Ipv4Addr = Ipv4Addr::new(10, 0, 6, 1);
/// The router of the RAN: the gNBs are addresses of the same host.
pub const RAN: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 254);
/// The data network's only host.
pub const DN: Ipv4Addr = Ipv4Addr::new(10, 0, 6, 254);
/// All gNBs.
pub const GNBS: &str = "10.200.0.0/16";
/// All UEs.
pub const UES: &str = "10.64.0.0/10";

/// Gives this process a network namespace of its own: the program is executed again in one, with the same arguments.
/// Returns when there is one.
///
/// # Errors
/// No right to make one; `unshare` or `mount` is not installed.
pub fn enter() -> Result<(), BenchError> {
    if env::var_os(INSIDE).is_some() {
        return Ok(());
    }
    let failed = |why: &str| {
        BenchError(format!(
            "a network namespace cannot be made ({why}): this needs root, and `unshare`, `mount` and `ip`"
        ))
    };
    let tried = Command::new("unshare")
        .args(["--net", "--mount", "true"])
        .output();
    match tried {
        Ok(Output { status, .. }) if status.success() => {}
        Ok(Output { stderr, .. }) => return Err(failed(String::from_utf8_lossy(&stderr).trim())),
        Err(error) => return Err(failed(&error.to_string())),
    }
    let program = env::current_exe().map_err(BenchError::of)?;
    // The interfaces in /sys are to be those of the namespace, too.
    let script = "mount -t sysfs sysfs /sys && exec \"$0\" \"$@\"";
    let error = Command::new("unshare")
        .args(["--net", "--mount", "sh", "-c", script])
        .arg(program)
        .args(env::args_os().skip(1))
        .env(INSIDE, "1")
        .exec();
    Err(failed(&error.to_string()))
}

/// Interfaces of one daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Links {
    number: u8,
}

impl Links {
    /// Makes the pairs of the daemon with this number. The first one's other ends have addresses.
    ///
    /// # Errors
    /// `ip` does not do it.
    pub fn make(number: u8) -> Result<Self, BenchError> {
        let links = Self { number };
        if number == 0 {
            // The kernel is to be silent on links that it has no addresses on.
            fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").map_err(BenchError::of)?;
            ip("link set lo up")?;
        }
        for [here, there] in [["ran", "n3"], ["dn", "n6"]] {
            let (here, there) = (links.name(here), links.name(there));
            ip(&format!("link add {here} type veth peer name {there}"))?;
            ip(&format!("link set {here} up"))?;
            ip(&format!("link set {there} up"))?;
        }
        if number == 0 {
            ip(&format!("addr add {RAN}/24 dev {}", links.name("ran")))?;
            ip(&format!("addr add {DN}/24 dev {}", links.name("dn")))?;
            ip(&format!("route add local {GNBS} dev lo"))?;
            ip(&format!("route add {UES} via {N6}"))?;
        }
        Ok(links)
    }

    /// The name of one end.
    #[must_use]
    pub fn name(self, end: &str) -> String {
        format!("{end}-{}", self.number)
    }
}

fn ip(arguments: &str) -> Result<(), BenchError> {
    let failed = |why: String| BenchError(format!("ip {arguments}: {why}"));
    let done = Command::new("ip").args(arguments.split(' ')).output();
    let done = done.map_err(|error| failed(error.to_string()))?;
    if done.status.success() {
        Ok(())
    } else {
        Err(failed(String::from_utf8_lossy(&done.stderr).trim().to_owned()))
    }
}
