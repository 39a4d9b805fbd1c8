//! Flow descriptions as they came before: an SMF writes the same few for very many sessions.

use rules::sdf::{FlowDescription, SdfError};
use session::{Keyed, keyed};
use std::cell::RefCell;

/// Descriptions that are kept; with one more, all are forgotten.
const MOST: usize = 256;
/// Octets of the longest that is kept.
const LONGEST: usize = 256;

/// What was read of texts that came before. Bounded: texts that are always new are parsed each time.
#[derive(Debug)]
pub(crate) struct Descriptions(RefCell<Keyed<Box<[u8]>, FlowDescription>>);

impl Descriptions {
    /// None are known. Peers choose the texts: the seed is one that they do not know.
    pub(crate) fn new(seed: u64) -> Descriptions {
        Descriptions(RefCell::new(keyed(seed)))
    }

    /// What `text` says ([`FlowDescription::parse`]).
    pub(crate) fn read(&self, text: &[u8]) -> Result<FlowDescription, SdfError> {
        let mut known = self.0.borrow_mut();
        if let Some(description) = known.get(text) {
            return Ok(description.clone());
        }
        let description = FlowDescription::parse(text)?;
        if text.len() <= LONGEST {
            if known.len() >= MOST {
                known.clear();
            }
            known.insert(text.into(), description.clone());
        }
        Ok(description)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_says_the_same_each_time_and_few_are_kept() {
        let descriptions = Descriptions::new(1);
        for round in 0..2 {
            for port in 0..1_000 {
                let text = format!("permit out 17 from 198.51.100.7 {port} to assigned");
                let expected = FlowDescription::parse(text.as_bytes());
                assert_eq!(descriptions.read(text.as_bytes()), expected, "{round}");
                assert_eq!(descriptions.read(text.as_bytes()), expected, "{round}");
                assert!(descriptions.0.borrow().len() <= MOST);
            }
        }
    }

    #[test]
    fn what_is_wrong_or_long_is_read_each_time() {
        let descriptions = Descriptions::new(1);
        let wrong = b"permit out 17 from nowhere to assigned";
        assert_eq!(descriptions.read(wrong), FlowDescription::parse(wrong));
        assert_eq!(descriptions.read(wrong), FlowDescription::parse(wrong));
        let long = format!("permit out ip from any to assigned{}", " ".repeat(LONGEST));
        assert!(descriptions.read(long.as_bytes()).is_ok());
        assert_eq!(descriptions.0.borrow().len(), 0);
    }
}
