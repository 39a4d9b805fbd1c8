//! Names of files beside the configuration.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Octets of a name at most.
const LONGEST: usize = 255;

/// A file, or the files of a folder, below the folder of the configuration's file: `shops.yaml`, `applications/*.yaml`.
/// One `*` may be in the file's name; it stands for any characters, but not for a dot at its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePattern(String);

impl FilePattern {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let (folder, name) = text.rsplit_once('/').unwrap_or(("", text));
        if text.is_empty() || text.len() > LONGEST {
            return Err("a file's name has 1 to 255 octets");
        }
        if text.chars().any(char::is_control) {
            return Err("a file's name has no control character");
        }
        if text.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(
                "a file is below the folder of the configuration, without `.`, `..` and a slash in front",
            );
        }
        if folder.contains('*') || name.matches('*').count() > 1 {
            return Err("one `*` may be in the name of the file, and none in its folder");
        }
        match [".yaml", ".yml"].iter().any(|end| name.ends_with(end)) {
            true => Ok(Self(text.to_owned())),
            false => Err("the name of the file must end with .yaml or .yml"),
        }
    }

    /// As it is written.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// Its folder, with the slash; empty: that of the configuration.
    pub(crate) fn folder(&self) -> &str {
        let end = self.0.rfind('/').map_or(0, |slash| slash + 1);
        self.0.get(..end).unwrap_or_default()
    }

    /// What is before the `*` in the file's name, and what is behind it; none: it names one file.
    pub(crate) fn around_star(&self) -> Option<(&str, &str)> {
        self.0.get(self.folder().len()..)?.split_once('*')
    }
}

impl<'de> Deserialize<'de> for FilePattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text)
            .map_err(|error| de::Error::custom(format_args!("`{}`: {error}", text.escape_debug())))
    }
}

impl Serialize for FilePattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl JsonSchema for FilePattern {
    fn schema_name() -> Cow<'static, str> {
        "FilePattern".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "minLength": 1,
            "maxLength": LONGEST,
            "examples": ["applications/*.yaml", "shops.yaml"],
        })
    }
}
