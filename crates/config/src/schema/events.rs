//! Events of applications, which URRs count (TS 29.244 §5.2.2.2.1, NOTE 7).

use rules::network::EventLogic;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_saphyr::Spanned;

/// The events of one application.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EventConfig {
    /// The Application ID, to the octet. Which packets are the application's SMFs say (PFD management).
    #[schemars(with = "String")]
    pub application: Spanned<String>,
    /// What is an event among them: any of these.
    pub detect: Vec<EventLogicConfig>,
}

/// What is an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EventLogicConfig {
    /// Each packet.
    Packet,
    /// A TCP segment with SYN and without ACK, in no fragment.
    TcpConnection,
    /// A DNS message over UDP to port 53 that is no response, in no fragment.
    DnsRequest,
}

impl EventLogicConfig {
    const fn bit(self) -> EventLogic {
        match self {
            Self::Packet => EventLogic::PACKET,
            Self::TcpConnection => EventLogic::TCP_CONNECTION,
            Self::DnsRequest => EventLogic::DNS_REQUEST,
        }
    }
}

impl EventConfig {
    pub(crate) fn logic(&self) -> EventLogic {
        let all = self.detect.iter();
        all.fold(EventLogic::default(), |all, one| all.with(one.bit()))
    }
}
