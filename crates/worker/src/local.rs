//! Packets for own addresses: ARP, Neighbour Discovery, ICMP echo, GTP-U path management, the host's stack; and packets
//! that the worker generates: ICMP errors, Error Indications, redirections.

pub(crate) mod denial_answer;
pub(crate) mod discard_answers;
pub(crate) mod echo;
pub(crate) mod error_indication;
pub(crate) mod generated_packet_rate_limit;
pub(crate) mod host;
pub(crate) mod limits;
pub(crate) mod own_address_packets;
pub(crate) mod redirect;
pub(crate) mod reply;
