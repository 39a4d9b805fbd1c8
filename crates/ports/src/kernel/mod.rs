//! What is asked of the host's kernel about the interfaces that ports are: to keep their frames from its own network
//! stack ([`ingress`]), and which XDP program is on them ([`xdp`]).
//!
//! It is asked by netlink, by the thread that starts the program, before packets flow; nothing here is on a packet's
//! way.

pub mod ingress;
mod netlink;
pub mod xdp;

/// Only one test at a time starts processes, or looks at who has an interface: until its program begins, a new process
/// has all that any other test holds open.
#[cfg(test)]
static PROCESSES: std::sync::Mutex<()> = std::sync::Mutex::new(());
