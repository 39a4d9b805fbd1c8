//! The differences of two configurations, field by field, with defaults filled in.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use serde_json::Value;

use crate::change_class::{ChangeClass, rule_of};
use crate::json_schema::{self, items_of, object_of};
use crate::schema::Config;

/// One field that differs.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Where it is: elements of lists by their key, `instances[core].routes[0.0.0.0/0 10.0.6.1].mac`.
    pub path: String,
    /// What it was; null where there was nothing.
    pub before: Value,
    /// What it becomes; null where there is nothing.
    pub after: Value,
    /// When that takes effect.
    pub class: ChangeClass,
}

/// The differences of two configurations.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Differences {
    /// In the order of their paths within each section.
    pub changes: Vec<Change>,
}

impl Differences {
    /// The differences from one configuration to another.
    #[must_use]
    pub fn between(before: &Config, after: &Config) -> Self {
        let mut differences = Self::default();
        let place = Place {
            path: String::new(),
            pattern: String::new(),
            schema: json_schema::schema(),
        };
        differences.compare(&place, &before.document(), &after.document());
        differences
    }

    /// Those that do not take effect while the daemon runs.
    pub fn not_live(&self) -> impl Iterator<Item = &Change> {
        self.changes
            .iter()
            .filter(|change| change.class != ChangeClass::Live)
    }

    fn compare(&mut self, place: &Place<'_>, before: &Value, after: &Value) {
        if before == after {
            return;
        }
        match (before, after) {
            (Value::Object(old), Value::Object(new)) if object_of(place.schema).is_some() => {
                let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
                for name in names {
                    let (old, new) = (
                        old.get(name).unwrap_or(&Value::Null),
                        new.get(name).unwrap_or(&Value::Null),
                    );
                    self.compare(&place.field(name), old, new);
                }
            }
            (Value::Array(old), Value::Array(new)) => self.compare_lists(place, old, new),
            _ => {
                let is_removal = after.is_null();
                self.note(place, before.clone(), after.clone(), is_removal);
            }
        }
    }

    fn compare_lists(&mut self, place: &Place<'_>, before: &[Value], after: &[Value]) {
        let key = rule_of(&place.pattern).map_or(&[][..], |rule| rule.key);
        let (Some(old), Some(new)) = (keys(before, key), keys(after, key)) else {
            let is_removal = !is_within(before, after);
            let list = |values: &[Value]| Value::Array(values.to_vec());
            self.note(place, list(before), list(after), is_removal);
            return;
        };
        let (old_by_key, new_by_key) = (by_key(&old, before), by_key(&new, after));
        for (name, element) in old.iter().zip(before) {
            let element_place = place.element(name);
            match new_by_key.get(&**name) {
                Some(other) => self.compare(&element_place, element, other),
                None => self.note_element(place, &element_place, (element.clone(), Value::Null)),
            }
        }
        let is_new = |name: &String| !old_by_key.contains_key(&**name);
        for (name, element) in new.iter().zip(after).filter(|(name, _)| is_new(name)) {
            self.note_element(place, &place.element(name), (Value::Null, element.clone()));
        }
        let kept = |keys: &[String], others: &HashMap<&str, &Value>| {
            let kept = keys.iter().filter(|key| others.contains_key(&***key));
            Value::Array(kept.cloned().map(Value::String).collect())
        };
        let (order_before, order_after) = (kept(&old, &new_by_key), kept(&new, &old_by_key));
        if order_before != order_after {
            self.note(place, order_before, order_after, true);
        }
    }

    /// An element that is new or gone: of the class of its list.
    fn note_element(&mut self, list: &Place<'_>, element: &Place<'_>, (before, after): (Value, Value)) {
        let is_removal = after.is_null();
        let class = list.class(is_removal);
        self.changes.push(Change {
            path: element.path.clone(),
            before,
            after,
            class,
        });
    }

    fn note(&mut self, place: &Place<'_>, before: Value, after: Value, is_removal: bool) {
        self.changes.push(Change {
            path: place.path.clone(),
            before,
            after,
            class: place.class(is_removal),
        });
    }
}

/// A place in a document.
struct Place<'a> {
    path: String,
    /// The same with `[]` for every element, as the rules have it.
    pattern: String,
    schema: &'a Value,
}

impl<'a> Place<'a> {
    fn field(&self, name: &str) -> Self {
        let join = |above: &str| match above.is_empty() {
            true => name.to_owned(),
            false => format!("{above}.{name}"),
        };
        let object = object_of(self.schema);
        Self {
            path: join(&self.path),
            pattern: join(&self.pattern),
            schema: object
                .and_then(|object| object.get("properties")?.get(name))
                .unwrap_or(&Value::Null),
        }
    }

    fn element(&self, key: &str) -> Self {
        Self {
            path: format!("{}[{key}]", self.path),
            pattern: format!("{}[]", self.pattern),
            schema: items_of(self.schema).unwrap_or(&Value::Null),
        }
    }

    /// Without a rule, which the tests do not let be, a change needs a restart.
    fn class(&self, is_removal: bool) -> ChangeClass {
        let rule = rule_of(&self.pattern);
        rule.map_or(ChangeClass::Restart, |rule| match is_removal {
            true => rule.removal,
            false => rule.change,
        })
    }
}

/// The keys of the elements of a list, if each has one and no two the same.
fn keys(values: &[Value], fields: &[&str]) -> Option<Vec<String>> {
    if fields.is_empty() {
        return None;
    }
    let key = |value: &Value| {
        let parts = fields.iter().map(|field| value.get(field).map(words));
        parts.collect::<Option<Vec<_>>>().map(|parts| parts.join(" "))
    };
    let keys = values.iter().map(key).collect::<Option<Vec<_>>>()?;
    let different: BTreeSet<&String> = keys.iter().collect();
    (different.len() == keys.len()).then_some(keys)
}

/// The elements of a list by their keys.
fn by_key<'a>(keys: &'a [String], values: &'a [Value]) -> HashMap<&'a str, &'a Value> {
    keys.iter().map(|key| &**key).zip(values).collect()
}

/// Whether all elements are among the others, in the same order.
fn is_within(values: &[Value], others: &[Value]) -> bool {
    let mut others = others.iter();
    values.iter().all(|value| others.any(|other| other == value))
}

/// A value as a person reads it.
fn words(value: &Value) -> String {
    match value {
        Value::Null => "absent".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            before,
            after,
            class,
        } = self;
        match (before, after) {
            (Value::Null, Value::Object(_)) => write!(f, "+ {path}: {} ({class})", words(after)),
            (Value::Object(_), Value::Null) => write!(f, "- {path}: {} ({class})", words(before)),
            _ => write!(f, "~ {path}: {} -> {} ({class})", words(before), words(after)),
        }
    }
}
