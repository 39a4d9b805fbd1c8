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
mod kept;
mod measured;
mod models;
mod page;
mod published_report;
mod result_file;
mod tables;
mod text;
mod wanted;
mod warnings;

pub use self::arithmetic::{Bound, Derived, DerivedFigures, FORMULAS, ForThroughput, Formula};
pub use self::assumptions::{Assumption, AssumptionArguments, Assumptions};
pub use self::contents::{NO_NIC, Report};
pub use self::disturbance::Disturbance;
pub use self::input::InputError;
pub use self::kept::KeptReport;
pub use self::measured::{MeasuredKept, MeasuredPoint};
pub use self::models::ModelReport;
pub use self::page::page;
pub use self::published_report::PublishedReport;
pub use self::result_file::ResultFile;
pub use self::text::text;
pub use self::wanted::PointReport;

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;
