//! The vectors of `docs/inband.md`: blocks of hexadecimal octets with names, in a chapter. `SLUICE_GOLDEN=write` writes
//! them anew; they are to be read before they are committed.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/inband.md")
}

/// Before the chapter, the chapter, and what is behind it.
fn divided(document: &str, chapter: &str) -> [String; 3] {
    let begin = document.find(&format!("\n## {chapter}\n")).expect("the chapter") + 1;
    let (before, rest) = document.split_at(begin);
    let end = rest.find("\n## ").map_or(rest.len(), |end| end + 1);
    let (inside, behind) = rest.split_at(end);
    [before, inside, behind].map(str::to_owned)
}

fn in_hexadecimal(octets: &[u8]) -> String {
    octets.chunks(32).fold(String::new(), |mut text, line| {
        let words: Vec<String> = line.iter().map(|octet| format!("{octet:02x}")).collect();
        writeln!(text, "{}", words.join(" ")).expect("a string takes it");
        text
    })
}

/// Holds the vectors of a chapter to these, by name and in their order: all that are there.
pub fn check(chapter: &str, expected: &[(&str, Vec<u8>)]) {
    let document = fs::read_to_string(path()).expect("the document");
    let [before, inside, behind] = divided(&document, chapter);
    let mut blocks = inside.split("```hex ");
    let mut written = blocks.next().unwrap_or_default().to_owned();
    let mut found = Vec::new();
    for block in blocks {
        let (name, rest) = block.split_once('\n').expect("a name");
        let (hexadecimal, text) = rest.split_once("```").expect("an end");
        let new = expected.iter().find(|(known, _)| *known == name);
        let new = new.map(|(_, octets)| in_hexadecimal(octets)).unwrap_or_default();
        write!(written, "```hex {name}\n{new}```{text}").expect("a string takes it");
        found.push((name.to_owned(), hexadecimal.to_owned()));
    }
    if std::env::var_os("SLUICE_GOLDEN").is_some_and(|mode| mode == "write") {
        fs::write(path(), [before, written, behind].concat()).expect("the document is written");
        return;
    }
    let expected: Vec<(String, String)> = expected
        .iter()
        .map(|(name, octets)| ((*name).to_owned(), in_hexadecimal(octets)))
        .collect();
    assert_eq!(found, expected, "the vectors of {chapter}");
}
