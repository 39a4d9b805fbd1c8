//! What a reader has to know before the figures of a report.

use super::assumptions::Assumptions;
use super::models::ModelReport;
use super::result_file::ResultFile;

/// Warnings about files that do not belong together, runs that were disturbed, and figures that are void or small.
pub fn warnings(files: &[ResultFile], assumed: &Assumptions, models: &[ModelReport]) -> Vec<String> {
    let mut all = Vec::new();
    all.extend(different(
        files,
        "machines: figures of different machines may not be compared",
        |file| file.machine.words(),
    ));
    all.extend(different(
        files,
        "versions or commits: figures of one table are to be of one",
        ResultFile::build,
    ));
    for file in files.iter().filter(|file| file.commit.is_none()) {
        all.push(format!("{}: its commit is not recorded", file.name));
    }
    for file in files.iter().filter(|file| file.quick) {
        all.push(format!(
            "{}: a quick look, small tables and short runs: these are not the figures that count",
            file.name
        ));
    }
    for file in files.iter().filter(|file| !file.disturbed_by.is_empty()) {
        all.push(format!(
            "{}: the run was disturbed: {}",
            file.name,
            file.disturbed_by.join("; ")
        ));
    }
    all.extend(twice(files));
    for point in models.iter().flat_map(|model| &model.points) {
        let void = point.notes.iter().filter(|note| note.starts_with("void"));
        all.extend(void.map(|note| format!("{}: {note}", point.name)));
    }
    if assumed.scaling.from == "assumed" {
        all.push(format!(
            "no file has T11 (`sluice bench scaling --json FILE`): scaling of {} is assumed",
            assumed.scaling.value
        ));
    }
    all
}

/// A warning where files differ in `of`.
fn different(files: &[ResultFile], what: &str, of: impl Fn(&ResultFile) -> String) -> Option<String> {
    let first = of(files.first()?);
    if files.iter().all(|file| of(file) == first) {
        return None;
    }
    let all: Vec<String> = files
        .iter()
        .map(|file| format!("{}: {}", file.name, of(file)))
        .collect();
    Some(format!("files of different {what}. {}", all.join("; ")))
}

/// A warning for each point that several files have.
fn twice(files: &[ResultFile]) -> Vec<String> {
    let mut all = Vec::new();
    for (place, file) in files.iter().enumerate() {
        for later in &files[place + 1..] {
            let shared = file
                .points
                .iter()
                .filter(|point| later.point(&point.name).is_some());
            let names: Vec<&str> = shared.map(|point| point.name.as_str()).collect();
            if let Some(first) = names.first() {
                all.push(format!(
                    "{} points, {first} the first, are in {} and in {}: the last file that has one counts",
                    names.len(),
                    file.name,
                    later.name
                ));
            }
        }
    }
    all
}
