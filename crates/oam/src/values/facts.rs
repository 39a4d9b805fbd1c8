//! Lines of facts by name.

use super::table::clean;

/// The width of the names of facts.
const NAMES: usize = 10;

/// Items with commas between, or a dash.
pub(super) fn list<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    if items.is_empty() {
        "-".into()
    } else {
        items.join(", ")
    }
}

/// Facts by name, a line or more each.
pub(super) struct Facts {
    pub(super) text: String,
    indent: &'static str,
}

impl Facts {
    pub(super) fn new(indent: &'static str) -> Self {
        Self {
            text: String::new(),
            indent,
        }
    }

    pub(super) fn add(&mut self, name: &str, lines: impl IntoIterator<Item = String>) {
        for (place, line) in lines.into_iter().enumerate() {
            let name = if place == 0 { name } else { "" };
            let line = clean(&line);
            self.text
                .push_str(&format!("{}{name:<NAMES$}  {line}\n", self.indent));
        }
    }
}
