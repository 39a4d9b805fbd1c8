//! The inspection of flows: a state for each flow that is not decided yet, and what its packets make of it.
//!
//! An [`Inspector`] is one worker's. States and blocks for reassembly are allocated at its start, and each owner has at
//! most its share of both. A state is there from [`Inspector::open`] to a verdict, to [`Inspector::close`], or until it
//! is too old ([`Inspector::expire`]); a block only while a message needs more than one packet. Where all are in use, a
//! caller may have others give way ([`Inspector::close_oldest`], [`Inspector::make_room_for`]).

mod flow;
mod flows;
mod inspect;
mod packet;
mod resources;
mod settings;
mod tcp;
mod udp;

pub use flow::FlowIndex;
pub use inspect::{Inspector, NotOpened};
pub use packet::{Layer4, Sender, Transport};
pub use settings::Settings;
