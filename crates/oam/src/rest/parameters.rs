//! What several routes ask for alike, as the OpenAPI document describes it. How it is read is in
//! [`query`](super::query).

use utoipa::IntoParams;

/// A page of what has numbers.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it describes, and is never made")]
pub(super) struct NumberedPage {
    /// The `next` of the page before
    after: Option<u32>,
    /// Rows of the page; 100
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
}

/// Which packets are meant: those for which all that is given holds.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it describes, and is never made")]
pub(super) struct Conditions {
    /// From or for this address, or of the session that has it
    #[param(example = "10.45.0.2")]
    ue: Option<String>,
    /// In the tunnel with this TEID, as it comes or as it leaves; decimal or hexadecimal
    teid: Option<String>,
    /// Of the session with this local SEID, decimal or hexadecimal
    seid: Option<String>,
    /// Of this flow, in either direction
    #[param(example = "tcp,10.45.0.2:4000,192.0.2.1:443")]
    flow: Option<String>,
    /// In or out by the port with this name
    port: Option<String>,
}
