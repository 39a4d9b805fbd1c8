//! What a report has, for its JSON, its page and a terminal alike.

use serde::Serialize;
use serde_json::Value;

use super::super::NO_DRIVER;
use super::super::error::BenchError;
use super::super::published;
use super::arithmetic::{FORMULAS, Formula};
use super::assumptions::{AssumptionArguments, Assumptions};
use super::models::{ModelReport, models};
use super::result_file::ResultFile;
use super::warnings::warnings;

/// Said beside every number of a server.
pub const NO_NIC: &str = "no NIC in any measured figure; servers are arithmetic with an assumed driver";

/// A report.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Parts of a user plane that no measured figure includes.
    pub leaves_out: &'static str,
    /// What derived figures are.
    pub derived: &'static str,
    /// What a reader has to know before the figures.
    pub warnings: Vec<String>,
    /// The files.
    pub files: Vec<ResultFile>,
    /// The assumptions.
    pub assumptions: Assumptions,
    /// The formulas in words.
    pub formulas: [Formula; 14],
    /// Where the published figures are explained.
    pub published_source: &'static str,
    /// The traffic models.
    pub models: Vec<ModelReport>,
}

impl Report {
    /// The report of these files.
    ///
    /// # Errors
    /// No file, or assumptions that contradict each other.
    pub fn new(files: Vec<ResultFile>, options: &AssumptionArguments) -> Result<Self, BenchError> {
        if files.is_empty() {
            return Err(BenchError("a report needs at least one file of results".into()));
        }
        let assumptions = Assumptions::new(options, &files).map_err(BenchError)?;
        let models = models(&files, &assumptions);
        Ok(Self {
            leaves_out: NO_DRIVER,
            derived: NO_NIC,
            warnings: warnings(&files, &assumptions, &models),
            files,
            assumptions,
            formulas: FORMULAS,
            published_source: published::SOURCE,
            models,
        })
    }

    /// The report as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}
