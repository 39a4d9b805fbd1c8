//! The codec's own tables, read from its sources: `Name = number, "place" { rows }`.

use std::path::Path;

/// A message or a group.
pub struct Table {
    /// The number of its table in TS 29.244, or its clause.
    pub place: String,
    /// Type and presence of each IE.
    pub rows: Vec<(u16, char)>,
}

/// Tables of IEs whose values the codec keeps as octets (`pfcp/src/ie/opaque.rs`): MAR and ATSSS, TSC, MBS.
pub const OPAQUE: [&str; 25] = [
    "7.4.4.1.2-1",
    "7.4.5.1.4-1",
    "7.5.2.1-4",
    "7.5.2.1-5",
    "7.5.2.3-5",
    "7.5.2.3-6",
    "7.5.2.8-1",
    "7.5.2.8-2",
    "7.5.2.8-3",
    "7.5.2.10-1",
    "7.5.3.1-4",
    "7.5.3.1-5",
    "7.5.3.6-1",
    "7.5.3.7-1",
    "7.5.3.7-2",
    "7.5.3.7-3",
    "7.5.3.7-4",
    "7.5.4.3-4",
    "7.5.4.15-1",
    "7.5.4.16-1",
    "7.5.4.16-2",
    "7.5.4.16-3",
    "7.5.4.18-1",
    "7.5.5.3-1",
    "7.5.8.5-1",
];

/// All messages and groups.
pub fn tables() -> Vec<Table> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pfcp/src");
    let mut all = Vec::new();
    for folder in ["message", "group"] {
        let mut files: Vec<_> = std::fs::read_dir(source.join(folder))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        for file in files.iter().filter(|file| file.file_name().unwrap() != "mod.rs") {
            read(&std::fs::read_to_string(file).unwrap(), &mut all);
        }
    }
    assert!(all.len() > 100);
    all
}

fn read(source: &str, all: &mut Vec<Table>) {
    for line in source.lines().map(str::trim) {
        if let Some(place) = place(line) {
            all.push(Table {
                place: place.trim_start_matches("Table ").into(),
                rows: Vec::new(),
            });
        } else if let (Some(row), Some(table)) = (row(line), all.last_mut()) {
            table.rows.push(row);
        }
    }
}

/// `Name = 7, "7.5.2.5-1" {`
fn place(line: &str) -> Option<&str> {
    let (_, behind) = line.strip_suffix(" {")?.split_once(" = ")?;
    let (number, place) = behind.split_once(", ")?;
    number.parse::<u16>().ok()?;
    place.strip_prefix('"')?.strip_suffix('"')
}

/// `109 M qer_id: QerId,`; none of those of vendors.
fn row(line: &str) -> Option<(u16, char)> {
    let mut words = line.split(' ');
    let number = words.next()?.parse().ok().filter(|number| *number < 0x8000)?;
    let presence = words.next()?.chars().next()?;
    // What is mandatory in an acceptance is mandatory.
    Some((number, if presence == 'A' { 'M' } else { presence }))
}
