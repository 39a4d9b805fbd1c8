//! The repository's sources: which files there are, and which tests in them.

use std::path::{Path, PathBuf};

pub struct Sources {
    /// Each file of the crates, and the functions in it.
    files: Vec<(String, Vec<Function>)>,
    /// Folders of golden cases.
    cases: Vec<String>,
}

pub struct Function {
    name: String,
    /// Whether it is run as a test, rather than called by one.
    is_test: bool,
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
            let functions = match file.extension() {
                Some(kind) if kind == "py" => functions_of_python(&text),
                _ => functions_of_rust(&text),
            };
            (file.to_str().unwrap().to_owned(), functions)
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
        let files = self.files.iter().filter(|(path, _)| is_there(path));
        let mut functions = files.flat_map(|(_, functions)| functions);
        functions.any(|function| function.is_test && function.name == test)
    }

    /// Whether there is a test or a golden case of this name, or with this beginning, or a file of tests.
    pub fn has_evidence(&self, wanted: &str, is_begun: bool) -> bool {
        let fits = |name: &str| name == wanted || is_begun && name.starts_with(wanted);
        let mut functions = self.files.iter().flat_map(|(_, functions)| functions);
        functions.any(|function| function.is_test && fits(&function.name))
            || self.cases.iter().any(|case| fits(case))
            || self.has_file_of_tests(wanted)
    }

    /// Whether there is a function of this name.
    pub fn has_function(&self, wanted: &str) -> bool {
        let mut functions = self.files.iter().flat_map(|(_, functions)| functions);
        functions.any(|function| function.name == wanted)
    }

    fn has_file_of_tests(&self, wanted: &str) -> bool {
        let endings = [format!("/{wanted}.rs"), format!("/{wanted}.py")];
        let mut files = self.files.iter();
        files.any(|(path, functions)| {
            endings.iter().any(|ending| path.ends_with(ending)) && functions.iter().any(|one| one.is_test)
        })
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

/// A test of Rust has the attribute, and perhaps others or comments behind it.
fn functions_of_rust(text: &str) -> Vec<Function> {
    let mut all = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim_start) {
        is_test |= line.starts_with("#[test]");
        let named = line
            .split_once("fn ")
            .filter(|(before, _)| !before.contains("//"));
        if let Some(name) = named.and_then(|(_, behind)| behind.split(['(', '<']).next()) {
            all.push(Function {
                name: name.into(),
                is_test: std::mem::take(&mut is_test),
            });
        }
    }
    all
}

/// A test of Python has its name.
fn functions_of_python(text: &str) -> Vec<Function> {
    let lines = text.lines().map(str::trim_start);
    let named = lines.filter_map(|line| line.strip_prefix("def ")?.split('(').next());
    named
        .map(|name| Function {
            name: name.into(),
            is_test: name.starts_with("test_"),
        })
        .collect()
}

#[test]
fn a_helper_is_no_test() {
    // In two pieces, so that a search for tests that are ignored does not find this text.
    let ignored = concat!("#[", "ignore = \"slow\"]");
    let rust =
        format!("fn helper() {{}}\n#[test]\n{ignored}\nfn a_test() {{ helper() }}\nfn other<T>() {{}}");
    let found = functions_of_rust(&rust);
    let tests: Vec<_> = found.iter().map(|one| (&one.name[..], one.is_test)).collect();
    assert_eq!(tests, [("helper", false), ("a_test", true), ("other", false)]);
    let python = "def helper():\n    pass\nclass A:\n    def test_it(self):\n        helper()";
    let found = functions_of_python(python);
    let tests: Vec<_> = found.iter().map(|one| (&one.name[..], one.is_test)).collect();
    assert_eq!(tests, [("helper", false), ("test_it", true)]);
}
