//! The store of sessions (T17): a daemon that is killed under traffic and started again, what that costs in packets and
//! in octets that are not charged, what the store takes of disk, memory and establishments.
//!
//! The daemon is this program, `sluice run`, as a process of its own. The SMFs are those of [`pfcp`](super::pfcp), on
//! loopback; gNBs and data network are UDP sockets of the kernel behind virtual Ethernet, all of it in a network
//! namespace of this run's own ([`enter`]). All of them share the processors of one machine with the daemon.

mod arguments;
mod charging;
mod daemon;
mod establishments;
mod frames;
mod lines;
mod links;
mod outcome;
mod restart;
mod run;
mod smfs;
mod storage;
mod target;
mod traffic;
mod work_directory;

use super::error::BenchError;
use super::pfcp::Procedure;
use super::progress::Progress;
use super::settings::Difference;
pub use arguments::Arguments;
pub use charging::Charging;
pub use daemon::LogLine;
pub use establishments::{Establishments, Pair, Rate};
pub use lines::lines;
pub use links::enter;
pub use outcome::Resilience;
pub use restart::{Forwarding, Restart};
use run::Run;
pub use storage::Storage;
pub use target::targets;
use work_directory::WorkDirectory;

/// Settings that differ from the daemon's defaults.
#[must_use]
pub fn differences(arguments: &Arguments) -> Vec<Difference> {
    let one = |setting, daemon: &str, here: String| Difference {
        setting,
        daemon: daemon.into(),
        here,
    };
    vec![
        one("limits.sessions", "10000", arguments.sessions.to_string()),
        one(
            "limits.flows_ipv4",
            "65536",
            daemon::flows(arguments.sessions).to_string(),
        ),
        one("store.checkpoint_s", "1", arguments.checkpoint_s.to_string()),
        one("n4.heartbeat_s", "10", "3600".into()),
        one("n4.unknown_source_s", "50", "0".into()),
        one("n4.unverified_percent", "10", "100".into()),
        one("gtpu.restoration_s", "30", "0".into()),
    ]
}

/// Measures it. The process has its own network namespace ([`enter`]).
///
/// # Errors
/// Too little memory, a disk that is full, a daemon that does not do its part, errors of sockets and of `ip`.
pub fn measure(arguments: &Arguments, progress: &Progress) -> Result<Resilience, BenchError> {
    if let Some(why) = arguments.refusal() {
        return Err(BenchError(why));
    }
    let work = WorkDirectory::make(arguments.directory.as_deref())?;
    progress.stage("kills");
    let mut run = Run::start(arguments, &work, progress)?;
    let sync_nanos = run.daemon.sync_nanos()?;
    let filling = run.request("establishing", Procedure::Establishment, 0..arguments.sessions)?;
    run.users = run.generator.identities(arguments.active).into();
    let storage = Storage::of(&run.daemon, arguments.sessions)?;
    let undisturbed = run.undisturbed()?;
    let restarts = (0..arguments.kills)
        .map(|number| run.kill_under_traffic(number))
        .collect::<Result<_, _>>()?;
    drop(run);
    progress.stage("establishments");
    let establishments = match arguments.pairs {
        0 => None,
        _ => Some(Establishments::measure(arguments, &work, progress)?),
    };
    Ok(Resilience {
        sessions: arguments.sessions,
        active: arguments.active,
        rate: arguments.rate,
        packet_octets: frames::PACKET,
        checkpoint_s: arguments.checkpoint_s,
        directory: work.parent(),
        sync_nanos,
        filling,
        storage,
        undisturbed,
        restarts,
        establishments,
    })
}
