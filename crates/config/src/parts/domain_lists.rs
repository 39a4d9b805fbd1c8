//! Domain lists: reading them, and the categories that rules name.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufReader};
use std::path::Path;
use std::sync::Arc;

use dpi::domain_lists::{Categories, CategoryId, DomainLists, DomainListsBuilder, ReadLimits};
use serde_saphyr::Spanned;

use crate::error::Fault;
use crate::read_lists::ReadLists;
use crate::schema::{Config, DomainListConfig};

/// Files at most, and octets of all of them: they are read while nothing else about the configuration is asked for.
const MOST_LISTS: usize = 256;
const MOST_OCTETS: u64 = 256 << 20;

/// The numbers of categories, by name.
pub(super) type CategoryNumbers<'a> = HashMap<&'a str, CategoryId>;

/// The set of these; `None`: one is of no list.
pub(super) fn categories(names: &[Spanned<String>], numbers: &CategoryNumbers<'_>) -> Option<Categories> {
    names
        .iter()
        .map(|name| numbers.get(&*name.value).copied())
        .collect()
}

impl Config {
    /// The domains of all lists.
    pub fn domain_lists(&self) -> &Arc<DomainLists> {
        &self.read_lists.lists
    }

    /// What is worth a word of the lists: their size, and lines that have no domain.
    #[must_use]
    pub fn domain_lists_in_words(&self) -> Vec<String> {
        if self.domain_lists.is_empty() {
            return Vec::new();
        }
        let lists = self.domain_lists();
        let mut words = vec![format!(
            "domain lists: {} domains, {:.1} MiB",
            lists.domains(),
            lists.octets() as f64 / f64::from(1 << 20)
        )];
        words.extend(self.read_lists.bad_lines.iter().map(|(file, count, first)| {
            format!(
                "domain list {file}: {count} lines have no domain and are left out, the first is line {first}"
            )
        }));
        words
    }

    /// The categories in the order in which the lists name them. [`read`] has found that there are no more than 64.
    pub(super) fn category_numbers(&self) -> CategoryNumbers<'_> {
        let mut numbers = HashMap::new();
        for list in &self.domain_lists {
            let next = u8::try_from(numbers.len()).ok().and_then(CategoryId::new);
            if let Some(next) = next {
                numbers.entry(&*list.category.value).or_insert(next);
            }
        }
        numbers
    }
}

/// Reads the files of a configuration's lists.
pub(crate) fn read(config: &Config) -> Result<ReadLists, Fault> {
    let Some(first) = config.domain_lists.first() else {
        return Ok(ReadLists::default());
    };
    let numbers = config.category_numbers();
    // The key of the table is unknown to those who write lists, and to those who send packets.
    let mut builder = DomainListsBuilder::new(RandomState::new().hash_one(0));
    let mut bad_lines = Vec::new();
    if let Some(surplus) = config.domain_lists.get(MOST_LISTS) {
        let fault = format!("domain lists: more than {MOST_LISTS}");
        return Err(Fault::new(&surplus.file, fault));
    }
    let mut octets = MOST_OCTETS;
    for list in &config.domain_lists {
        let category = check_category(list, &numbers)?;
        let file = &list.file.value;
        let fault =
            |words: String| Fault::new(&list.file, format!("domain list {}: {words}", file.display()));
        let (reader, len) = open(file, octets).map_err(|error| fault(error.to_string()))?;
        octets -= len;
        let limits = ReadLimits {
            octets: len,
            ..ReadLimits::default()
        };
        let read = builder
            .read_list(category, reader, limits)
            .map_err(|error| fault(error.to_string()))?;
        // What is in the line is not said: a client that may check a configuration could read any file.
        if let Some(first) = read.first_bad_lines.first() {
            bad_lines.push((file.display().to_string(), read.bad_lines, first.line));
        }
    }
    let lists = builder
        .build()
        .map_err(|error| Fault::new(&first.file, format!("domain lists: {error}")))?;
    Ok(ReadLists {
        lists: Arc::new(lists),
        bad_lines,
    })
}

fn check_category(list: &DomainListConfig, numbers: &CategoryNumbers<'_>) -> Result<CategoryId, Fault> {
    let name = &list.category;
    if !(1..=63).contains(&name.value.chars().count()) {
        let fault = "domain list: the category has no character, or more than 63".to_owned();
        return Err(Fault::new(name, fault));
    }
    if !list.file.value.is_absolute() {
        let file = list.file.value.display();
        let fault = format!("domain list {file}: the file is not named from the root of the file system");
        return Err(Fault::new(&list.file, fault));
    }
    numbers.get(&*name.value).copied().ok_or_else(|| {
        let fault = format!("domain lists: more than {} categories", CategoryId::COUNT);
        Fault::new(name, fault)
    })
}

/// A regular file that has octets, no more than `most`, and how many: others may have no end, or wait for someone to
/// write.
fn open(file: &Path, most: u64) -> io::Result<(BufReader<File>, u64)> {
    let invalid = |words: String| Err(io::Error::new(io::ErrorKind::InvalidInput, words));
    let metadata = std::fs::metadata(file)?;
    if !metadata.is_file() || metadata.len() == 0 {
        return invalid("no regular file, or an empty one".into());
    }
    if metadata.len() > most {
        return invalid(format!(
            "all lists together are longer than {} MiB",
            MOST_OCTETS >> 20
        ));
    }
    Ok((
        BufReader::with_capacity(1 << 16, File::open(file)?),
        metadata.len(),
    ))
}
