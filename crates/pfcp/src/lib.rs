//! The Packet Forwarding Control Protocol (TS 29.244 R17): a codec for N4, Sxa and Sxb.
//!
//! [`Frames`] splits a datagram into messages with their headers checked, [`Message::decode`] turns one into typed
//! structs that borrow from the datagram, [`Message::encode`] writes one into a caller's buffer. Nothing allocates,
//! nothing panics on foreign octets, and no state is kept: reliability, associations and sessions are the endpoint's.
//!
//! ```
//! use pfcp::ie::{NodeId, RecoveryTimeStamp};
//! use pfcp::message::{AssociationSetupRequest, Message};
//! use pfcp::{Frames, Header, SequenceNumber};
//!
//! let node = NodeId::Ipv4("192.0.2.1".parse().unwrap());
//! let message = Message::from(AssociationSetupRequest::new(node, RecoveryTimeStamp::from_unix(1_700_000_000)));
//! let mut buf = [0; 1500];
//! let header = Header::node(message.message_type(), SequenceNumber::new(1));
//! let length = message.encode(&header, &mut buf).unwrap();
//!
//! let frame = Frames::new(&buf[..length]).next().unwrap().unwrap();
//! assert_eq!(frame.header, header);
//! assert_eq!(Message::decode(&frame).unwrap(), message);
//! ```

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
#[macro_use]
extern crate std;

#[macro_use]
mod table;
mod error;
pub mod group;
mod header;
pub mod ie;
mod ie_type;
mod interface;
pub mod message;
#[cfg(test)]
mod sample;
pub mod tlv;
mod wire;

pub use error::{Detail, Error, Fault, NoRoom};
pub use header::{Frame, Frames, Header, HeaderError, MessageType, PORT, Seid, SequenceNumber, VERSION};
pub use ie_type::IeType;
pub use interface::{Interface, Interfaces, Restrict};
pub use message::Message;
pub use wire::{Edit, Items, Layout, Repeated};
