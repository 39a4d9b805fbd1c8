//! The types of messages: the upper half of the number says whether it is a request, a reply, an event or what a
//! backend can do.

use super::field::{Bound, Field};

pub(super) const INSTALL: u8 = 0x10;
pub(super) const UPDATE: u8 = 0x11;
pub(super) const PUT: u8 = 0x12;
pub(super) const REMOVE: u8 = 0x13;
pub(super) const QUERY: u8 = 0x14;
pub(super) const FENCE: u8 = 0x15;
pub(super) const DONE: u8 = 0x20;
pub(super) const COUNTS: u8 = 0x21;
pub(super) const METER: u8 = 0x22;
pub(super) const CONTENTS: u8 = 0x23;
pub(super) const DEMAND: u8 = 0x24;
pub(super) const REFUSED: u8 = 0x25;
pub(super) const TOKENS: u8 = 0x26;
pub(super) const AGED: u8 = 0x30;
pub(super) const WATERMARK: u8 = 0x31;
pub(super) const LIMIT: u8 = 0x32;
pub(super) const COUNTS_EVENT: u8 = 0x33;
pub(super) const MISS: u8 = 0x34;
pub(super) const BACKEND_RESET: u8 = 0x35;
pub(super) const UNREACHABLE: u8 = 0x36;
pub(super) const LINKS: u8 = 0x37;
pub(super) const CAPABILITIES: u8 = 0x40;
pub(super) const HOST_CAPABILITIES: u8 = 0x41;

/// All of them.
pub(super) const TYPE: Field = Field::new(
    "message type",
    Bound::OneOf(&[
        0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x30, 0x31, 0x32, 0x33,
        0x34, 0x35, 0x36, 0x37, 0x40, 0x41,
    ]),
);
