//! Who may change a file whose code is about to run here.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Write permission of the group, and of all.
const OTHERS_WRITE: u32 = 0o022;

/// Finds that others than root and the user of this process may change a file.
pub(crate) fn check(path: &Path) -> Result<(), String> {
    let found = fs::metadata(path).map_err(|error| error.to_string())?;
    // SAFETY: it only returns a number.
    #[allow(unsafe_code)]
    let own = unsafe { libc::geteuid() };
    if !found.is_file() {
        return Err("it is no file".into());
    }
    if found.uid() != 0 && found.uid() != own {
        return Err(format!("it belongs to user {}, not to root", found.uid()));
    }
    match found.mode() & OTHERS_WRITE {
        0 => Ok(()),
        _ => Err(format!(
            "others may write to it (its mode is {:o})",
            found.mode() & 0o7777
        )),
    }
}
