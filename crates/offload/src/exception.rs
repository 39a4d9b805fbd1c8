//! Exception frames (EtherType 0x88B6): packets that the accelerator gives to the host as it received them, and what
//! the host gives back. `docs/inband.md` specifies them.
//!
//! A header is in front of the frame and says what the accelerator has found out already; the frame is not copied to
//! be read. Lengths of headers are multiples of 4, so that behind the 14 octets of an Ethernet header and the 14 of
//! the inner frame's the inner IP header is at a multiple of 4 again. Nothing of this is acknowledged or sent again:
//! what is lost is a lost packet. Nothing is authenticated but [`Through`] and [`Answers`], which change state. Nothing
//! here has state but [`ReplayWindow`], which the accelerator's thread of the channel owns.

mod answers;
mod fields;
mod from_accelerator;
mod from_host;
mod marker;
mod questions;
mod reason;
mod replay;
mod through;

pub use self::answers::{Answer, Answers, AnswersHeader, AnswersWriter, SealedAnswers};
pub use self::from_accelerator::{Class, Exception, FromAccelerator, Steered};
pub use self::from_host::{FromHost, Send};
pub use self::marker::Marker;
pub use self::questions::{Question, Questions, QuestionsWriter};
pub use self::reason::Reason;
pub use self::replay::ReplayWindow;
pub use self::through::{MAC_LEN, OpenError, SealedThrough, Through};

pub use self::fields::{MAX_HOPS, VERSION};

/// The EtherType of exception frames: IEEE 802 local experimental 2 (IEEE 802 §9.2.4).
pub const ETHER_TYPE: u16 = 0x88b6;

#[cfg(test)]
mod tests;
