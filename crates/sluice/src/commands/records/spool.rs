//! Files of a spool, and parts of records as text.

use oam::values::clean;
use records::{DirectoryHandle, LineFault, Place, Subject, is_file};
use std::fs::File;
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The names of a directory's files, oldest first.
pub(super) fn files(directory: &DirectoryHandle) -> io::Result<Vec<String>> {
    let mut names = directory.names()?;
    names.retain(|name| is_file(name));
    names.sort_unstable();
    Ok(names)
}

/// A time for people.
pub(super) fn time_words(ms: u64) -> impl std::fmt::Display {
    // The last date that RFC 3339 can write.
    let time = UNIX_EPOCH.checked_add(Duration::from_millis(ms.min(253_402_300_799_999)));
    humantime::format_rfc3339_millis(time.unwrap_or(SystemTime::UNIX_EPOCH))
}

/// Opens a file of a spool; one that was being written may have got its final name meanwhile. `None`: it has been taken
/// away meanwhile.
pub(super) fn open_file(directory: &DirectoryHandle, name: &str) -> io::Result<Option<File>> {
    let renamed = name
        .strip_suffix(records::OPEN)
        .map(|stem| format!("{stem}{}", records::FINAL));
    for name in [Some(name), renamed.as_deref()].into_iter().flatten() {
        match directory.read(name) {
            Ok(file) => return Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    eprintln!("records: {name}: taken away meanwhile");
    Ok(None)
}

/// Says that a line is no record.
pub(super) fn tell_bad(name: &str, place: Place, fault: LineFault) {
    eprintln!(
        "records: {name}: octet {}, {} octets: {fault}",
        place.offset, place.octets
    );
}

/// Whose record it is: the SEID, the subscriber, the UE's addresses.
pub(super) fn subject(subject: &Subject) -> String {
    let names = [
        &subject.imsi,
        &subject.supi,
        &subject.msisdn,
        &subject.gpsi,
        &subject.nai,
    ];
    let name = names.into_iter().flatten().next();
    let name = name.map_or_else(unknown, |name| clean(name));
    let ue = if subject.ue.is_empty() {
        unknown()
    } else {
        clean(&subject.ue.join(","))
    };
    format!("{}  {name:<16}  {ue:<24}", upf::identifiers::seid(subject.seid))
}

pub(super) fn unknown() -> String {
    "-".to_owned()
}
