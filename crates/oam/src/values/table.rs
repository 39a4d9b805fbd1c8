//! Tables of text: columns as wide as what is in them.

/// A text of a peer for a terminal, which is to obey none of it: what is no plain character is written as `\u{...}`.
#[must_use]
pub fn clean(text: &str) -> String {
    let is_plain = |c: char| {
        let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        !c.is_control() && !turns
    };
    let written = |c: char| match is_plain(c) {
        true => c.to_string(),
        false => c.escape_unicode().to_string(),
    };
    text.chars().map(written).collect()
}

/// A table. A column whose head begins with `>` is set to the right.
pub(super) struct Table<const N: usize> {
    heads: [&'static str; N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    pub(super) fn new(heads: [&'static str; N]) -> Self {
        Self {
            heads,
            rows: Vec::new(),
        }
    }

    pub(super) fn row(&mut self, row: [String; N]) {
        self.rows.push(row.map(|cell| clean(&cell)));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The lines, each behind `indent`.
    pub(super) fn text(&self, indent: &str) -> String {
        let heads = self.heads.map(|head| head.trim_start_matches('>').to_owned());
        let lines = || std::iter::once(&heads).chain(&self.rows);
        let mut widths = [0; N];
        for line in lines() {
            for (width, cell) in widths.iter_mut().zip(line) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let is_right = self.heads.map(|head| head.starts_with('>'));
        let mut text = String::new();
        for line in lines() {
            let cells = line.iter().zip(widths).zip(is_right);
            let cells = cells.map(|((cell, width), is_right)| match is_right {
                true => format!("{cell:>width$}"),
                false => format!("{cell:<width$}"),
            });
            let line = cells.collect::<Vec<_>>().join("  ");
            text.push_str(indent);
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_plain_characters_only() {
        let mut table = Table::new(["DNN", "UE"]);
        table.row(["a\u{1b}[2Jb\nc\u{202e}".into(), "10.45.0.2".into()]);
        assert!(!table.text("").contains(['\u{1b}', '\u{202e}']));
        assert_eq!(table.text("").lines().count(), 2);
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(["name", ">count", "more"]);
        table.row(["a".into(), "12345678".into(), String::new()]);
        table.row(["longer".into(), "9".into(), "x".into()]);
        let expected = "  name       count  more\n  a       12345678\n  longer         9  x\n";
        assert_eq!(table.text("  "), expected);
    }
}
