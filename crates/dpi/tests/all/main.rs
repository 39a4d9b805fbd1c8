//! The tests of inspection in one program: it is compiled and linked once.

mod captures;
mod dns_flows;
mod dns_queries;
mod domain_lists;
mod floods;
mod flows;
mod host_rules;
mod messages;
#[cfg(feature = "quic")]
mod quic_flows;
mod tls_flows;
