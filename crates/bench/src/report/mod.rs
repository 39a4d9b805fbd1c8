//! `sluice bench report`: published figures beside measured ones, and what follows for cores, servers, power and cost.
//!
//! It reads what `sluice bench PART --json` wrote and measures nothing. What no file has is listed as not measured;
//! what was not measured at all (NICs, drivers, servers) is an [assumption](assumptions::Assumption) with a name.

mod arithmetic;
mod assumptions;
mod contents;
mod digits;
mod disturbance;
mod input;
mod models;
mod page;
mod result_file;
mod tables;
mod text;
mod warnings;

pub use self::arithmetic::{Bound, Derived, DerivedFigures, FORMULAS, ForThroughput, Formula};
pub use self::assumptions::{Assumption, AssumptionArguments, Assumptions};
pub use self::contents::{NO_NIC, Report};
pub use self::disturbance::Disturbance;
pub use self::input::InputError;
pub use self::models::{ModelReport, PointReport, PublishedReport};
pub use self::page::page;
pub use self::result_file::{MeasuredPoint, ResultFile};
pub use self::text::text;

#[cfg(test)]
mod tests;
