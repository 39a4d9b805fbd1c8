//! Which libraries are taken: those whose interface is known.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use dpi::NdpiId;
use ndpi::{Interface, KNOWN, Library, OpenError};

use super::{NAME, library};

/// A library that says this of itself, in a file of its own.
fn stub(name: &str, defines: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ndpi-stubs");
    fs::create_dir_all(&folder).expect("a folder for tests");
    let file = folder.join(format!("{name}.so"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/stub.c");
    let made = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&file, &source])
        .args(defines)
        .status();
    assert!(made.expect("a compiler of C").success());
    fs::set_permissions(&file, Permissions::from_mode(0o755)).expect("an own file");
    file
}

fn refused(file: &Path) -> OpenError {
    Library::open(file.to_str().expect("a name in UTF-8")).expect_err("it is refused")
}

#[test]
fn debians_is_taken_and_has_names() {
    let library = library();
    assert_eq!(library.revision(), "4.2.0");
    let torrent = library.protocol("bittorrent").expect("it has this");
    assert_eq!(library.protocol("BitTorrent"), Some(torrent));
    assert_eq!(library.name(torrent.into()), "BitTorrent");
    assert_eq!(
        (library.protocol("Unknown"), library.protocol("bit torrent")),
        (None, None)
    );
    assert!(library.names().count() > 200);
    let last = NdpiId::new(NdpiId::LAST).expect("the last one");
    assert_eq!(library.name(last.into()), "?");
}

#[test]
fn one_of_another_version_is_refused_by_name() {
    let file = stub("later", &["-DAPI=9876", "-DREVISION=\"4.8.0\"", "-DFLOW=1064"]);
    let found = Interface {
        api: 9876,
        state_octets: [1064, 136, 88],
    };
    let expected = OpenError::Interface {
        revision: "4.8.0".into(),
        found,
    };
    assert_eq!(refused(&file), expected);
    assert_eq!(
        expected.to_string(),
        "it is nDPI 4.8.0, with the interface 9876 (states of 1064, 136 and 88 octets); known is that of nDPI 4.2, \
         8668 (states of 688, 136 and 88 octets)"
    );
    // The same number, and other states.
    for other in ["-DFLOW=696", "-DTCP=128", "-DUDP=96"] {
        assert!(
            matches!(refused(&stub("other", &[other])), OpenError::Interface { .. }),
            "{other}"
        );
    }
    assert_eq!(KNOWN.api, 8668);
}

#[test]
fn what_is_no_ndpi_is_refused() {
    let missing = refused(Path::new("libndpi.so.0.0-none"));
    assert!(missing.to_string().contains("libndpi.so.0.0-none"), "{missing}");
    assert_eq!(
        refused(&stub("partial", &["-DPARTIAL"])),
        OpenError::NoFunction("ndpi_free_flow_data")
    );
    assert_eq!(
        refused(Path::new("libc.so.6")),
        OpenError::NoFunction("ndpi_get_api_version")
    );
    assert_eq!(refused(&stub("poor", &["-DPOOR"])), OpenError::NoModule);
    assert_eq!(refused(&stub("many", &["-DPROTOCOLS=505"])), OpenError::NoModule);
}

#[test]
fn files_that_others_may_change_are_refused() {
    let file = stub("shared", &[]);
    let path = file.to_str().expect("a name in UTF-8");
    assert!(Library::open(path).is_ok());
    fs::set_permissions(&file, Permissions::from_mode(0o777)).expect("an own file");
    assert!(matches!(refused(&file), OpenError::Ownership(_)));
    assert!(matches!(
        refused(Path::new("/nowhere/libndpi.so")),
        OpenError::Ownership(_)
    ));
    for name in ["", "./libndpi.so", "lib/libndpi.so.4.2"] {
        assert_eq!(refused(Path::new(name)), OpenError::Name, "{name}");
    }
    assert!(Library::open(NAME).is_ok());
}
