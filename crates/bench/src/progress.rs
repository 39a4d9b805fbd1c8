//! Progress of a run: a line that changes on a terminal; nothing elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// The progress of one benchmark, on standard error.
pub struct Progress(ProgressBar);

impl Progress {
    /// A line on a terminal, else nothing.
    #[must_use]
    pub fn new() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self::silent();
        }
        let bar = ProgressBar::new(0);
        let style =
            ProgressStyle::with_template("{spinner} {prefix}: {msg} {wide_bar} {percent:>3}% {elapsed}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    /// Nothing at all.
    #[must_use]
    pub fn silent() -> Self {
        Self(ProgressBar::hidden())
    }

    /// Sets the name of the measurement that begins.
    pub fn stage(&self, name: impl Into<String>) {
        self.0.set_prefix(name.into());
    }

    /// A part of it, with its number of steps.
    pub fn begin(&self, part: &'static str, steps: u64) {
        self.0.set_message(part);
        self.0.set_length(steps);
        self.0.set_position(0);
    }

    /// The number of steps that are done.
    pub fn at(&self, step: u64) {
        self.0.set_position(step);
    }

    /// Prints a line above the progress.
    pub fn print(&self, line: impl AsRef<str>) {
        if self.0.is_hidden() {
            println!("{}", line.as_ref());
        } else {
            self.0.suspend(|| println!("{}", line.as_ref()));
        }
    }

    /// Takes the line away.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}
