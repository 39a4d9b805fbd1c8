//! A report on a terminal.

use super::super::published;
use super::contents::Report;
use super::tables::{Table, tables};

/// Columns at most of a cell, whose rest is in the JSON and on the page.
const WIDEST: usize = 100;

/// The report as lines of text.
#[must_use]
pub fn text(report: &Report) -> String {
    let mut lines = vec![format!(
        "Published models beside measured figures: {} in any of them; published: {}",
        report.leaves_out,
        published::SOURCE
    )];
    lines.extend(
        report
            .warnings
            .iter()
            .map(|warning| format!("WARNING: {warning}")),
    );
    for table in tables(report) {
        if !table.rows.is_empty() {
            lines.extend(lines_of(&table));
        }
    }
    lines.join("\n") + "\n"
}

fn lines_of(table: &Table) -> Vec<String> {
    let mut lines = vec![String::new(), table.title.to_owned()];
    if !table.note.is_empty() {
        lines.push(format!("  {}", table.note));
    }
    let columns = table.head.len();
    let width = |column: usize| {
        let cells = table.rows.iter().filter_map(|row| row.get(column));
        let cells = cells.chain(table.head.get(column));
        cells
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
            .min(WIDEST)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in std::iter::once(&table.head).chain(&table.rows) {
        let cell = |(place, cell): (usize, &String)| {
            // The last column is as long as it is: nothing is behind it.
            if place + 1 == columns {
                cell.clone()
            } else {
                let cut: String = cell.chars().take(widths[place]).collect();
                format!("{cut:<width$}", width = widths[place])
            }
        };
        let cells: Vec<String> = row.iter().enumerate().map(cell).collect();
        lines.push(format!("  {}", cells.join("  ")).trim_end().to_owned());
    }
    lines
}
