//! The grouped IEs of TS 29.244 R17, one struct each, from the presence tables of §7.4 and §7.5.
//!
//! `new` takes what is mandatory; the rest is set by field. Presence and errors are described in the table macro's
//! module; lists are [`Repeated`](crate::Repeated), parameters that an update can remove are [`Edit`](crate::Edit).

mod far;
mod nat;
mod node;
mod pdr;
mod qer;
mod special;
mod srr;
mod urr;

pub use far::*;
pub use nat::*;
pub use node::*;
pub use pdr::*;
pub use qer::*;
pub use special::*;
pub use srr::*;
pub use urr::*;
