//! The names of the files: `nat-`, the start of the period in milliseconds since 1970 in twenty digits, `.redb`. So
//! they sort by age.

const HEAD: &str = "nat-";
const SUFFIX: &str = ".redb";
const DIGITS: usize = 20;
/// A file that is not yet one of the log: it does not have all open assignments.
pub(crate) const PART: &str = "part";

pub(crate) fn name_of(start: u64) -> String {
    format!("{HEAD}{start:020}{SUFFIX}")
}

/// The start of the period of the file with this name.
pub(crate) fn start_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(HEAD)?.strip_suffix(SUFFIX)?;
    let is_number = digits.len() == DIGITS && digits.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| digits.parse().ok())?
}

/// Whether a file of this name is of a log.
pub fn is_file(name: &str) -> bool {
    start_of(name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_and_its_start_are_one_to_one() {
        for start in [0, 86_400_000, 1_764_201_600_000, u64::MAX] {
            assert_eq!(start_of(&name_of(start)), Some(start));
        }
        for other in [
            "part",
            "lock",
            "nat-1.redb",
            "nat-00000000000000000000.redb.1",
            "nat-+0000000000000000001.redb",
            "nat-99999999999999999999.redb",
        ] {
            assert!(!is_file(other), "{other}");
        }
    }
}
