//! `sluice run`: the daemon.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use tracing::{error, info};

use super::status::{CONFIGURATION_ERROR, RUN_ERROR};
use config::Config;
use oam::{LogControl, totals};

use crate::daemon::{self, Source};

/// Runs the UPF of the configuration at `path` until SIGINT or SIGTERM, and until its SMFs have released their
/// associations (`n4.release_wait_s`); a second signal ends it at once. With `json`, a last line on standard output
/// says what was counted. Exit status 2 for a configuration with a mistake, 1 for what failed while it ran. With
/// `sessions` it continues the sessions of that file.
#[must_use]
pub fn run(path: &Path, sessions: Option<&Path>, json: bool) -> ExitCode {
    let log = LogControl::start();
    let read = Config::read(path).and_then(|text| {
        let folder = Config::folder(path)?;
        let (config, files) = Config::parse_in(&text, &path.display().to_string(), &folder)?;
        Ok((config, Source { path, text, files }))
    });
    let (config, source) = match read {
        Ok(read) => read,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(CONFIGURATION_ERROR);
        }
    };
    log.set(config.log.level);
    log.set_format(config.log.format);
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let registered = flag::register_conditional_shutdown(signal, RUN_ERROR.into(), Arc::clone(&stop))
            .and_then(|_| flag::register(signal, Arc::clone(&stop)));
        if let Err(error) = registered {
            error!("signal {signal}: {error}");
            return ExitCode::from(RUN_ERROR);
        }
    }
    match daemon::run(&config, source, sessions, &stop, &log) {
        Ok(stats) => {
            info!("stopped");
            if json {
                println!("{}", totals::totals(&stats));
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            error!("{error}");
            ExitCode::from(RUN_ERROR)
        }
    }
}
