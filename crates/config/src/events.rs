//! Events of applications, which URRs count (TS 29.244 §5.2.2.2.1, NOTE 7).

use rules::network::EventLogic;
use serde::Deserialize;
use serde_saphyr::Spanned;

use super::Config;
use super::error::Fault;

/// The most applications with events.
const MOST_EVENTS: usize = 1_024;

/// The events of one application.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventConfig {
    /// The Application ID, to the octet. Which packets are the application's SMFs say (PFD management).
    pub application: Spanned<String>,
    /// What is an event among them: any of these.
    pub detect: Vec<EventLogicConfig>,
}

/// What is an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
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
    fn logic(&self) -> EventLogic {
        let all = self.detect.iter();
        all.fold(EventLogic::default(), |all, one| all.with(one.bit()))
    }
}

impl Config {
    /// What is an event, by Application ID.
    pub(super) fn event_logic(&self) -> Vec<(Box<[u8]>, EventLogic)> {
        let events = self.events.iter();
        let named = events.map(|event| (event.application.value.as_bytes().into(), event.logic()));
        named.collect()
    }
}

/// Finds the first events that contradict something.
pub(super) fn check(config: &Config) -> Result<(), Fault> {
    for (place, event) in config.events.iter().enumerate() {
        let id = &event.application;
        let fault =
            |message: &str| Fault::new(id, format!("events of application `{}`: {message}", id.value));
        if place >= MOST_EVENTS {
            return Err(Fault::new(
                id,
                format!("events: more than {MOST_EVENTS} applications"),
            ));
        }
        if !(1..=255).contains(&id.value.len()) {
            return Err(fault("the identifier has no character, or more than 255"));
        }
        if event.detect.is_empty() {
            return Err(fault("detect: names none of packet, tcp_connection, dns_request"));
        }
        let mut earlier = config.events.iter().take(place);
        if earlier.any(|other| other.application.value == id.value) {
            return Err(fault("they stand here twice"));
        }
    }
    Ok(())
}
