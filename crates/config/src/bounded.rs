//! Integers that carry their bound in their type.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// An integer of the configuration, `MIN..=MAX`; anything else is refused with the bound in the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounded<const MIN: u64, const MAX: u64>(u64);

impl<const MIN: u64, const MAX: u64> Bounded<MIN, MAX> {
    /// A value known when the program is built.
    ///
    /// # Panics
    /// While compiling, when `value` is outside the bound.
    #[must_use]
    pub const fn new(value: u64) -> Self {
        assert!(MIN <= value && value <= MAX);
        Self(value)
    }

    /// The value.
    #[must_use]
    pub const fn value(self) -> u64 {
        self.0
    }

    /// The value as a size or an index.
    #[must_use]
    pub const fn size(self) -> usize {
        self.0 as usize
    }
}

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for Bounded<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // What the reader says of words does not help a person; what it says of fields does.
        let value = u64::deserialize(deserializer).map_err(|error: D::Error| {
            if !error.to_string().contains("invalid u64") {
                return error;
            }
            de::Error::custom(format_args!(
                "this is no whole number from {MIN} to {MAX}, without a unit"
            ))
        })?;
        if (MIN..=MAX).contains(&value) {
            Ok(Self(value))
        } else {
            Err(de::Error::custom(format_args!(
                "{value} is outside {MIN}..={MAX}"
            )))
        }
    }
}

impl<const MIN: u64, const MAX: u64> Serialize for Bounded<MIN, MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<const MIN: u64, const MAX: u64> JsonSchema for Bounded<MIN, MAX> {
    fn schema_name() -> Cow<'static, str> {
        format!("Bounded_{MIN}_{MAX}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": MIN, "maximum": MAX })
    }
}

/// A list that is not empty, or none.
pub(super) fn at_least_one_if_any<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    match Option::<Vec<T>>::deserialize(deserializer)? {
        Some(list) if list.is_empty() => Err(de::Error::custom("there must be at least one")),
        list => Ok(list),
    }
}

/// A list that is not empty.
pub(super) fn at_least_one<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let list = Vec::deserialize(deserializer)?;
    match list.is_empty() {
        true => Err(de::Error::custom("there must be at least one")),
        false => Ok(list),
    }
}
