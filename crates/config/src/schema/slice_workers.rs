//! Slices that have workers of their own.

use rules::model::SNssai;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_saphyr::Spanned;

use super::SliceConfig;
use crate::bounded::Bounded;

/// The number of a worker.
pub(crate) type WorkerNumber = Bounded<0, 63>;

/// One slice (S-NSSAI, TS 23.003 §28.4.2) and its workers.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SliceWorkersConfig {
    /// Slice/Service Type.
    pub sst: Bounded<0, 255>,
    /// Slice Differentiator, six hexadecimal digits; none.
    #[serde(default)]
    pub sd: Option<String>,
    /// The numbers of the workers that serve its sessions, from 0 on; a worker that any slice lists serves the sessions
    /// of no slice that does not list it.
    #[schemars(with = "Vec<WorkerNumber>", length(min = 1))]
    pub workers: Spanned<Vec<WorkerNumber>>,
}

impl SliceWorkersConfig {
    pub(crate) fn s_nssai(&self) -> Option<SNssai> {
        let Self { sst, sd, .. } = self;
        let slice = SliceConfig {
            sst: *sst,
            sd: sd.clone(),
        };
        slice.s_nssai()
    }

    /// As it is written in messages.
    pub(crate) fn name(&self) -> String {
        let sst = self.sst.value();
        match &self.sd {
            None => format!("slice {sst}"),
            Some(sd) => format!("slice {sst}-{sd}"),
        }
    }
}
