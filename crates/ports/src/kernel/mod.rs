//! What is asked of the host's kernel about the interfaces that ports are: to keep their frames from its own network
//! stack ([`ingress`]), and which XDP program is on them ([`xdp`]).
//!
//! It is asked by netlink, by the thread that starts the program, before packets flow; nothing here is on a packet's
//! way.

pub mod ingress;
mod netlink;
pub mod xdp;
