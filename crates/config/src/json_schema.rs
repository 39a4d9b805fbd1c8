//! The JSON Schema of the file, made of the types that read it: for editors, and for who writes configurations by
//! program.
//!
//! Beside the standard's keywords it has three: `x-sluice-change` says when another value takes effect,
//! `x-sluice-removal` the same of fewer elements of a list where that differs, and `x-sluice-key` which fields
//! distinguish the elements of a list.

use std::sync::LazyLock;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use crate::change_class::{ChangeClass, FieldRule, rule_of};
use crate::schema::{AcceleratorNodeConfig, Config};

/// The keyword of a field's class.
const CHANGE: &str = "x-sluice-change";
const REMOVAL: &str = "x-sluice-removal";
const KEY: &str = "x-sluice-key";

/// The schema, of draft 7: that is what editors read best.
#[must_use]
pub fn schema() -> &'static Value {
    static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
        let mut schema = classified();
        allow_empty(&mut schema);
        schema
    });
    &SCHEMA
}

/// The schema as text.
#[must_use]
pub fn text() -> String {
    // Plain values always have a JSON form.
    serde_json::to_string_pretty(schema()).unwrap_or_default() + "\n"
}

/// The schema of the file of `sluice accel` as text. All of its fields take effect at a start.
#[must_use]
pub fn text_of_accelerator() -> String {
    let mut schema = schema_of::<AcceleratorNodeConfig>("Configuration of an accelerator of Sluice");
    allow_empty(&mut schema);
    // As above.
    serde_json::to_string_pretty(&schema).unwrap_or_default() + "\n"
}

/// The schema, with the class of each field.
fn classified() -> Value {
    let mut schema = schema_of::<Config>("Configuration of Sluice");
    classify(&mut schema, "");
    schema
}

fn schema_of<T: JsonSchema>(title: &str) -> Value {
    let mut settings = SchemaSettings::draft07();
    settings.inline_subschemas = true;
    let generator = settings.into_generator();
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    without_source(&mut schema);
    if let Some(root) = schema.as_object_mut() {
        root.insert("title".into(), title.into());
    }
    schema
}

/// The schema without what is about the program's own source: links in descriptions, sizes of its integers.
fn without_source(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.retain(|name, value| {
                name != "format" || !value.as_str().is_some_and(|form| form.starts_with("uint"))
            });
            for (name, value) in members {
                match value {
                    Value::String(text) if name == "description" => *text = plain(text),
                    _ => without_source(value),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(without_source),
        _ => {}
    }
}

/// The same with `[words](target)` as `words`, in one line; code is linked without a target, too.
fn plain(text: &str) -> String {
    let mut rest = text.replace('\n', " ");
    let mut plain = String::new();
    while let Some((before, after)) = rest.split_once('[') {
        let link = after
            .split_once("](")
            .and_then(|(words, target)| Some((words, target.split_once(')')?.1)));
        let Some((words, behind)) = link.filter(|(words, _)| !words.contains(']')) else {
            plain.extend([before, "["]);
            rest = after.to_owned();
            continue;
        };
        plain.extend([before, words]);
        rest = behind.to_owned();
    }
    (plain + &rest).replace("[`", "`").replace("`]", "`")
}

/// Lets sections and lists be empty that need nothing in them: `gtpu:` with nothing behind it.
fn allow_empty(schema: &mut Value) {
    below(schema, "", &mut |field, _| {
        let kind = field.get("type").and_then(Value::as_str);
        let needs = match kind {
            Some("object") => "required",
            Some("array") => "minItems",
            _ => return allow_empty(field),
        };
        let kind = kind.unwrap_or_default().to_owned();
        if field.get(needs).is_none() && field.get("maxItems").is_none() {
            field["type"] = json!([kind, "null"]);
        }
        allow_empty(field);
    });
}

/// Whether a field has a class of its own: all but sections that are always there, whose fields have theirs.
fn has_class(schema: &Value) -> bool {
    let may_be_absent = schema.get("type").is_some_and(Value::is_array);
    may_be_absent || schema.get("properties").is_none()
}

/// Says the class of each field at and below `path`.
fn classify(schema: &mut Value, path: &str) {
    if has_class(schema)
        && let (Some(rule), Some(members)) = (rule_of(path), schema.as_object_mut())
    {
        let FieldRule {
            change, removal, key, ..
        } = rule;
        members.insert(CHANGE.into(), change.word().into());
        if removal != change {
            members.insert(REMOVAL.into(), removal.word().into());
        }
        if !key.is_empty() {
            members.insert(KEY.into(), (*key).into());
        }
    }
    below(schema, path, &mut |field, path| classify(field, path));
}

/// Gives each field below `path` to `visit`: those of objects, and those of a list's elements.
fn below(schema: &mut Value, path: &str, visit: &mut dyn FnMut(&mut Value, &str)) {
    if let Some(items) = schema.get_mut("items").filter(|items| object_of(items).is_some()) {
        below(items, &format!("{path}[]"), visit);
        return;
    }
    let object = if schema.get("properties").is_some() {
        Some(schema)
    } else {
        let forms = schema.get_mut("anyOf").and_then(Value::as_array_mut);
        forms.and_then(|forms| forms.iter_mut().find(|form| form.get("properties").is_some()))
    };
    let fields = object.and_then(|object| object.get_mut("properties")?.as_object_mut());
    for (name, field) in fields.into_iter().flatten() {
        let path = match path.is_empty() {
            true => name.clone(),
            false => format!("{path}.{name}"),
        };
        visit(field, &path);
    }
}

/// The path of each field that has a class to have, with the class that its schema says.
#[must_use]
pub fn classes() -> Vec<(String, Option<ChangeClass>)> {
    let mut schema = classified();
    let mut found = Vec::new();
    collect(&mut schema, "", &mut found);
    found
}

fn collect(schema: &mut Value, path: &str, found: &mut Vec<(String, Option<ChangeClass>)>) {
    if has_class(schema) {
        let class = schema.get(CHANGE).and_then(Value::as_str);
        found.push((path.to_owned(), class.and_then(|word| word.parse().ok())));
    }
    below(schema, path, &mut |field, path| collect(field, path, found));
}

/// The schema of an object with named fields, alone or beside null or a short form.
pub(crate) fn object_of(schema: &Value) -> Option<&Value> {
    if schema.get("properties").is_some() {
        return Some(schema);
    }
    let forms = schema.get("anyOf")?.as_array()?;
    forms.iter().find(|form| form.get("properties").is_some())
}

/// The schema of the elements of a list.
pub(crate) fn items_of(schema: &Value) -> Option<&Value> {
    schema.get("items").filter(|items| items.is_object())
}

impl Config {
    /// The configuration as a document, with defaults filled in; null where a field without a default is absent.
    #[must_use]
    pub fn document(&self) -> Value {
        // Plain values always have a JSON form.
        serde_json::to_value(self).unwrap_or_default()
    }
}
