//! Packets: zero-copy headers, parsers and builders for Ethernet, 802.1Q, ARP, IPv4, IPv6, ICMP, UDP, TCP, GTP-U
//! and the PDU Session Container.
//!
//! Nothing here owns state, allocates on a packet's way, or knows of sessions. A parser takes foreign bytes and
//! returns either offsets and fields, or the one [`DropReason`] that says why the packet goes no further; it never
//! panics. Builders write into the caller's buffer.
//!
//! The way of a packet: [`frame::parse`] on the received bytes, [`frame::parse_inner`] for what a tunnel carries,
//! [`PacketBuf`] to take headers off and put them on, [`build::GtpuTemplate`] for the new ones.

#![forbid(unsafe_code)]

pub mod answer;
pub mod arp;
pub mod buf;
pub mod build;
pub mod checksum;
pub mod common_gtpu_form;
pub mod drop_reason;
pub mod ecn;
pub mod eth;
pub mod fragment;
pub mod frame;
pub mod gtpu;
pub mod header_option;
pub mod icmp;
pub mod icmp_rewrite;
pub mod ids;
pub mod ip_fragmentation;
pub mod ip_reassembly;
pub mod ipv4;
pub mod ipv6;
pub mod martian;
pub mod mss;
pub mod offload_completion;
pub mod overlay;
mod own_ip_header;
pub mod preview;
pub mod psc;
pub mod redirect;
pub mod rewrite;
pub mod tcp;
pub mod too_big;
pub mod tuple;
pub mod udp;

pub use buf::{PacketBuf, VecBuf};
pub use drop_reason::DropReason;
pub use eth::VlanTags;
pub use fragment::Fragment;
pub use frame::{Frame, GtpuFrame, IpFrame};
pub use header_option::HeaderOption;
pub use ids::{Dscp, MacAddr, Ppi, Qfi, Teid, VlanId};
pub use tuple::{Addrs, IpTuple};
