//! The programs that `sluice` offers, one module each; `main` only reads arguments.

#[cfg(feature = "accelerator")]
mod accel;
mod audit;
#[cfg(feature = "bench")]
mod bench;
#[cfg(feature = "bundle")]
mod bundle;
mod check;
mod conditions;
mod configuration;
#[cfg(feature = "demo")]
mod demo;
mod in_query;
mod init;
mod log;
#[cfg(feature = "manual")]
mod manual;
mod mirror;
mod nat_log;
mod records;
mod run;
mod sessions;
mod show;
#[cfg(feature = "sim")]
mod sim;
mod status;
mod token;
#[cfg(feature = "top")]
mod top;
mod trace;
mod ui;

#[cfg(feature = "accelerator")]
pub use accel::{AccelArguments, accel};
pub use audit::{AuditArguments, audit};
#[cfg(feature = "bench")]
pub use bench::{BenchArguments, bench};
#[cfg(feature = "bundle")]
pub use bundle::{BundleArguments, bundle};
pub use check::check;
pub use configuration::{ConfigArguments, config};
#[cfg(feature = "demo")]
pub use demo::{DemoArguments, demo};
#[cfg(feature = "top")]
pub use in_query::in_query;
pub use init::{InitArguments, init};
pub use log::{LogArguments, log};
#[cfg(feature = "manual")]
pub use manual::{ManualArguments, manual};
pub use mirror::{MirrorArguments, mirror};
pub use records::{RecordsArguments, records};
pub use run::run;
pub use sessions::{SessionsArguments, sessions};
pub use show::{ShowArguments, show};
#[cfg(feature = "sim")]
pub use sim::{SimArguments, sim};
pub use token::{TokenArguments, token};
#[cfg(feature = "top")]
pub use top::{TopArguments, top};
pub use trace::{TraceArguments, trace};
pub use ui::{UiArguments, ui};
