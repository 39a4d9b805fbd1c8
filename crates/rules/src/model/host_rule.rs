//! Hosts that a rule names: what a client says that its flow is for.

use core::fmt;

use dpi::HostName;
use dpi::hosts::{ApplicationIndex, HostTableBuilder, InvalidRule};

/// A host, or a name and all below it, and of HTTP the start of a path there.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HostRule {
    name: Box<str>,
    covers_below: bool,
    path: Box<str>,
}

impl HostRule {
    /// Hosts as [`HostTableBuilder::add`] takes them: `www.example.org`, `*.example.org` for it and all below it, or an
    /// IP address; then a path, such as `/video`, or none.
    ///
    /// # Errors
    /// The host is none, or the path.
    pub fn parse(text: &str) -> Result<Self, InvalidRule> {
        let path_at = text.find('/').unwrap_or(text.len());
        let (pattern, path) = text.split_at(path_at);
        HostTableBuilder::default().add(pattern, path, ApplicationIndex(0))?;
        let above = pattern.strip_prefix("*.").or(pattern.strip_prefix('.'));
        let name = HostName::parse(above.unwrap_or(pattern).as_bytes()).map_err(InvalidRule::Host)?;
        Ok(Self {
            name: name.as_str().into(),
            covers_below: above.is_some(),
            path: path.into(),
        })
    }

    /// The name, in the form in which names are compared.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether all names below it are meant, too.
    pub fn covers_below(&self) -> bool {
        self.covers_below
    }

    /// The path, with its slash; empty: all.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether it asks for a path.
    pub fn reads_path(&self) -> bool {
        !self.path.is_empty()
    }

    /// Adds it to a table.
    pub(crate) fn add_to(&self, table: &mut HostTableBuilder, application: ApplicationIndex) {
        let pattern = match self.covers_below {
            true => format!("*.{}", self.name),
            false => self.name.to_string(),
        };
        // It was taken before, alone; more than 4 GiB of them do not get here.
        let _ = table.add(&pattern, &self.path, application);
    }

    /// Whether a flow for this host, and this path if one is known, is meant. The slow way, for one rule.
    pub fn matches(&self, host: &HostName, path: Option<&[u8]>) -> bool {
        let is_below = || {
            let rest = host.as_str().strip_suffix(&*self.name);
            rest.is_some_and(|rest| rest.ends_with('.'))
        };
        let is_host = host.as_str() == &*self.name || (self.covers_below && is_below());
        let is_path = || path.is_some_and(|path| path.starts_with(self.path.as_bytes()));
        is_host && (self.path.is_empty() || is_path())
    }
}

impl fmt::Display for HostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let below = if self.covers_below { "*." } else { "" };
        write!(f, "{below}{}{}", self.name, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_written_as_it_is_read() {
        for text in ["www.example.org", "*.example.org", "example.org/a/b", "192.0.2.1"] {
            assert_eq!(HostRule::parse(text).expect("a rule").to_string(), text);
        }
        assert_eq!(
            HostRule::parse(".Example.ORG.").expect("a rule").to_string(),
            "*.example.org"
        );
        for text in ["", "*.", "a b", "*.192.0.2.1", "/path", "exa*mple.org"] {
            assert!(HostRule::parse(text).is_err(), "{text}");
        }
    }
}
