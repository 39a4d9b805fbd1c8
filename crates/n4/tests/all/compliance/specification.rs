//! The presence tables of TS 29.244 themselves, as taken out of its Word tables. The file is located beside the
//! checkout, since the specification's text may not be part of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Names, in small letters and without marks, with presence.
pub type Rows = BTreeSet<(String, char)>;

/// What the tables call an IE, and what its row is called.
const OTHER_NAMES: [(&str, &str); 9] = [
    ("Alternative SMF/PGW-C IP Address", "Alternative SMF IP Address"),
    (
        "Multicast Transport Information for N3mb and/or N19mb",
        "Multicast Transport Information",
    ),
    ("Maximum Bitrate", "MBR"),
    ("Guaranteed Bitrate", "GBR"),
    ("QoS flow identifier", "QFI"),
    ("Reflective QoS", "RQI"),
    ("Created/Updated Traffic Endpoint", "Created Traffic Endpoint"),
    ("DL Data Status", "Data Status"),
    ("Event Time Stamp", "Time Stamp"),
];

/// Where the rows say something else, and why.
const DIFFERENCES: [(&str, Side, &str, char); 10] = [
    // The Session Set Modification Response has the number of the Heartbeat Response.
    ("7.4.2.2-1", Side::Table, "Node ID", 'M'),
    ("7.4.2.2-1", Side::Table, "Cause", 'M'),
    ("7.4.2.2-1", Side::Table, "Offending IE", 'C'),
    // Of R19.
    ("7.4.3.2-1", Side::Rows, "PFD Partial Failure Information", 'C'),
    ("7.5.4.5-1", Side::Rows, "QER Indications", 'C'),
    // Mandatory on N4mb alone, where nothing here speaks.
    (
        "7.5.2.1-1",
        Side::Table,
        "MBS Session N4mb Control Information",
        'M',
    ),
    (
        "7.5.2.1-1",
        Side::Rows,
        "MBS Session N4mb Control Information",
        'C',
    ),
    // Not there on Sxa.
    ("7.5.2.2-1", Side::Table, "Precedence", 'M'),
    ("7.5.2.2-1", Side::Rows, "Precedence", 'C'),
    // The table has no presence for it.
    ("7.5.2.9-4", Side::Rows, "Reporting Flags", 'C'),
];

/// An address of multicast sources is in one table both mandatory and optional.
const BOTH: (&str, &str, char) = ("7.5.2.2-4", "Source IP Address", 'M');

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Of the specification.
    Table,
    /// Of the document.
    Rows,
}

/// All tables by their number; `None` where the file is not there.
///
/// # Panics
/// Where it is not there and `CI` is `true`.
pub fn tables() -> Option<BTreeMap<String, Rows>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/IE_TABLES.md");
    let Ok(text) = std::fs::read_to_string(&path) else {
        let must = std::env::var("CI").is_ok_and(|value| value == "true");
        assert!(!must, "{} is not there", path.display());
        println!("skipped: {} is not there", path.display());
        return None;
    };
    let all = read(&text);
    assert!(all.len() > 100, "{}", all.len());
    Some(all)
}

/// ```text
/// 7.5.2.6-1 Create BAR IE within PFCP Session Establishment Request
///    M: BAR ID
///    C: Downlink Data Notification Delay, Suggested Buffering Packets Count
/// ```
fn read(text: &str) -> BTreeMap<String, Rows> {
    let mut all: BTreeMap<String, Rows> = BTreeMap::new();
    let mut place = None;
    let (first, _) = text.split_once("# Appendix 1b").unwrap();
    for line in first.lines() {
        let (start, rest) = line.trim_start().split_once(' ').unwrap_or((line, ""));
        if let (Some(presence), Some(place)) = (start.trim().strip_suffix(':'), &place) {
            let names = rest.split(", ").map(str::trim).filter(|name| !name.is_empty());
            let rows = names.map(|name| (plain(known(name)), presence.chars().next().unwrap()));
            all.entry(String::clone(place)).or_default().extend(rows);
        } else if start.starts_with(|one: char| one.is_ascii_digit()) {
            place = Some(start.to_owned());
        }
    }
    all
}

fn known(name: &str) -> &str {
    if name.ends_with("FQ-CSID") {
        return "FQ-CSID";
    }
    let mut others = OTHER_NAMES.iter();
    others
        .find(|(other, _)| *other == name)
        .map_or(name, |(_, row)| row)
}

/// A name by its letters and digits; one that the tables misspell as it is meant.
pub fn plain(name: &str) -> String {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    let plain = letters.collect::<String>().to_ascii_lowercase();
    plain.replace("muticast", "multicast")
}

/// What one side has of a table and the other does not, but for what is known.
pub fn unlike(place: &str, table: &Rows, rows: &Rows) -> Vec<(String, char)> {
    let is_known = |side: Side, (name, presence): &(String, char)| {
        let mut differences = DIFFERENCES.iter();
        let both = BOTH == (place, "Source IP Address", *presence) && *name == plain(BOTH.1);
        both || differences.any(|(at, of, what, how)| {
            (*at, *of, plain(what), *how) == (place, side, name.clone(), *presence)
        })
    };
    let of_table = table.difference(rows).filter(|one| !is_known(Side::Table, one));
    let of_rows = rows.difference(table).filter(|one| !is_known(Side::Rows, one));
    of_table.chain(of_rows).cloned().collect()
}

/// What rows call IEs whose type has another name.
const TYPES: [(&str, u16); 30] = [
    ("Update BAR", 12),
    ("Failure Cause", 19),
    ("N19mb DL Tunnel ID", 21),
    ("DSCP", 30),
    ("Load Control Sequence Number", 52),
    ("Overload Control Sequence Number", 52),
    ("UE IP Address Usage Sequence Number", 52),
    ("Load Metric", 53),
    ("Overload Reduction Metric", 53),
    ("UE IP Address Usage Metric", 53),
    ("Minimum Waiting Time", 55),
    ("Period of Validity", 55),
    ("Usage Report", 78),
    ("Usage Report", 79),
    ("Usage Report", 80),
    ("Preceding UL GTP-U Peer", 103),
    ("Subsequent Event Quota", 148),
    ("Subsequent Event Threshold", 149),
    ("Destination Interface Type", 160),
    ("Source Interface Type", 160),
    ("UE IP Address Pool Id", 177),
    ("TSC Management Information", 199),
    ("TSC Management Information", 200),
    ("TSC Management Information", 201),
    ("UPF Instance ID", 253),
    ("Update BAR", 86),
    ("Overload Control Information Flags", 110),
    ("Packet Rate Status Report", 252),
    ("Packet Rate Status Report", 264),
    ("Threshold Values", 288),
];

/// Whether a row's name goes with its type's number.
pub fn is_called(number: u16, name: &str) -> bool {
    let own = plain(pfcp::IeType(number).name());
    plain(name).contains(&own) || TYPES.contains(&(name, number))
}
