//! Packets that leave the burst and come back later as a source of their own.
//!
//! [`queues`] is the one way in and out: stage `tx` stores a packet whose fate is to be deferred, and the worker takes
//! packets that are ready as a burst, before it receives new ones. The queues are `buffering` (BUFF with paging,
//! unresolved next hops), `fragments` (those without their first one), `reassembly` (GTP-U packets) and
//! `absent_sessions` (those whose sessions are still restored); all keep packets in a `packet_store`. What is reported
//! and sent because packets are deferred or lost is in `downlink_data_notification`, `delivery_status`,
//! `pause_of_charging` and `end_markers`.

pub(crate) mod absent_sessions;
pub(crate) mod away_sessions;
pub(crate) mod buffering;
pub(crate) mod context;
pub(crate) mod delivery_status;
pub(crate) mod downlink_data_notification;
pub(crate) mod end_markers;
pub(crate) mod fragments;
pub(crate) mod packet_store;
pub(crate) mod pause_of_charging;
pub(crate) mod queues;
pub(crate) mod reassembly;
pub(crate) mod release;
pub(crate) mod tunnel_signals;
pub(crate) mod unresolved_next_hops;
