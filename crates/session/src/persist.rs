//! Where sessions are kept beyond the process: between Apply and Respond.

use crate::ids::Seid;
use crate::session::SessionView;

/// Keeps what a peer has been promised. Called after the workers have applied a change and before the response, so
/// that nothing is promised that a restart would forget.
pub trait Persist {
    /// The session is now like this.
    fn store(&mut self, session: SessionView<'_>);

    /// The session is gone.
    fn remove(&mut self, seid: Seid);
}

/// Keeps nothing: sessions end with the process.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeepNothing;

impl Persist for KeepNothing {
    fn store(&mut self, _: SessionView<'_>) {}

    fn remove(&mut self, _: Seid) {}
}
