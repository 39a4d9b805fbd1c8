//! The documents as tables.

use std::path::Path;

/// A message or a group.
pub struct Table {
    /// The number of its table in TS 29.244, or its clause.
    pub place: String,
    pub rows: Vec<Row>,
}

pub struct Row {
    pub ies: Vec<Ie>,
    pub status: Status,
    /// Where a test is, and its name.
    pub tests: Vec<(String, String)>,
}

#[derive(Debug)]
pub struct Ie {
    pub number: u16,
    pub name: String,
    pub presence: char,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Done,
    /// With this cause.
    Refused(u8),
    Absent,
}

/// Whether a feature is announced to peers.
#[derive(Debug)]
pub enum Feature {
    Set,
    /// Where the configuration has such.
    SetWith(String),
    NotSet,
}

fn read(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/compliance");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

/// The cells of a table's row, but not of its head.
fn cells(line: &str) -> Option<Vec<String>> {
    let inside = line.strip_prefix("| ")?.strip_suffix(" |")?;
    Some(inside.split(" | ").map(|cell| cell.trim().to_owned()).collect())
}

/// All messages and groups of the document about IEs. A group without a heading of its own is named in the rows' first
/// column.
pub fn tables() -> Vec<Table> {
    let document = read("ts29244-ies.md");
    let mut all: Vec<Table> = Vec::new();
    for line in document.lines() {
        if let Some(title) = line.strip_prefix("### ") {
            all.push(Table {
                place: place(title),
                rows: Vec::new(),
            });
        } else if let Some(cells) = cells(line) {
            match &cells[..] {
                [ies, status, _, tests] if is_number(ies) => {
                    all.last_mut().unwrap().rows.push(row(ies, status, tests));
                }
                [group, ies, status, _] if is_number(ies) => all.push(Table {
                    place: place(group),
                    rows: vec![row(ies, status, "-")],
                }),
                _ => {}
            }
        }
    }
    assert!(all.len() > 100);
    all
}

/// The text in parentheses at the end, behind the number: `Create FAR (IE 3, Table 7.5.2.3-1)`.
fn place(title: &str) -> String {
    let (_, inside) = title.trim_end_matches(')').rsplit_once('(').unwrap();
    let place = inside.rsplit(", ").next().unwrap();
    place.trim_start_matches("Table ").into()
}

/// Whether a cell begins with an IE's number, not with a bit of a feature.
fn is_number(cell: &str) -> bool {
    let first = cell.split(' ').next().unwrap_or_default();
    first.parse::<u16>().is_ok()
}

fn row(ies: &str, status: &str, tests: &str) -> Row {
    Row {
        ies: ies.split(", ").map(ie).collect(),
        status: self::status(status),
        tests: tests
            .split("; ")
            .filter(|test| *test != "-")
            .map(|test| test.split_once(": ").unwrap_or_else(|| panic!("{test}")))
            .map(|(place, test)| (place.to_owned(), test.to_owned()))
            .collect(),
    }
}

/// `109 QER ID M`
fn ie(text: &str) -> Ie {
    let (number, behind) = text.split_once(' ').unwrap();
    let (name, presence) = behind.rsplit_once(' ').unwrap();
    assert!(["M", "C", "O"].contains(&presence), "{text}");
    Ie {
        number: number.parse().unwrap(),
        name: name.into(),
        presence: presence.chars().next().unwrap(),
    }
}

fn status(text: &str) -> Status {
    match text {
        "done" => Status::Done,
        "absent" => Status::Absent,
        _ => {
            let cause = text.strip_prefix("refused ").unwrap_or_else(|| panic!("{text}"));
            Status::Refused(cause.parse().unwrap())
        }
    }
}

/// Octet and bit of each UP Function Feature, and whether it is set.
pub fn features() -> Vec<((usize, usize), Feature)> {
    let document = read("ts29244-ies.md");
    let (_, behind) = document.split_once("## UP Function Features").unwrap();
    let (section, _) = behind.split_once("\n## ").unwrap();
    let rows = section.lines().filter_map(cells);
    rows.filter_map(|cells| {
        let (bit, _) = cells[0].split_once(' ')?;
        let (octet, bit) = bit.split_once('/')?;
        let state = match cells[2].as_str() {
            "set" => Feature::Set,
            "not set" => Feature::NotSet,
            other => Feature::SetWith(other.strip_prefix("set with ").unwrap().into()),
        };
        Some(((octet.parse().unwrap(), bit.parse().unwrap()), state))
    })
    .collect()
}

/// The rows, by cells, of a document about clauses.
pub fn clause_rows(name: &str) -> Vec<Vec<String>> {
    let document = read(name);
    let rows = document.lines().filter_map(cells);
    let rows: Vec<_> = rows
        .filter(|cells| cells[0] != "Clause" && cells.len() > 1)
        .collect();
    assert!(rows.len() > 5, "{name}");
    rows
}

/// Names of source files in a cell.
pub fn files(cell: &str) -> Vec<String> {
    let words = cell.split([' ', ',', ';', '`']);
    words
        .filter(|word| word.ends_with(".rs"))
        .map(str::to_owned)
        .collect()
}

/// What a name in a cell is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// A function, in backticks.
    Code,
    /// A test, or only the beginning of its name.
    Test { is_begun: bool },
}

/// What looks like a function's name in a cell.
pub fn identifiers(cell: &str) -> Vec<(String, Named)> {
    let is_part = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let mut all = Vec::new();
    for (place, text) in cell.split('`').enumerate() {
        let mut rest = text;
        while let Some(start) = rest.find(is_part) {
            let end = rest[start..].find(|character| !is_part(character));
            let end = end.map_or(rest.len(), |end| start + end);
            let word = &rest[start..end];
            rest = &rest[end..];
            let is_name =
                word.matches('_').count() >= 2 && word.bytes().all(|byte| !byte.is_ascii_uppercase());
            if is_name && !rest.starts_with(".rs") {
                let is_begun = rest.starts_with("...");
                let of = if place % 2 == 1 {
                    Named::Code
                } else {
                    Named::Test { is_begun }
                };
                all.push((word.to_owned(), of));
            }
        }
    }
    all
}
