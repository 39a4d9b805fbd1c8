//! Commits, confirmations and rollbacks over simulated time.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Duration;

use super::test_files::{Files, at, commit, text};
use super::{
    Applied, CommitOutcome, Configuration, Disk, MOST_VERSIONS, Progress, Refusal, Rollback, Unconfirmed,
};

/// Takes a step into effect, and returns what became of it.
fn finish<D: Disk>(
    state: &mut Configuration<D>,
    seconds: u64,
    step: Result<Progress, Refusal>,
) -> Result<CommitOutcome, Refusal> {
    match step? {
        Progress::Done(outcome) => Ok(outcome),
        Progress::Apply(_) => state.applied(at(seconds), Ok(())),
    }
}

fn committed(state: &mut Configuration, seconds: u64, text: &str) -> u64 {
    let step = state.begin(at(seconds), commit(text, None));
    let outcome = finish(state, seconds, step).unwrap();
    assert_eq!(outcome.applied, Applied::Confirmed);
    outcome.version.number
}

fn numbers(state: &Configuration) -> Vec<u64> {
    state.versions().iter().map(|version| version.number).collect()
}

#[test]
fn a_commit_is_in_effect_in_the_file_and_among_the_versions() {
    let (old, new) = (text("info", "old"), text("debug", "new"));
    let files = Files::with(&old);
    let mut state = files.start();
    assert!(!files.versions().exists());
    assert_eq!(committed(&mut state, 1, &new), 2);
    assert_eq!((&**state.text(), &files.read()), (&*new, &new));
    assert_eq!(state.config().log.level.to_string(), "debug");
    assert_eq!(numbers(&state), [1, 2]);
    assert_eq!(state.stored(1).unwrap().text, old);
    assert!(matches!(state.stored(3), Err(Refusal::NoVersion(3))));
    // Another process continues with the same versions.
    let again = files.start();
    assert_eq!(again.version(), state.version());
    assert_eq!(numbers(&again), [1, 2]);
    assert_eq!(again.stored(1).unwrap().text, old);
    assert_eq!(
        (again.version().by.as_str(), again.version().comment.as_str()),
        ("uid:0", "a test")
    );
}

#[test]
fn what_is_not_confirmed_in_time_is_rolled_back() {
    let (old, new) = (text("info", "old"), text("debug", "new"));
    let files = Files::with(&old);
    let mut state = files.start();
    let step = state.begin(at(10), commit(&new, Some(60)));
    let outcome = finish(&mut state, 10, step).unwrap();
    assert_eq!(outcome.applied, Applied::Until(Duration::from_secs(60)));
    assert_eq!(state.due(), Some(Duration::from_secs(70)));
    assert_eq!((&**state.text(), files.read()), (&*new, old.clone()));
    let unconfirmed = |left| {
        Some(Unconfirmed {
            number: 2,
            left: Some(Duration::from_secs(left)),
        })
    };
    assert_eq!(state.unconfirmed(at(30).now), unconfirmed(40));
    assert!(state.expire(at(69).now).is_none());
    // Another commit has to wait.
    let refused = state.begin(at(30), commit(&text("warn", ""), None)).unwrap_err();
    assert!(matches!(refused, Refusal::Unconfirmed(2)));
    assert!(matches!(state.confirm(at(70).now), Err(Refusal::TooLate(2))));
    let back = state.expire(at(70).now).unwrap();
    assert_eq!(back.new.log.level.to_string(), "info");
    let outcome = state.applied(at(70), Ok(())).unwrap();
    assert_eq!(
        (outcome.applied, outcome.version.number),
        (Applied::RolledBack, 2)
    );
    assert_eq!((&**state.text(), files.read()), (&*old, old.clone()));
    assert_eq!(state.rolled_back().unwrap().version.number, 2);
    assert_eq!((state.due(), numbers(&state)), (None, vec![1]));
    // Its number is not given again.
    assert_eq!(committed(&mut state, 80, &new), 3);
}

#[test]
fn what_is_confirmed_stays() {
    let (old, new) = (text("info", "old"), text("debug", "new"));
    let files = Files::with(&old);
    let mut state = files.start();
    assert!(matches!(state.confirm(at(1).now), Err(Refusal::Settled)));
    let step = state.begin(at(10), commit(&new, Some(60)));
    finish(&mut state, 10, step).unwrap();
    assert_eq!(state.confirm(at(69).now).unwrap().applied, Applied::Confirmed);
    assert!(state.expire(at(70).now).is_none());
    assert_eq!((files.read(), numbers(&state)), (new, vec![1, 2]));
}

#[test]
fn a_process_that_ends_before_the_confirmation_comes_back_with_the_old_one() {
    let (old, new) = (text("info", "old"), text("debug", "new"));
    let files = Files::with(&old);
    let mut state = files.start();
    let step = state.begin(at(10), commit(&new, Some(60)));
    finish(&mut state, 10, step).unwrap();
    drop(state);
    let mut again = files.start();
    assert_eq!(&**again.text(), old);
    let lost = again.rolled_back().unwrap();
    assert_eq!(
        (lost.version.number, lost.why),
        (2, "the process ended before it was confirmed")
    );
    assert_eq!(committed(&mut again, 1, &new), 3);
}

#[test]
fn the_file_that_was_edited_is_not_that_of_the_next_start_before_the_confirmation() {
    let (old, new) = (text("info", "old"), text("debug", "edited"));
    let files = Files::with(&old);
    let mut state = files.start();
    let tag = state.etag();
    fs::write(files.file(), &new).unwrap();
    assert!(state.is_file_edited());
    // Who has not seen that does not replace it.
    let mut unseen = commit(&text("warn", ""), None);
    unseen.if_match = Some(tag);
    assert!(matches!(state.begin(at(1), unseen), Err(Refusal::Changed)));
    let mut seen = commit(&new, Some(60));
    seen.if_match = Some(state.etag());
    let step = state.begin(at(1), seen);
    finish(&mut state, 1, step).unwrap();
    assert_eq!(files.read(), old);
    assert_eq!(
        fs::read_to_string(files.versions().join("edited.yaml")).unwrap(),
        new
    );
    state.confirm(at(2).now).unwrap();
    assert_eq!(files.read(), new);
}

#[test]
fn a_commit_names_what_it_replaces() {
    let files = Files::with(&text("info", "old"));
    let mut state = files.start();
    let mut own = commit(&text("debug", "new"), None);
    own.if_match = None;
    assert!(matches!(
        state.begin(at(1), own.clone()),
        Err(Refusal::Unconditional)
    ));
    own.if_match = Some("\"other\"".into());
    assert!(matches!(state.begin(at(1), own.clone()), Err(Refusal::Changed)));
    let tag = state.etag();
    own.if_match = Some(format!("\"other\", {tag}"));
    let step = state.begin(at(1), own);
    finish(&mut state, 1, step).unwrap();
    assert_ne!(state.etag(), tag);
}

#[test]
fn a_mistake_and_what_is_not_live_change_nothing() {
    let old = text("info", "old");
    let files = Files::with(&old);
    let mut state = files.start();
    let mistake = state.begin(at(1), commit("node: {}", None)).unwrap_err();
    assert!(
        matches!(&mistake, Refusal::Mistake(words) if words.contains("line 1")),
        "{mistake}"
    );
    let other = format!("{old}limits: {{sessions: 5}}\ndpdk: {{buffers: 4096}}\n");
    let refused = state.begin(at(1), commit(&other, None)).unwrap_err().to_string();
    assert!(
        refused.contains("~ limits.sessions: 10000 -> 5 (restart)"),
        "{refused}"
    );
    assert!(
        refused.contains("~ dpdk.buffers: 32768 -> 4096 (restart)"),
        "{refused}"
    );
    assert!(matches!(
        state.begin(at(1), commit(&old, None)),
        Err(Refusal::Same)
    ));
    assert_eq!((files.read(), numbers(&state)), (old, vec![1]));
    assert!(!files.versions().exists());
}

#[test]
fn what_control_refuses_changes_nothing() {
    let old = text("info", "old");
    let files = Files::with(&old);
    let mut state = files.start();
    state.begin(at(1), commit(&text("debug", "new"), None)).unwrap();
    let refused = state.applied(at(1), Err("no room".into())).unwrap_err();
    assert!(refused.to_string().contains("no room"));
    assert_eq!((&**state.text(), files.read()), (&*old, old.clone()));
    assert_eq!(numbers(&files.start()), [1]);
    assert!(files.start().rolled_back().is_none());
}

#[test]
fn what_needs_a_restart_can_be_stored_for_it() {
    let old = text("info", "old");
    let files = Files::with(&old);
    let mut state = files.start();
    let other = format!("{old}limits: {{sessions: 5}}\n");
    let mut own = commit(&other, None);
    own.at_restart = true;
    let step = state.begin(at(1), own);
    let outcome = finish(&mut state, 1, step).unwrap();
    assert_eq!((outcome.applied, outcome.changes.len()), (Applied::AtRestart, 1));
    assert_eq!((&**state.text(), files.read()), (&*old, other.clone()));
    assert_eq!(
        (state.version().number, state.next_start().unwrap().number),
        (1, 2)
    );
    assert!(!state.is_file_edited());
    assert_eq!(files.start().version().number, 2);
    // What is in effect can be made that of the next start again.
    assert_eq!(committed(&mut state, 2, &old), 3);
    assert!(state.next_start().is_none());
    assert_eq!(files.read(), old);
}

#[test]
fn other_comments_are_a_version_without_changes() {
    let files = Files::with(&text("info", "old"));
    let mut state = files.start();
    let other = text("info", "another comment");
    let Ok(Progress::Done(outcome)) = state.begin(at(1), commit(&other, None)) else {
        panic!("there is nothing to take into effect");
    };
    assert_eq!((outcome.applied, outcome.changes.len()), (Applied::Confirmed, 0));
    assert_eq!(files.read(), other);
}

#[test]
fn a_rollback_is_a_commit_of_an_earlier_version() {
    let texts = ["info", "debug", "warn"].map(|level| text(level, ""));
    let files = Files::with(&texts[0]);
    let mut state = files.start();
    committed(&mut state, 1, &texts[1]);
    committed(&mut state, 2, &texts[2]);
    let to = |to| Rollback {
        to,
        ..Rollback::default()
    };
    let step = state.begin_rollback(at(3), to(None));
    let outcome = finish(&mut state, 3, step).unwrap();
    assert_eq!(
        (outcome.version.number, outcome.version.comment.as_str()),
        (4, "rollback to 2")
    );
    assert_eq!(files.read(), texts[1]);
    let step = state.begin_rollback(at(4), to(Some(1)));
    finish(&mut state, 4, step).unwrap();
    assert_eq!(files.read(), texts[0]);
    assert!(matches!(
        state.begin_rollback(at(5), to(Some(9))),
        Err(Refusal::NoVersion(9))
    ));
}

#[test]
fn a_rollback_ends_what_waits() {
    let (old, new) = (text("info", "old"), text("debug", "new"));
    let files = Files::with(&old);
    let mut state = files.start();
    let step = state.begin(at(1), commit(&new, Some(60)));
    finish(&mut state, 1, step).unwrap();
    let step = state.begin_rollback(at(2), Rollback::default());
    let outcome = finish(&mut state, 2, step).unwrap();
    assert_eq!(
        (outcome.applied, outcome.version.number),
        (Applied::RolledBack, 2)
    );
    assert_eq!(
        (&**state.text(), files.read(), state.due()),
        (&*old, old.clone(), None)
    );
    assert!(state.rolled_back().is_none());
}

#[test]
fn a_rollback_that_fails_is_tried_again() {
    let (old, new) = (text("info", "old"), text("debug", "new"));
    let files = Files::with(&old);
    let mut state = files.start();
    let step = state.begin(at(0), commit(&new, Some(10)));
    finish(&mut state, 0, step).unwrap();
    state.expire(at(10).now).unwrap();
    state.applied(at(10), Err("no room".into())).unwrap_err();
    assert_eq!(
        (&**state.text(), state.due()),
        (&*new, Some(Duration::from_secs(11)))
    );
    state.expire(at(11).now).unwrap();
    state.applied(at(11), Ok(())).unwrap();
    assert_eq!((&**state.text(), files.read()), (&*old, old.clone()));
}

#[test]
fn what_cannot_be_rolled_back_may_be_confirmed_late() {
    let new = text("debug", "new");
    let files = Files::with(&text("info", "old"));
    let mut state = files.start();
    let step = state.begin(at(0), commit(&new, Some(10)));
    finish(&mut state, 0, step).unwrap();
    assert!(matches!(state.confirm(at(10).now), Err(Refusal::TooLate(2))));
    state.expire(at(10).now).unwrap();
    state
        .applied(at(10), Err("5 sessions use it".into()))
        .unwrap_err();
    assert_eq!(state.confirm(at(10).now).unwrap().applied, Applied::Confirmed);
    assert_eq!((files.read(), state.due()), (new, None));
}

#[test]
fn fifty_versions_are_kept() {
    let files = Files::with(&text("info", "0"));
    let mut state = files.start();
    for number in 1..70 {
        committed(&mut state, number, &text("info", &number.to_string()));
    }
    let expected: Vec<u64> = (21..=70).collect();
    assert_eq!(
        (numbers(&state), expected.len()),
        (expected.clone(), MOST_VERSIONS)
    );
    assert_eq!(numbers(&files.start()), expected);
    assert_eq!(state.stored(21).unwrap().text, text("info", "20"));
    assert!(matches!(state.stored(20), Err(Refusal::NoVersion(20))));
    assert_eq!(fs::read_dir(files.versions()).unwrap().count(), MOST_VERSIONS);
}

#[test]
fn a_file_that_was_edited_before_the_start_is_a_version_of_its_own() {
    let files = Files::with(&text("info", "old"));
    let mut state = files.start();
    committed(&mut state, 1, &text("debug", "new"));
    fs::write(files.file(), text("warn", "by hand")).unwrap();
    let again = files.start();
    assert_eq!((again.version().number, again.version().by.as_str()), (3, "file"));
    assert_eq!(numbers(&again), [1, 2, 3]);
}

#[test]
fn the_file_keeps_its_mode_and_a_link_stays_a_link() {
    let files = Files::with(&text("info", "old"));
    fs::set_permissions(files.file(), fs::Permissions::from_mode(0o640)).unwrap();
    let link = files.directory().join("link.yaml");
    symlink(files.file(), &link).unwrap();
    let store = super::Store::of(&link, None).unwrap();
    let mut state = Configuration::open(store, files.read(), files.applications(), at(0)).unwrap();
    committed(&mut state, 1, &text("debug", "new"));
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert_eq!(files.read(), text("debug", "new"));
    assert_eq!(
        fs::metadata(files.file()).unwrap().permissions().mode() & 0o7777,
        0o640
    );
    let hidden = fs::metadata(files.versions().join("2.json")).unwrap();
    assert_eq!(hidden.permissions().mode() & 0o7777, 0o600);
}

#[test]
fn a_version_that_is_damaged_is_none() {
    let files = Files::with(&text("info", "old"));
    let mut state = files.start();
    committed(&mut state, 1, &text("debug", "new"));
    fs::write(files.versions().join("1.json"), "{").unwrap();
    fs::write(files.versions().join("pending.json"), "{").unwrap();
    let mut again = files.start();
    assert_eq!(numbers(&again), [2]);
    assert!(!files.versions().join("pending.json").exists());
    assert_eq!(committed(&mut again, 1, &text("info", "more")), 3);
}

/// `text` with application files, of which there is one.
fn with_files(files: &Files, text: &str, hosts: &str) -> String {
    files.write("apps/a.yaml", &format!("- {{name: shop, hosts: [{hosts}]}}\n"));
    format!("{text}predefined: {{application_files: ['apps/*.yaml']}}\n")
}

/// The hosts of the first application in effect.
fn hosts(state: &Configuration) -> String {
    let application = &state.config().predefined.applications[0];
    application.hosts.iter().map(|host| host.0.to_string()).collect()
}

#[test]
fn a_commit_takes_application_files_as_they_are() {
    let files = Files::with("");
    let text = with_files(&files, &text("info", "old"), "a.example");
    fs::write(files.file(), &text).unwrap();
    let mut state = files.start();
    assert_eq!(hosts(&state), "a.example");
    assert!(!state.are_files_edited() && !state.is_file_edited());
    let refused = state.begin(at(1), commit(&text, None)).unwrap_err();
    assert!(matches!(refused, Refusal::Same), "{refused}");

    let before = state.etag();
    files.write("apps/a.yaml", "- {name: shop, hosts: [b.example]}\n");
    assert!(state.are_files_edited() && !state.is_file_edited());
    assert_ne!(state.etag(), before);
    assert_eq!(hosts(&state), "a.example");
    let mut own = commit(&text, None);
    own.if_match = Some(before);
    let refused = state.begin(at(1), own).unwrap_err();
    assert!(matches!(refused, Refusal::Changed), "{refused}");
    let (_, differences) = state.differences_to(&text, None).unwrap();
    let paths: Vec<_> = differences.changes.iter().map(|change| &*change.path).collect();
    assert_eq!(paths, ["predefined.applications[shop].hosts"]);
    assert_eq!(committed(&mut state, 2, &text), 2);
    assert_eq!(hosts(&state), "b.example");
    assert!(!state.are_files_edited());

    // A bad one changes nothing.
    files.write("apps/b.yaml", "- {name: shop, hosts: [c.example]}\n");
    let refused = state.begin(at(3), commit(&text, None)).unwrap_err().to_string();
    assert!(refused.contains("apps/b.yaml: line 1"), "{refused}");
    assert!(refused.contains("first in apps/a.yaml line 1"), "{refused}");
    assert_eq!((hosts(&state).as_str(), state.version().number), ("b.example", 2));

    // A start knows the version by its text and its files.
    fs::remove_file(files.directory().join("apps/b.yaml")).unwrap();
    assert_eq!(numbers(&files.start()), [1, 2]);
    files.write("apps/a.yaml", "- {name: shop, hosts: [d.example]}\n");
    assert_eq!(numbers(&files.start()), [1, 2, 3]);
}

#[test]
fn a_rollback_takes_the_application_files_of_its_version() {
    let files = Files::with("");
    let text = with_files(&files, &text("info", "old"), "a.example");
    fs::write(files.file(), &text).unwrap();
    let mut state = files.start();
    files.write("apps/a.yaml", "- {name: shop, hosts: [b.example]}\n");
    // What is not confirmed.
    let begun = state.begin(at(1), commit(&text, Some(60)));
    finish(&mut state, 1, begun).unwrap();
    assert_eq!(hosts(&state), "b.example");
    let effect = state.expire(at(61).now).unwrap();
    assert_eq!(
        effect.new.predefined.applications[0].hosts[0].0.to_string(),
        "a.example"
    );
    state.applied(at(61), Ok(())).unwrap();
    assert_eq!(hosts(&state), "a.example");
    // The file is the operator's, and says otherwise.
    assert!(state.are_files_edited());

    // An earlier version.
    assert_eq!(committed(&mut state, 70, &text), 3);
    assert_eq!(hosts(&state), "b.example");
    let (config, _) = state
        .differences_to(&text, Some(state.stored(1).unwrap().files))
        .unwrap();
    assert_eq!(
        config.predefined.applications[0].hosts[0].0.to_string(),
        "a.example"
    );
    let to = Rollback {
        to: Some(1),
        ..Rollback::default()
    };
    let begun = state.begin_rollback(at(80), to);
    finish(&mut state, 80, begun).unwrap();
    assert_eq!((hosts(&state).as_str(), state.version().number), ("a.example", 4));
    assert!(state.are_files_edited());
    files.write("apps/a.yaml", "- {name: shop, hosts: [a.example]}\n");
    assert!(!state.are_files_edited());
    assert_eq!(files.start().version().number, 4);
}
