//! The file, or files, that a capture is written to.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use super::capture::{Writer, Written};
use crate::values::{EndTrace, PacketTrace};

/// Room for the blocks around a packet when the size of a file is held against its bound.
const AROUND: u64 = 1_024;

/// How much is written.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Octets of one file.
    pub octets: u64,
    /// Files: with one, writing stops when it is full; with several, the oldest goes.
    pub files: u32,
}

/// A capture that is being written, packet by packet.
#[derive(Debug)]
pub struct CaptureFile {
    path: PathBuf,
    bounds: Bounds,
    writer: Writer<BufWriter<File>>,
    /// The files, the oldest first.
    made: VecDeque<PathBuf>,
    next: u32,
    is_full: bool,
}

impl CaptureFile {
    /// Makes the first file: `path` itself, or with several files `path` with a number.
    ///
    /// # Errors
    /// The system's, as everywhere here.
    pub fn create(path: &Path, bounds: Bounds) -> io::Result<Self> {
        let first = numbered(path, bounds, 1);
        Ok(Self {
            path: path.to_owned(),
            bounds,
            writer: Writer::new(BufWriter::new(File::create(&first)?))?,
            made: VecDeque::from([first]),
            next: 2,
            is_full: false,
        })
    }

    /// Whether the only file has no room for more.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.is_full
    }

    /// Writes a packet that was explained with its octets: as it came, and as it left.
    ///
    /// # Errors
    /// The system's.
    pub fn write(&mut self, packet: &PacketTrace) -> io::Result<()> {
        let Some(frames) = packet.frames.as_ref().filter(|_| !self.is_full) else {
            return Ok(());
        };
        let received = octets(&frames.received);
        let sent = frames.sent.as_deref().map(octets);
        let comment = packet.comment();
        let both = (received.len() + sent.as_ref().map_or(0, Vec::len) + 2 * comment.len()) as u64;
        if self.writer.written() + both + AROUND > self.bounds.octets && !self.turn()? {
            return Ok(());
        }
        let came = Written {
            time_ns: packet.time_ns,
            octets: &received,
            len: packet.octets,
            is_outbound: false,
            comment: &comment,
        };
        self.writer
            .packet(&interface(&packet.port, packet.instance.as_deref()), &came)?;
        if let (
            Some(sent),
            EndTrace::Sent {
                port,
                instance,
                octets,
                ..
            },
        ) = (sent, &packet.end)
        {
            let left = Written {
                octets: &sent,
                len: *octets,
                is_outbound: true,
                comment: &format!("#{} as it left; {comment}", packet.number),
                ..came
            };
            self.writer.packet(&interface(port, instance.as_deref()), &left)?;
        }
        Ok(())
    }

    /// Ends the writing; gives the files that there are.
    ///
    /// # Errors
    /// The system's.
    pub fn finish(self) -> io::Result<Vec<PathBuf>> {
        self.writer.finish()?;
        Ok(self.made.into())
    }

    /// Continues in the next file. Whether there is one.
    fn turn(&mut self) -> io::Result<bool> {
        if self.bounds.files <= 1 {
            self.is_full = true;
            return Ok(false);
        }
        let next = numbered(&self.path, self.bounds, self.next);
        let writer = Writer::new(BufWriter::new(File::create(&next)?))?;
        std::mem::replace(&mut self.writer, writer).finish()?;
        self.next += 1;
        self.made.push_back(next);
        if self.made.len() > self.bounds.files as usize
            && let Some(oldest) = self.made.pop_front()
        {
            fs::remove_file(oldest)?;
        }
        Ok(true)
    }
}

/// The name of an interface: port and instance.
fn interface(port: &str, instance: Option<&str>) -> String {
    instance.map_or_else(|| port.to_owned(), |instance| format!("{port}/{instance}"))
}

fn numbered(path: &Path, bounds: Bounds, number: u32) -> PathBuf {
    if bounds.files <= 1 {
        return path.to_owned();
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let ending = path
        .extension()
        .map_or_else(|| "pcapng".into(), |ending| ending.to_string_lossy());
    path.with_file_name(format!("{stem}-{number:05}.{ending}"))
}

/// Octets from hexadecimal digits; what is none ends them.
fn octets(digits: &str) -> Vec<u8> {
    let digit = |octet: u8| char::from(octet).to_digit(16).map(|digit| digit as u8);
    let pairs = digits.as_bytes().chunks_exact(2);
    pairs
        .map_while(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::FramesTrace;

    fn packet(number: u64) -> PacketTrace {
        PacketTrace {
            number,
            port: "ran".into(),
            instance: Some("access".into()),
            octets: 60,
            frames: Some(FramesTrace {
                received: "00ff".repeat(30),
                sent: None,
            }),
            ..PacketTrace::default()
        }
    }

    fn path(name: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("sluice-capture-{}-{name}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        directory.join("t.pcapng")
    }

    #[test]
    fn one_file_stops_when_it_is_full() {
        let path = path("one");
        let bounds = Bounds {
            octets: 4_000,
            files: 1,
        };
        let mut file = CaptureFile::create(&path, bounds).unwrap();
        (0..100).for_each(|number| file.write(&packet(number)).unwrap());
        assert!(file.is_full());
        assert_eq!(file.finish().unwrap(), vec![path.clone()]);
        assert!((2_000..=4_000).contains(&fs::metadata(&path).unwrap().len()));
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }

    #[test]
    fn of_several_files_the_oldest_goes() {
        let path = path("several");
        let bounds = Bounds {
            octets: 4_000,
            files: 3,
        };
        let mut file = CaptureFile::create(&path, bounds).unwrap();
        (0..200).for_each(|number| file.write(&packet(number)).unwrap());
        let files = file.finish().unwrap();
        assert_eq!(files.len(), 3);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 3);
        for file in &files {
            assert!(fs::metadata(file).unwrap().len() <= 4_000);
        }
        assert!(!files[0].ends_with("t-00001.pcapng"));
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }
}
