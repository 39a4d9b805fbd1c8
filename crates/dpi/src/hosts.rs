//! Rules of hosts: which applications a host, and a path at it, is of.
//!
//! A rule names a host (`www.example.com`), or a host and all below it (`.example.com` and `*.example.com` are the
//! same, and both are rules of `example.com`, too), and may name the start of a path. These are the host part and the
//! path of a PFD's URL and its domain name (TS 29.244 §8.2.39), as far as they are no regular expressions.
//!
//! [`HostTableBuilder`] takes rules, [`HostTable`] is what workers look up in: immutable, one hash of each suffix of a
//! name. The hash is keyed, so that senders cannot choose names that collide.

mod builder;
mod table;

pub use builder::{HostTableBuilder, InvalidRule, Remarks};
pub use table::{ApplicationIndex, HostTable, LONGEST_PATH};

pub use crate::suffixes::MOST_LABELS;
