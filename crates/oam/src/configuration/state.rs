//! What is in effect, and what a commit, a confirmation or a rollback makes of it.

use std::sync::Arc;
use std::time::Duration;

use config::{ApplicationFiles, Change, ChangeClass, Config, ConfigError, Differences};
use sha2::{Digest, Sha256};

use super::disk::{Disk, SystemDisk};
use super::refusal::Refusal;
use super::store::{MOST_VERSIONS, Store};
use super::version::{StoredVersion, Version};

/// After how long a rollback that failed is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// What a version that was read at a start is said to be made by.
const FILE: &str = "file";
/// What a configuration is called in errors.
const NAME: &str = "configuration";

/// A time, by both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// By a clock that only goes forward.
    pub now: Duration,
    /// Milliseconds since 1970.
    pub unix_ms: u64,
}

/// Who commits, and what is said of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Author {
    /// The name of the caller.
    pub by: String,
    /// Free words.
    pub comment: String,
}

/// A configuration that is to be in effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commit {
    /// The whole file.
    pub text: String,
    /// The application files that it names; none: as they are now.
    pub files: Option<ApplicationFiles>,
    /// Who wants it.
    pub author: Author,
    /// The ETag of the configuration that it replaces; `*` for any.
    pub if_match: Option<String>,
    /// It is rolled back unless it is confirmed within this time.
    pub confirm_within: Option<Duration>,
    /// It is stored for the next start, and nothing changes now.
    pub at_restart: bool,
}

/// A return to an earlier version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rollback {
    /// The version; none: the one before the commit that waits to be confirmed, else the one before that in effect.
    pub to: Option<u64>,
    /// Who wants it.
    pub author: Author,
    /// As of a commit; not needed.
    pub if_match: Option<String>,
    /// As of a commit.
    pub at_restart: bool,
}

/// What has to take effect next: the whole of it or nothing.
#[derive(Clone, Debug)]
pub struct Effect {
    /// What is in effect.
    pub old: Arc<Config>,
    /// What is to be in effect.
    pub new: Arc<Config>,
}

/// How far a request has come.
#[derive(Debug)]
pub enum Progress {
    /// This has to take effect; [`Configuration::applied`] takes in whether it did.
    Apply(Effect),
    /// It is done.
    Done(CommitOutcome),
}

/// What became of a commit, a confirmation or a rollback.
#[derive(Clone, Debug, PartialEq)]
pub struct CommitOutcome {
    /// The version.
    pub version: Version,
    /// How it is now.
    pub applied: Applied,
    /// What it changed.
    pub changes: Vec<Change>,
}

/// How a version is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// In effect, and in the file.
    Confirmed,
    /// In effect until that much time has passed, unless it is confirmed.
    Until(Duration),
    /// In the file alone.
    AtRestart,
    /// No longer in effect: the version before it is.
    RolledBack,
}

/// The version that waits to be confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unconfirmed {
    /// Its number.
    pub number: u64,
    /// The time that is left; none: it could not be stored, and stays until it is confirmed or rolled back.
    pub left: Option<Duration>,
}

/// The last version that was rolled back because it was not confirmed in time, or with its process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolledBack {
    /// The version.
    pub version: Version,
    /// Why.
    pub why: &'static str,
}

/// A version as it is held in memory.
#[derive(Clone, Debug)]
struct Held {
    version: Version,
    text: Arc<str>,
    files: ApplicationFiles,
    config: Arc<Config>,
}

impl Held {
    fn stored(&self) -> StoredVersion {
        StoredVersion {
            version: self.version.clone(),
            text: self.text.to_string(),
            files: self.files.clone(),
        }
    }
}

/// What is under way.
#[derive(Debug, Default)]
enum Phase {
    #[default]
    Settled,
    /// A version is being taken into effect.
    Applying {
        next: Held,
        changes: Vec<Change>,
        confirm_within: Option<Duration>,
    },
    /// The version in effect waits to be confirmed.
    Waiting(Waiting),
    /// The version before is being taken into effect again.
    Returning(Waiting),
}

#[derive(Debug)]
struct Waiting {
    previous: Held,
    changes: Vec<Change>,
    /// When it is rolled back.
    until: Option<Duration>,
    /// Its time is over.
    overdue: bool,
    /// That it is rolled back has failed: sessions use what came with it.
    stuck: bool,
}

/// The configuration of a running daemon.
#[derive(Debug)]
pub struct Configuration<D = SystemDisk> {
    store: Store<D>,
    /// In effect.
    running: Held,
    /// What the file has unless another program writes it: the version of the next start.
    next_start: StoredVersion,
    /// Confirmed versions, oldest first.
    versions: Vec<Version>,
    next_number: u64,
    phase: Phase,
    rolled_back: Option<RolledBack>,
}

impl<D: Disk> Configuration<D> {
    /// The configuration of a daemon that has been started with the file of `store`, which said `text`, and with the
    /// application files that it names. What a process before left unfinished is finished or discarded.
    ///
    /// # Errors
    /// The versions on disk cannot be read, or `text` has a mistake.
    pub fn open(store: Store<D>, text: String, files: ApplicationFiles, at: Moment) -> Result<Self, Refusal> {
        let config = Config::parse_with(&text, NAME, &files).map_err(mistake)?;
        let recovered = store.recover().map_err(Refusal::Store)?;
        let mut versions = recovered.versions;
        let mut next_number = versions.last().map_or(0, |last| last.number) + 1;
        if let Some(lost) = &recovered.unconfirmed {
            next_number = next_number.max(lost.number + 1);
        }
        let known = recovered.last;
        let known = known.filter(|known| known.text == text && known.files == files);
        let version = known.map(|known| known.version).unwrap_or_else(|| {
            let version = Version {
                number: next_number,
                at_ms: at.unix_ms,
                by: FILE.to_owned(),
                comment: "as read at the start".to_owned(),
            };
            next_number += 1;
            versions.push(version.clone());
            version
        });
        let next_start = StoredVersion {
            version: version.clone(),
            text: text.clone(),
            files: files.clone(),
        };
        Ok(Self {
            store,
            running: Held {
                version,
                text: text.into(),
                files,
                config: Arc::new(config),
            },
            next_start,
            versions,
            next_number,
            phase: Phase::Settled,
            rolled_back: recovered.unconfirmed.map(|version| RolledBack {
                version,
                why: "the process ended before it was confirmed",
            }),
        })
    }

    /// The version in effect.
    #[must_use]
    pub fn version(&self) -> &Version {
        &self.running.version
    }

    /// Its text.
    #[must_use]
    pub fn text(&self) -> &Arc<str> {
        &self.running.text
    }

    /// What it means.
    #[must_use]
    pub fn config(&self) -> &Arc<Config> {
        &self.running.config
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &std::path::Path {
        self.store.file()
    }

    /// Whether another program has written the file since it was read or replaced.
    #[must_use]
    pub fn is_file_edited(&self) -> bool {
        self.store
            .text()
            .ok()
            .is_none_or(|text| text != self.next_start.text)
    }

    /// Whether application files say something else than those of the version of the next start: a start, and each
    /// commit, takes them as they are.
    #[must_use]
    pub fn are_files_edited(&self) -> bool {
        let files = ApplicationFiles::beside(&self.next_start.text, self.store.folder());
        files.ok().is_none_or(|files| files != self.next_start.files)
    }

    /// The version of the next start, where that is another than the confirmed one in effect.
    #[must_use]
    pub fn next_start(&self) -> Option<&Version> {
        let confirmed = match &self.phase {
            Phase::Waiting(waiting) | Phase::Returning(waiting) => &waiting.previous,
            _ => &self.running,
        };
        let next = &self.next_start.version;
        (next.number != confirmed.version.number).then_some(next)
    }

    /// The last version that was rolled back without a request.
    #[must_use]
    pub fn rolled_back(&self) -> Option<&RolledBack> {
        self.rolled_back.as_ref()
    }

    /// The confirmed versions, oldest first.
    #[must_use]
    pub fn versions(&self) -> &[Version] {
        &self.versions
    }

    /// A version with its text.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn stored(&self, number: u64) -> Result<StoredVersion, Refusal> {
        if number == self.running.version.number {
            return Ok(self.running.stored());
        }
        if number == self.next_start.version.number {
            return Ok(self.next_start.clone());
        }
        if !self.versions.iter().any(|version| version.number == number) {
            return Err(Refusal::NoVersion(number));
        }
        self.store.version(number).map_err(Refusal::Store)
    }

    /// The version that waits to be confirmed.
    #[must_use]
    pub fn unconfirmed(&self, now: Duration) -> Option<Unconfirmed> {
        let (Phase::Waiting(waiting) | Phase::Returning(waiting)) = &self.phase else {
            return None;
        };
        Some(Unconfirmed {
            number: self.running.version.number,
            left: waiting.until.map(|until| until.saturating_sub(now)),
        })
    }

    /// What names the state that a commit is about: it changes with what is in effect, with the version of the next
    /// start, with the file, and with application files.
    #[must_use]
    pub fn etag(&self) -> String {
        let mut hash = Sha256::new();
        let numbers = [self.running.version.number, self.next_start.version.number];
        numbers
            .iter()
            .for_each(|number| hash.update(number.to_be_bytes()));
        hash.update(&*self.running.text);
        hash.update([0]);
        if let Ok(text) = self.store.text() {
            hash.update(text);
        }
        let now = ApplicationFiles::beside(&self.next_start.text, self.store.folder());
        let files = self
            .running
            .files
            .iter()
            .chain(now.iter().flat_map(ApplicationFiles::iter));
        for part in files.flat_map(|(name, text)| [name, text]) {
            hash.update([0]);
            hash.update(part);
        }
        let hash = hash.finalize();
        let digits: String = hash.iter().take(16).map(|octet| format!("{octet:02x}")).collect();
        format!("\"{digits}\"")
    }

    /// What `text` means, with these application files or those that are there now; and what it would change.
    ///
    /// # Errors
    /// It has a mistake.
    pub fn differences_to(
        &self,
        text: &str,
        files: Option<ApplicationFiles>,
    ) -> Result<(Config, Differences), Refusal> {
        let (config, _) = self.parse(text, files)?;
        let differences = Differences::between(&self.running.config, &config);
        Ok((config, differences))
    }

    fn parse(
        &self,
        text: &str,
        files: Option<ApplicationFiles>,
    ) -> Result<(Config, ApplicationFiles), Refusal> {
        let parsed = match files {
            Some(files) => Config::parse_with(text, NAME, &files).map(|config| (config, files)),
            None => Config::parse_in(text, NAME, self.store.folder()),
        };
        parsed.map_err(mistake)
    }

    /// Begins to take a configuration into effect.
    ///
    /// # Errors
    /// [`Refusal`]; nothing has changed then.
    pub fn begin(&mut self, at: Moment, commit: Commit) -> Result<Progress, Refusal> {
        self.require_settled(at.now)?;
        let matches = |tag: &str| tag == "*" || tag.split(',').any(|tag| tag.trim() == self.etag());
        match &commit.if_match {
            None => return Err(Refusal::Unconditional),
            Some(tag) if !matches(tag) => return Err(Refusal::Changed),
            Some(_) => {}
        }
        let (config, files) = self.parse(&commit.text, commit.files)?;
        let is_edited = self.is_file_edited();
        let is_same = *self.running.text == commit.text && self.running.files == files;
        if is_same && self.next_start().is_none() && !is_edited {
            return Err(Refusal::Same);
        }
        let Differences { changes } = Differences::between(&self.running.config, &config);
        let later = changes.iter().filter(|change| change.class != ChangeClass::Live);
        let later: Vec<Change> = later.cloned().collect();
        if !commit.at_restart && !later.is_empty() {
            return Err(Refusal::NotLive(later));
        }
        let next = Held {
            version: Version {
                number: self.next_number,
                at_ms: at.unix_ms,
                by: commit.author.by,
                comment: commit.author.comment,
            },
            text: commit.text.into(),
            files,
            config: Arc::new(config),
        };
        self.prepare(&next, is_edited).map_err(Refusal::Store)?;
        self.next_number += 1;
        if commit.at_restart {
            return self.store_for_restart(&next, changes);
        }
        let effect = Effect {
            old: Arc::clone(&self.running.config),
            new: Arc::clone(&next.config),
        };
        let changes_nothing = changes.is_empty();
        self.phase = Phase::Applying {
            next,
            changes,
            confirm_within: commit.confirm_within,
        };
        match changes_nothing {
            // Other comments, or other words for the same.
            true => self.applied(at, Ok(())).map(Progress::Done),
            false => Ok(Progress::Apply(effect)),
        }
    }

    /// Stores a version that is to take effect. The file says until it is confirmed what was confirmed before, also
    /// where another program has written it.
    fn prepare(&self, next: &Held, is_edited: bool) -> std::io::Result<()> {
        self.store.keep(&self.next_start)?;
        if is_edited {
            self.store.restore(&self.next_start.text)?;
        }
        self.store.keep_pending(&next.stored())
    }

    fn store_for_restart(&mut self, next: &Held, changes: Vec<Change>) -> Result<Progress, Refusal> {
        let stored = next.stored();
        if let Err(error) = self.store.publish(&stored) {
            let _ = self.store.abandon(&stored.text, &self.next_start.text);
            return Err(Refusal::Store(error));
        }
        self.count_in(stored);
        Ok(Progress::Done(CommitOutcome {
            version: next.version.clone(),
            applied: Applied::AtRestart,
            changes,
        }))
    }

    /// Takes in whether what was to take effect has.
    ///
    /// # Errors
    /// It has not, or it is in effect and could not be stored.
    pub fn applied(&mut self, at: Moment, result: Result<(), String>) -> Result<CommitOutcome, Refusal> {
        match (std::mem::take(&mut self.phase), result) {
            (
                Phase::Applying {
                    next,
                    changes,
                    confirm_within,
                },
                Ok(()),
            ) => {
                let waiting = Waiting {
                    previous: std::mem::replace(&mut self.running, next),
                    changes,
                    until: confirm_within.map(|time| at.now + time),
                    overdue: false,
                    stuck: false,
                };
                match confirm_within {
                    Some(time) => {
                        let outcome = self.outcome(Applied::Until(time), waiting.changes.clone());
                        self.phase = Phase::Waiting(waiting);
                        Ok(outcome)
                    }
                    None => self.settle(waiting),
                }
            }
            (Phase::Applying { .. }, Err(words)) => {
                let _ = self.store.discard();
                Err(Refusal::NotApplied(words))
            }
            (Phase::Returning(waiting), Ok(())) => Ok(self.returned(waiting)),
            (Phase::Returning(mut waiting), Err(words)) => {
                if waiting.overdue {
                    waiting.until = Some(at.now + RETRY);
                    waiting.stuck = true;
                }
                self.phase = Phase::Waiting(waiting);
                Err(Refusal::NotApplied(words))
            }
            (phase, _) => {
                self.phase = phase;
                Err(Refusal::Settled)
            }
        }
    }

    /// Makes the version in effect that of the next start. One that cannot be rolled back may be confirmed late.
    ///
    /// # Errors
    /// None waits, its time is over, or it cannot be stored.
    pub fn confirm(&mut self, now: Duration) -> Result<CommitOutcome, Refusal> {
        match std::mem::take(&mut self.phase) {
            Phase::Waiting(waiting) if waiting.stuck || !waiting.is_over(now) => self.settle(waiting),
            phase => {
                let is_waiting = matches!(phase, Phase::Waiting(_) | Phase::Returning(_));
                self.phase = phase;
                Err(match is_waiting {
                    true => Refusal::TooLate(self.running.version.number),
                    false => Refusal::Settled,
                })
            }
        }
    }

    /// Begins to return to an earlier version.
    ///
    /// # Errors
    /// [`Refusal`], as of a commit.
    pub fn begin_rollback(&mut self, at: Moment, rollback: Rollback) -> Result<Progress, Refusal> {
        if let Phase::Waiting(waiting) = &self.phase
            && rollback.to.is_none_or(|to| to == waiting.previous.version.number)
        {
            return self.begin_return().map(Progress::Apply).ok_or(Refusal::Settled);
        }
        self.require_settled(at.now)?;
        let own = self.running.version.number;
        let before = self.versions.iter().rev().find(|version| version.number < own);
        let to = rollback
            .to
            .or(before.map(|version| version.number))
            .ok_or(Refusal::NoVersion(own.saturating_sub(1)))?;
        let StoredVersion { text, files, .. } = self.stored(to)?;
        let mut author = rollback.author;
        if author.comment.is_empty() {
            author.comment = format!("rollback to {to}");
        }
        let commit = Commit {
            text,
            files: Some(files),
            author,
            if_match: Some(rollback.if_match.unwrap_or_else(|| "*".to_owned())),
            confirm_within: None,
            at_restart: rollback.at_restart,
        };
        self.begin(at, commit)
    }

    /// When [`expire`](Self::expire) has something to do.
    #[must_use]
    pub fn due(&self) -> Option<Duration> {
        match &self.phase {
            Phase::Waiting(waiting) => waiting.until,
            _ => None,
        }
    }

    /// Begins the rollback of a version whose time is over.
    pub fn expire(&mut self, now: Duration) -> Option<Effect> {
        let Phase::Waiting(waiting) = &mut self.phase else {
            return None;
        };
        if !waiting.is_over(now) {
            return None;
        }
        waiting.overdue = true;
        self.begin_return()
    }

    fn begin_return(&mut self) -> Option<Effect> {
        match std::mem::take(&mut self.phase) {
            Phase::Waiting(waiting) => {
                let effect = Effect {
                    old: Arc::clone(&self.running.config),
                    new: Arc::clone(&waiting.previous.config),
                };
                self.phase = Phase::Returning(waiting);
                Some(effect)
            }
            phase => {
                self.phase = phase;
                None
            }
        }
    }

    fn returned(&mut self, waiting: Waiting) -> CommitOutcome {
        let outcome = self.outcome(Applied::RolledBack, waiting.changes);
        let ended = std::mem::replace(&mut self.running, waiting.previous);
        // What stays on disk is discarded at the next commit or start.
        let _ = self.store.abandon(&ended.text, &self.next_start.text);
        if waiting.overdue {
            self.rolled_back = Some(RolledBack {
                version: ended.version,
                why: "it was not confirmed in time",
            });
        }
        outcome
    }

    /// Stores the version in effect for the next start.
    fn settle(&mut self, waiting: Waiting) -> Result<CommitOutcome, Refusal> {
        let stored = self.running.stored();
        match self.store.publish(&stored) {
            Ok(()) => {
                let outcome = self.outcome(Applied::Confirmed, waiting.changes);
                self.count_in(stored);
                Ok(outcome)
            }
            Err(error) => {
                self.phase = Phase::Waiting(waiting);
                Err(Refusal::Unstored(self.running.version.number, error))
            }
        }
    }

    fn outcome(&self, applied: Applied, changes: Vec<Change>) -> CommitOutcome {
        CommitOutcome {
            version: self.running.version.clone(),
            applied,
            changes,
        }
    }

    fn count_in(&mut self, stored: StoredVersion) {
        self.versions.push(stored.version.clone());
        let surplus = self.versions.len().saturating_sub(MOST_VERSIONS);
        self.versions.drain(..surplus);
        self.next_start = stored;
        self.phase = Phase::Settled;
    }

    fn require_settled(&self, now: Duration) -> Result<(), Refusal> {
        match &self.phase {
            Phase::Settled => Ok(()),
            Phase::Waiting(waiting) if waiting.is_over(now) && !waiting.stuck => {
                Err(Refusal::TooLate(self.running.version.number))
            }
            Phase::Applying { next, .. } => Err(Refusal::Unconfirmed(next.version.number)),
            Phase::Waiting(_) | Phase::Returning(_) => Err(Refusal::Unconfirmed(self.running.version.number)),
        }
    }
}

impl Waiting {
    fn is_over(&self, now: Duration) -> bool {
        self.overdue || self.until.is_some_and(|until| until <= now)
    }
}

fn mistake(error: ConfigError) -> Refusal {
    Refusal::Mistake(error.to_string())
}
