//! The repository's sources: which files there are, and which tests in them.

use std::path::{Path, PathBuf};

pub struct Sources {
    /// Each file of the crates, and the functions in it.
    files: Vec<(String, Vec<String>)>,
    /// Folders of golden cases.
    cases: Vec<String>,
}

impl Sources {
    pub fn read() -> Sources {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut found = Vec::new();
        for entry in children(&crates) {
            for folder in ["src", "tests"] {
                walk(&entry.join(folder), &mut found);
            }
        }
        walk(&crates.join("../tests/interop"), &mut found);
        let files = found.iter().map(|file| {
            let text = std::fs::read_to_string(file).unwrap();
            (file.to_str().unwrap().to_owned(), functions(&text))
        });
        let cases = children(&crates.join("../tests/golden"));
        let sources = Sources {
            files: files.collect(),
            cases: cases.iter().filter_map(|case| name(case)).collect(),
        };
        assert!(sources.files.len() > 100 && sources.cases.len() > 10);
        sources
    }

    /// Whether `place`, words that a file's path has, has a test of this name; `golden` has cases.
    pub fn has_test(&self, place: &str, test: &str) -> bool {
        if place == "golden" {
            return self.cases.iter().any(|case| case == test);
        }
        let is_there = |path: &str| {
            place
                .split(' ')
                .all(|word| path.split(['/', '.']).any(|part| part == word))
        };
        let mut files = self.files.iter();
        files.any(|(path, functions)| is_there(path) && functions.iter().any(|function| function == test))
    }

    /// Whether there is a test or a golden case of this name, or with this beginning, or a file.
    pub fn has_name(&self, wanted: &str, is_begun: bool) -> bool {
        let fits = |name: &String| name == wanted || is_begun && name.starts_with(wanted);
        let mut functions = self.files.iter().flat_map(|(_, functions)| functions);
        functions.any(fits) || self.cases.iter().any(fits) || self.has_file(&format!("{wanted}.rs"))
    }

    /// Whether there is a file whose path ends with `name`.
    pub fn has_file(&self, name: &str) -> bool {
        let ending = format!("/{name}");
        self.files.iter().any(|(path, _)| path.ends_with(&ending))
    }
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<_> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .collect();
    all.sort();
    all
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in children(folder) {
        if path.is_dir() {
            walk(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs" || kind == "py") {
            found.push(path);
        }
    }
}

fn name(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    path.is_dir().then(|| name.to_owned())
}

/// Names of functions, of Rust and of Python.
fn functions(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim_start);
    let behind = lines.filter_map(|line| line.split_once("fn ").or_else(|| line.split_once("def ")));
    behind
        .filter(|(before, _)| !before.contains("//"))
        .filter_map(|(_, behind)| behind.split(['(', '<']).next())
        .map(str::to_owned)
        .collect()
}
