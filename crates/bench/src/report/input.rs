//! Fields of JSON by name: each error has the file, the field and its value.

use std::fmt;

use serde_json::Value;

/// Octets of a value that an error shows.
const SHOWN: usize = 60;

/// A file of results that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputError {
    /// The file.
    pub file: String,
    /// The path of the field, such as `throughput[0].mpps.median`; empty for the file as a whole.
    pub field: String,
    /// Its value, and what it must be.
    pub fault: String,
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let colon = if self.field.is_empty() { "" } else { ": " };
        write!(f, "{}{colon}{}: {}", self.file, self.field, self.fault)
    }
}

impl std::error::Error for InputError {}

/// A value and where it is.
#[derive(Clone, Debug)]
pub struct Field<'a> {
    file: &'a str,
    path: String,
    value: &'a Value,
}

impl<'a> Field<'a> {
    /// All of a file.
    #[must_use]
    pub const fn root(file: &'a str, value: &'a Value) -> Self {
        Self {
            file,
            path: String::new(),
            value,
        }
    }

    /// The field `name`, which may be absent or `null`.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Self> {
        let value = self.value.get(name).filter(|value| !value.is_null())?;
        let dot = if self.path.is_empty() { "" } else { "." };
        Some(Self {
            file: self.file,
            path: format!("{}{dot}{name}", self.path),
            value,
        })
    }

    /// The field `name`.
    ///
    /// # Errors
    /// When it is absent or `null`.
    pub fn get(&self, name: &str) -> Result<Self, InputError> {
        let dot = if self.path.is_empty() { "" } else { "." };
        self.find(name).ok_or_else(|| InputError {
            file: self.file.to_owned(),
            field: format!("{}{dot}{name}", self.path),
            fault: "is missing".into(),
        })
    }

    /// The elements of the list `name`; none where it is absent.
    ///
    /// # Errors
    /// When it is no list.
    pub fn list(&self, name: &str) -> Result<Vec<Self>, InputError> {
        self.find(name).map_or(Ok(Vec::new()), |field| field.items())
    }

    /// The elements of a list.
    ///
    /// # Errors
    /// When it is none.
    pub fn items(&self) -> Result<Vec<Self>, InputError> {
        let items = self.value.as_array().ok_or_else(|| self.fault("a list"))?;
        let item = |(place, value)| Self {
            file: self.file,
            path: format!("{}[{place}]", self.path),
            value,
        };
        Ok(items.iter().enumerate().map(item).collect())
    }

    /// A number.
    ///
    /// # Errors
    /// When it is none.
    pub fn number(&self) -> Result<f64, InputError> {
        self.value.as_f64().ok_or_else(|| self.fault("a number"))
    }

    /// A number above 0.
    ///
    /// # Errors
    /// When it is none.
    pub fn positive(&self) -> Result<f64, InputError> {
        let number = self.value.as_f64().filter(|number| *number > 0.0);
        number.ok_or_else(|| self.fault("a number above 0"))
    }

    /// A number from `least` to `greatest`.
    ///
    /// # Errors
    /// When it is none.
    pub fn between(&self, least: f64, greatest: f64) -> Result<f64, InputError> {
        let number = self
            .value
            .as_f64()
            .filter(|number| (least..=greatest).contains(number));
        number.ok_or_else(|| self.fault(&format!("a number from {least} to {greatest}")))
    }

    /// A whole number from 0.
    ///
    /// # Errors
    /// When it is none.
    pub fn count(&self) -> Result<u64, InputError> {
        self.value
            .as_u64()
            .ok_or_else(|| self.fault("a whole number from 0"))
    }

    /// A whole number from 0 to `greatest`.
    ///
    /// # Errors
    /// When it is none.
    pub fn count_to(&self, greatest: u64) -> Result<u64, InputError> {
        let count = self.value.as_u64().filter(|count| *count <= greatest);
        count.ok_or_else(|| self.fault(&format!("a whole number from 0 to {greatest}")))
    }

    /// Whole numbers by name.
    ///
    /// # Errors
    /// When it is no object, or one is no whole number.
    pub fn counts(&self) -> Result<Vec<(&'a str, u64)>, InputError> {
        let fields = self.value.as_object().ok_or_else(|| self.fault("an object"))?;
        let of = |name: &'a String| Ok((name.as_str(), self.get(name)?.count()?));
        fields.keys().map(of).collect()
    }

    /// A text.
    ///
    /// # Errors
    /// When it is none.
    pub fn text(&self) -> Result<String, InputError> {
        let text = self.value.as_str().ok_or_else(|| self.fault("a text"))?;
        Ok(text.to_owned())
    }

    /// `true` or `false`.
    ///
    /// # Errors
    /// When it is neither.
    pub fn flag(&self) -> Result<bool, InputError> {
        self.value.as_bool().ok_or_else(|| self.fault("true or false"))
    }

    /// The error that the value is not `wanted`.
    #[must_use]
    pub fn fault(&self, wanted: &str) -> InputError {
        let mut shown = self.value.to_string();
        if shown.chars().count() > SHOWN {
            shown = shown.chars().take(SHOWN).chain("...".chars()).collect();
        }
        InputError {
            file: self.file.to_owned(),
            field: self.path.clone(),
            fault: format!("{shown}: must be {wanted}"),
        }
    }
}

/// What `read` makes of each field.
///
/// # Errors
/// The first one of `read`.
pub fn all<T>(
    fields: &[Field<'_>],
    read: impl Fn(&Field<'_>) -> Result<T, InputError>,
) -> Result<Vec<T>, InputError> {
    fields.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_error_names_file_field_and_value() {
        let value = json!({"a": [{"b": -1.5, "c": null, "d": "x", "e": [1, 2]}]});
        let root = Field::root("f.json", &value);
        let item = &root.list("a").unwrap()[0];
        let words = |error: InputError| error.to_string();
        assert_eq!(
            words(item.get("b").unwrap().positive().unwrap_err()),
            "f.json: a[0].b: -1.5: must be a number above 0"
        );
        assert_eq!(words(item.get("c").unwrap_err()), "f.json: a[0].c: is missing");
        assert_eq!(
            words(item.get("d").unwrap().number().unwrap_err()),
            "f.json: a[0].d: \"x\": must be a number"
        );
        assert_eq!(
            words(item.get("e").unwrap().flag().unwrap_err()),
            "f.json: a[0].e: [1,2]: must be true or false"
        );
        assert_eq!(
            words(root.get("a").unwrap().text().unwrap_err()),
            "f.json: a: [{\"b\":-1.5,\"c\":null,\"d\":\"x\",\"e\":[1,2]}]: must be a text"
        );
        assert!(item.list("absent").unwrap().is_empty() && item.list("c").unwrap().is_empty());
    }

    #[test]
    fn a_long_value_is_cut() {
        let value = Value::String("ä".repeat(1_000));
        let error = Field::root("f.json", &value).number().unwrap_err().to_string();
        assert!(
            error.len() < 200 && error.contains("...: must be a number"),
            "{error}"
        );
    }
}
