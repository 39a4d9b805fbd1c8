//! How the usage records stand.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Usage records since the start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RecordsStatus {
    /// Where they go.
    pub directory: String,
    /// How it goes.
    pub state: RecordsState,
    /// What the disk said last, while it takes none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
    /// Records that are durable.
    pub written: u64,
    /// Their octets.
    pub octets: u64,
    /// Records in memory.
    pub held: u64,
    /// How many memory holds at most, beside the writer's batch.
    pub held_most: u64,
    /// Records that are lost.
    pub lost: u64,
    /// Files that have got their final names.
    pub files: u64,
    /// How often the disk was asked to make records durable.
    pub syncs: u64,
    /// How often it failed.
    pub failures: u64,
    /// Usage reports that SMFs have not taken.
    pub unreported: UnreportedCounts,
}

/// Usage reports that SMFs have not taken, since the start: there are records of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UnreportedCounts {
    /// Refused with a cause.
    pub refused: u64,
    /// Answered with what cannot be read.
    pub unreadable: u64,
    /// Not answered before the session or its association was gone.
    pub unanswered: u64,
}

/// How the writing goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecordsState {
    /// The disk takes what comes.
    Writing,
    /// The disk takes none; records are held in memory.
    Failing,
    /// Memory is full; records are lost.
    Full,
}

impl RecordsStatus {
    /// As lines for people.
    #[must_use]
    pub fn text(&self) -> String {
        let state = match self.state {
            RecordsState::Writing => "written as they come",
            RecordsState::Failing => "HELD IN MEMORY: the disk takes none",
            RecordsState::Full => "LOST: memory is full",
        };
        let error = self.error.as_ref();
        let error = error.map_or_else(String::new, |error| format!("error     {error}\n"));
        format!(
            "records   in {}, {state}\n{error}\
             written   {} ({} octets, {} files, {} syncs, {} failures)\n\
             held      {} of {}\n\
             lost      {}\n\
             not taken {} refused, {} answered unreadably, {} not answered\n",
            self.directory,
            self.written,
            self.octets,
            self.files,
            self.syncs,
            self.failures,
            self.held,
            self.held_most,
            self.lost,
            self.unreported.refused,
            self.unreported.unreadable,
            self.unreported.unanswered
        )
    }
}
