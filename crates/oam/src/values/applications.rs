//! Applications that PDRs may name.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::table::Table;

/// Applications that PDRs may name: those of the configuration, and those that control planes describe by PFDs
/// (TS 29.244 §6.2.5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApplicationList {
    /// Those of the configuration, then at most 4,096 others, each in the order of their identifiers.
    pub applications: Vec<ApplicationRow>,
}

/// One application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApplicationRow {
    /// Its identifier, with escapes where it is no text.
    #[schema(example = "video")]
    pub id: String,
    /// Whether it is of the configuration.
    pub is_configured: bool,
    /// Flow descriptions.
    pub flows: usize,
    /// URLs.
    pub urls: usize,
    /// Domain names.
    pub domains: usize,
    /// Regular expressions among URLs and domain names.
    pub expressions: usize,
}

impl ApplicationList {
    /// As a table for people.
    #[must_use]
    pub fn text(&self) -> String {
        if self.applications.is_empty() {
            return "no application is configured, and no control plane has described one\n".into();
        }
        let mut table = Table::new([
            "application",
            "of",
            ">flows",
            ">URLs",
            ">domain names",
            ">expressions among them",
        ]);
        for row in &self.applications {
            table.row([
                row.id.clone(),
                if row.is_configured { "configuration" } else { "N4" }.into(),
                row.flows.to_string(),
                row.urls.to_string(),
                row.domains.to_string(),
                row.expressions.to_string(),
            ]);
        }
        table.text("")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn applications_are_a_table_or_a_word() {
        let row = ApplicationRow {
            id: "video".into(),
            is_configured: true,
            flows: 1,
            urls: 2,
            domains: 30,
            expressions: 4,
        };
        let shown = ApplicationList {
            applications: vec![row],
        };
        assert_eq!(
            shown.text(),
            "application  of             flows  URLs  domain names  expressions among them\n\
             video        configuration      1     2            30                       4\n"
        );
        let none = ApplicationList {
            applications: Vec::new(),
        };
        assert!(none.text().starts_with("no application"));
    }
}
