//! A UPF of two workers and two SMFs on one thread and simulated time, a network between them that loses, duplicates,
//! reorders and delays, and a model of the sessions that ought to exist. Driven by steps, which a property test or a
//! fuzzer draws: the same steps and the same seed give the same run.
//!
//! The model is the view of each SMF: a slow restatement of what TS 29.244 says of rules, in lists. It is compared at
//! quiet points, when nothing is outstanding: each worker holds exactly the model's rules, and packets fare as
//! `rules::reference_interpreter` says over them. Packets of busy times are sent as well; of those only the accounts
//! must agree.

#[path = "../../../../n4/tests/support/wire.rs"]
#[allow(dead_code, reason = "each user needs a part")]
pub mod wire;

mod model;
mod op;
mod plans;
mod shim;
mod smf;
mod step;
mod traffic;
mod upf;
mod world;

#[allow(unused_imports, reason = "each user needs a part")]
pub use step::{Edit, Shape, Step, Trouble};
pub use world::run;
