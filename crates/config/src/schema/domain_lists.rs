//! Domain lists: files of domains by category, as those who filter contents keep them.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_saphyr::Spanned;

/// One list of domains.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DomainListConfig {
    /// What its domains are, for `categories` of rules: 1 to 63 characters. Several lists may be of one; there are 64.
    #[schemars(with = "String")]
    pub category: Spanned<String>,
    /// The file, with a domain in each line, from the root of the file system. It is read when the configuration is.
    #[schemars(with = "String")]
    pub file: Spanned<PathBuf>,
}
