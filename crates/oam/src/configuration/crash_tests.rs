//! The process is killed at each step of writing: it comes back with a version that was acknowledged last, or with the
//! one that was about to be.

use std::cell::Cell;
use std::io;
use std::path::Path;
use std::rc::Rc;

use super::disk::Ownership;
use super::test_files::{Files, at, commit, text};
use super::{Configuration, Disk, Progress, Refusal, Rollback, SystemDisk};

/// A disk of a process that is killed after a number of steps; a file that is being written then has half of its
/// octets.
#[derive(Clone)]
struct Cut(Rc<Cell<u64>>);

impl Cut {
    fn after(steps: u64) -> Self {
        Self(Rc::new(Cell::new(steps)))
    }

    fn is_cut(&self) -> bool {
        self.0.get() == 0
    }

    fn step(&self) -> io::Result<SystemDisk> {
        let left = self.0.get().checked_sub(1).ok_or(io::ErrorKind::Interrupted)?;
        self.0.set(left);
        Ok(SystemDisk)
    }
}

impl Disk for Cut {
    fn make_directory(&self, path: &Path) -> io::Result<()> {
        self.step()?.make_directory(path)
    }

    fn write(&self, path: &Path, octets: &[u8]) -> io::Result<()> {
        match self.step() {
            Ok(disk) => disk.write(path, octets),
            Err(error) => {
                SystemDisk.write(path, &octets[..octets.len() / 2])?;
                Err(error)
            }
        }
    }

    fn give(&self, path: &Path, ownership: Ownership) -> io::Result<()> {
        self.step()?.give(path, ownership)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step()?.remove(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.step()?.sync_directory(path)
    }
}

/// What the client of a daemon does: a commit, one that waits and is confirmed, one that waits and is rolled back, one
/// for the next start, one of the file after it was edited.
struct Client<'a> {
    state: Configuration<Cut>,
    files: &'a Files,
    /// The text of the next start that was acknowledged last.
    acknowledged: String,
    /// The one that has been asked for since.
    asked: Option<String>,
}

impl Client<'_> {
    fn run(&mut self) -> Result<(), Refusal> {
        self.commit(&text("debug", "first"), None, false)?;
        self.commit(&text("warn", "second"), Some(60), false)?;
        self.confirm(text("warn", "second"))?;
        self.commit(&text("error", "never confirmed"), Some(60), false)?;
        if let Progress::Apply(_) = self.state.begin_rollback(at(3), Rollback::default())? {
            self.state.applied(at(3), Ok(()))?;
        }
        let stored = format!("{}limits: {{sessions: 5}}\n", text("warn", "third"));
        self.commit(&stored, None, true)?;
        self.commit(&text("info", "fourth"), None, false)
    }

    fn commit(&mut self, text: &str, confirm: Option<u64>, at_restart: bool) -> Result<(), Refusal> {
        let mut own = commit(text, confirm);
        own.at_restart = at_restart;
        self.asked = confirm.is_none().then(|| text.to_owned());
        if let Progress::Apply(_) = self.state.begin(at(1), own)? {
            self.state.applied(at(1), Ok(()))?;
        }
        self.acknowledged = self.asked.take().unwrap_or_else(|| self.acknowledged.clone());
        assert_eq!(self.files.read(), self.acknowledged);
        Ok(())
    }

    fn confirm(&mut self, text: String) -> Result<(), Refusal> {
        self.asked = Some(text.clone());
        self.state.confirm(at(2).now)?;
        (self.acknowledged, self.asked) = (text, None);
        Ok(())
    }
}

#[test]
fn a_kill_at_any_step_leaves_what_was_acknowledged() {
    let first = text("info", "first of all");
    let mut cuts = 0;
    for steps in 0.. {
        let files = Files::with(&first);
        let cut = Cut::after(steps);
        let mut client = Client {
            state: files.start_on(cut.clone()),
            files: &files,
            acknowledged: first.clone(),
            asked: None,
        };
        let end = client.run();
        let file = files.read();
        let expected = [Some(client.acknowledged.clone()), client.asked.clone()];
        assert!(
            expected.contains(&Some(file.clone())),
            "after {steps} steps: {file}"
        );
        let again = files.start();
        assert_eq!(&**again.text(), file, "after {steps} steps");
        // Each version that has been acknowledged is there.
        for version in client.state.versions() {
            let kept = again
                .versions()
                .iter()
                .any(|other| other.number == version.number);
            assert!(
                kept || !files.versions().exists(),
                "after {steps} steps: {version:?}"
            );
        }
        // Another process can commit.
        let mut again = files.start();
        let last = text("trace", "by another process");
        let mut own = commit(&last, None);
        own.at_restart = true;
        again.begin(at(9), own).unwrap();
        assert_eq!(files.read(), last);
        if end.is_ok() {
            break;
        }
        cuts += 1;
        assert!(cut.is_cut());
    }
    assert!(cuts > 40, "{cuts}");
}

#[test]
fn what_cannot_be_stored_is_not_in_effect() {
    let old = text("info", "old");
    let files = Files::with(&old);
    let mut state = files.start_on(Cut::after(0));
    let refused = state
        .begin(at(1), commit(&text("debug", "new"), None))
        .unwrap_err();
    assert!(matches!(refused, Refusal::Store(_)), "{refused}");
    assert_eq!(&**state.text(), old);
}
