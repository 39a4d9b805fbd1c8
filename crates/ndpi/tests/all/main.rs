//! The tests of the plug-in in one program: it is compiled and linked once. They need Debian's package libndpi4.2.

mod captures;
mod libraries;
mod memory;

use std::sync::Arc;

use ndpi::Library;

/// The name of the library in Debian's package.
const NAME: &str = "libndpi.so.4.2";

fn library() -> Arc<Library> {
    let opened = Library::open(NAME);
    Arc::new(opened.unwrap_or_else(|error| panic!("{NAME} (package libndpi4.2): {error}")))
}
