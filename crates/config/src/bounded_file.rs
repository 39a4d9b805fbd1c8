//! Files that are read whole: no more of them than a bound, whatever the file is. `/dev/zero` has a length of 0 and no
//! end.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The octets of the file at `path`.
///
/// # Errors
/// The system's; [`io::ErrorKind::FileTooLarge`] when there are more than `most`, with the bound.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let too_large = || {
        let words = match most >> 20 {
            0 => format!("longer than {most} octets"),
            mebibytes => format!("longer than {mebibytes} MiB"),
        };
        io::Error::new(io::ErrorKind::FileTooLarge, words)
    };
    let file = File::open(path)?;
    if file.metadata()?.len() > most {
        return Err(too_large());
    }
    let mut octets = Vec::new();
    // One more than that shows whether the file continues.
    file.take(most.saturating_add(1)).read_to_end(&mut octets)?;
    if octets.len() as u64 > most {
        return Err(too_large());
    }
    Ok(octets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_end_is_too_large() {
        let error = read(Path::new("/dev/zero"), 3 << 20).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(error.to_string(), "longer than 3 MiB");
        let error = read(Path::new("/dev/zero"), 4096).unwrap_err();
        assert_eq!(error.to_string(), "longer than 4096 octets");
    }

    #[test]
    fn a_file_as_long_as_the_bound_is_read() {
        let path = std::env::temp_dir().join(format!("sluice-bounded-{}", std::process::id()));
        std::fs::write(&path, [7; 100]).unwrap();
        let (whole, more) = (read(&path, 100), read(&path, 99));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(whole.unwrap(), [7; 100]);
        assert_eq!(more.unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }
}
