//! Tokens as the API shows them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::table::Table;

/// All tokens, without what proves them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenList {
    /// The tokens, in the order in which they were made.
    pub tokens: Vec<TokenRow>,
}

/// A token, without what proves it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenRow {
    /// Its name.
    #[schema(example = "prometheus")]
    pub name: String,
    /// What its holder may do.
    #[schema(example = "viewer")]
    pub role: String,
    /// `valid`, `expired` or `revoked`.
    #[schema(example = "valid")]
    pub state: String,
    /// When it was made (RFC 3339).
    pub created: String,
    /// Who made it.
    #[schema(example = "uid:0")]
    pub created_by: String,
    /// When it stops being valid (RFC 3339).
    pub expires: String,
    /// When it was last used (RFC 3339); stored once a minute.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_used: Option<String>,
}

/// A token that was made. No other answer has what proves it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewToken {
    /// Its name.
    pub name: String,
    /// What its holder may do.
    pub role: String,
    /// When it stops being valid (RFC 3339).
    pub expires: String,
    /// What its holder presents.
    #[schema(example = "sluice_5f1c...")]
    pub token: String,
}

impl TokenList {
    /// As a table.
    #[must_use]
    pub fn text(&self) -> String {
        let mut table = Table::new([
            "name",
            "role",
            "state",
            "expires",
            "last used",
            "created",
            "created by",
        ]);
        for row in &self.tokens {
            table.row([
                row.name.clone(),
                row.role.clone(),
                row.state.clone(),
                row.expires.clone(),
                row.last_used.clone().unwrap_or_else(|| "-".to_owned()),
                row.created.clone(),
                row.created_by.clone(),
            ]);
        }
        match table.is_empty() {
            true => "no tokens\n".to_owned(),
            false => table.text(""),
        }
    }
}
