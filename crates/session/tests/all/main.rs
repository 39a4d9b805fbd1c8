//! The tests of sessions in one program: it is compiled and linked once.

mod correlations;
mod endpoints;
mod f_teids;
mod kept;
mod ledger;
mod lifecycle;
mod metering;
mod model;
mod moving;
mod pools;
mod shares;
mod steering;
mod supersede;
#[path = "../support/mod.rs"]
mod support;
mod transfer;
mod trouble;
