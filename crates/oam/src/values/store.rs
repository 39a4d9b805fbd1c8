//! How the store stands that keeps sessions beyond the process.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The store of sessions: what is in it, what has become durable since the start, and what has come back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoreStatus {
    /// Where it is.
    pub directory: String,
    /// How it goes.
    pub state: StoreState,
    /// What the disk said last, while it takes nothing; that it is late, while it is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
    /// Changes that are durable.
    pub changes: u64,
    /// Records that count: the latest of each session, of what it has counted, of each association and application, and
    /// of the node.
    pub records: u64,
    /// Octets on disk of records that count.
    pub live_octets: u64,
    /// Octets on disk of all others.
    pub garbage_octets: u64,
    /// Files of the log.
    pub segments: u64,
    /// Octets on disk of the indexes of segments, which a start reads instead of them.
    #[serde(default)]
    pub segment_index_octets: u64,
    /// Octets of memory in use by the index.
    pub index_octets: u64,
    /// Octets of the file that is given up when the disk is full, as far as it is there.
    pub reserve_octets: u64,
    /// Operations that wait for the disk.
    pub held: u64,
    /// Octets that wait for the disk.
    pub held_octets: u64,
    /// Octets that are durable, with those of compaction.
    pub written_octets: u64,
    /// Octets that compaction wrote again.
    pub compacted_octets: u64,
    /// How often the disk was asked to make changes durable.
    pub syncs: u64,
    /// How often it failed.
    pub failures: u64,
    /// Records that were durable and that compaction could not read.
    pub unreadable: u64,
    /// Sessions of the process before.
    pub sessions: RestoredSessions,
}

/// How the store of sessions goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StoreState {
    /// The disk takes what comes, in time.
    Writing,
    /// The disk takes nothing, or is late: new sessions and changes are rejected.
    Failing,
}

/// Sessions of the process before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RestoredSessions {
    /// Those that have been restored.
    pub restored: u64,
    /// Those of them for which a packet or a request had come.
    pub on_demand: u64,
    /// Those that are yet to be restored.
    pub absent: u64,
    /// Those that could not be restored.
    pub failed: u64,
}

impl StoreStatus {
    /// As lines for people.
    #[must_use]
    pub fn text(&self) -> String {
        let state = match self.state {
            StoreState::Writing => "written as changes come",
            StoreState::Failing => "FAILING: new sessions and changes are rejected",
        };
        let error = self.error.as_ref();
        let error = error.map_or_else(String::new, |error| format!("error     {error}\n"));
        format!(
            "store     in {}, {state}\n{error}\
             changes   {} durable ({} octets, {} of them of compaction; {} syncs, {} failures)\n\
             held      {} operations ({} octets)\n\
             log       {} records, {} octets, {} of garbage, {} segments with {} octets of \
             indexes, {} unreadable\n\
             memory    {} octets of index\n\
             reserve   {} octets on disk\n\
             restored  {} sessions ({} on demand), {} to come, {} failed\n",
            self.directory,
            self.changes,
            self.written_octets,
            self.compacted_octets,
            self.syncs,
            self.failures,
            self.held,
            self.held_octets,
            self.records,
            self.live_octets,
            self.garbage_octets,
            self.segments,
            self.segment_index_octets,
            self.unreadable,
            self.index_octets,
            self.reserve_octets,
            self.sessions.restored,
            self.sessions.on_demand,
            self.sessions.absent,
            self.sessions.failed,
        )
    }
}
