//! Tables of text: columns as wide as what is in them.

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
        self.rows.push(row);
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
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(["name", ">count", "more"]);
        table.row(["a".into(), "12345678".into(), String::new()]);
        table.row(["longer".into(), "9".into(), "x".into()]);
        let expected = "  name       count  more\n  a       12345678\n  longer         9  x\n";
        assert_eq!(table.text("  "), expected);
    }
}
