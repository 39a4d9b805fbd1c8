//! The demo's API: a socket of its own, and a port for a browser before it.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use oam::rest::{Access, Forwarder, QueryServer, RestSocket, Service, query_channel};
use runtime::{PublishedStats, WorkerThread};
use trace::Explainer;

/// Both, until they are dropped.
pub struct Watch {
    // Before the socket that it forwards to.
    forwarder: Forwarder,
    _socket: RestSocket,
    folder: PathBuf,
}

impl Watch {
    /// Opens them; Control answers by the other end of the channel that comes with them.
    ///
    /// # Errors
    /// The system's.
    pub fn open(threads: &[WorkerThread], explainer: Explainer) -> io::Result<(Self, QueryServer)> {
        let folder = std::env::temp_dir().join(format!("sluice-demo-{}", std::process::id()));
        let path = folder.join("control.sock");
        let published: Vec<_> = threads.iter().map(|thread| thread.published().clone()).collect();
        let workers = move || published.iter().map(PublishedStats::read).collect();
        let (client, server) = query_channel();
        let service = Service::new(client, Arc::new(workers)).with_explainer(explainer);
        let socket = RestSocket::open(&path, Access::Owner, service)?;
        let watch = Self {
            forwarder: Forwarder::open(&path, 0)?,
            _socket: socket,
            folder,
        };
        Ok((watch, server))
    }

    /// How to see it.
    #[must_use]
    pub fn words(&self) -> String {
        format!(
            "in a browser on this host:  {}\nin another terminal:        {} top --socket {}\nctrl-c ends the demo\n",
            self.forwarder.url(),
            program(),
            self.folder.join("control.sock").display()
        )
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // The socket goes afterwards, and with it what else there is in the folder.
        let _ = fs::remove_file(self.folder.join("control.sock"));
        let _ = fs::remove_dir(&self.folder);
    }
}

/// How this program was called.
#[must_use]
pub fn program() -> String {
    std::env::args().next().unwrap_or_else(|| "sluice".to_owned())
}
