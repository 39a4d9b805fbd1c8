//! `sluice manual`: the man pages, and completions of shells, made from the definition of the arguments. For packages.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;

use super::status::RUN_ERROR;

/// `sluice manual`.
#[derive(Args, Clone, Debug)]
pub struct ManualArguments {
    /// The directory that gets `man/` and `completions/`.
    directory: PathBuf,
}

/// Writes a page for `program` and each of its commands, and completions for bash, fish and zsh. Exit status 1 when a
/// file cannot be written.
#[must_use]
pub fn manual(arguments: &ManualArguments, program: Command) -> ExitCode {
    match write(&arguments.directory, program) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("manual: {}: {error}", arguments.directory.display());
            ExitCode::from(RUN_ERROR)
        }
    }
}

fn write(directory: &Path, mut program: Command) -> io::Result<()> {
    let (pages, completions) = (directory.join("man"), directory.join("completions"));
    fs::create_dir_all(&pages)?;
    fs::create_dir_all(&completions)?;
    for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
        clap_complete::generate_to(shell, &mut program, "sluice", &completions)?;
    }
    clap_mangen::generate_to(program, &pages)
}
