//! Packets that leave the burst and come back later: user packets buffered by a FAR (BAR) or for a next hop,
//! fragments that wait for their first one, GTP-U packets in reassembly.

pub(crate) mod buffers;
pub(crate) mod fragments;
pub(crate) mod packet_store;
pub(crate) mod reassembly;
