//! The names of a spool's files: `usage-`, the number of the first record in twenty digits, and the suffix says
//! whether it is being written. So they sort by age.

/// How the name of a file ends that nothing is added to any more.
pub const FINAL: &str = ".jsonl";
/// How that of a file ends that is being written, or was when its process ended.
pub const OPEN: &str = ".open";
/// The file with the number of the last record that was taken, durable or not.
pub(crate) const MARK: &str = "mark";

const HEAD: &str = "usage-";
const DIGITS: usize = 20;

pub(crate) fn open_name(first: u64) -> String {
    format!("{HEAD}{first:020}{OPEN}")
}

/// The name that a file gets when nothing is added to it any more.
pub(crate) fn final_name(open: &str) -> String {
    format!("{}{FINAL}", open.strip_suffix(OPEN).unwrap_or(open))
}

/// Whether a file of this name is of a spool.
pub fn is_file(name: &str) -> bool {
    let rest = name.strip_prefix(HEAD);
    let digits = rest.and_then(|rest| rest.strip_suffix(FINAL).or(rest.strip_suffix(OPEN)));
    digits.is_some_and(|digits| digits.len() == DIGITS && digits.bytes().all(|digit| digit.is_ascii_digit()))
}

/// Whether a file of this name is being written, or was when its process ended.
pub fn is_open(name: &str) -> bool {
    is_file(name) && name.ends_with(OPEN)
}
