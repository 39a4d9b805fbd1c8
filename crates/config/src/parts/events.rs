//! Events: checks, and the logic of each for the network.

use rules::network::EventLogic;

use crate::error::Fault;
use crate::schema::Config;

/// The most applications with events.
const MOST_EVENTS: usize = 1_024;

impl Config {
    /// What is an event, by Application ID.
    pub(super) fn event_logic(&self) -> Vec<(Box<[u8]>, EventLogic)> {
        let events = self.events.iter();
        let named = events.map(|event| (event.application.value.as_bytes().into(), event.logic()));
        named.collect()
    }
}

/// Finds the first events that contradict something.
pub(crate) fn check(config: &Config) -> Result<(), Fault> {
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
