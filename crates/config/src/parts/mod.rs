//! What the parts of a UPF are made with, from the whole file, and the checks of what concerns several fields together.

pub(crate) mod accelerator;
pub(crate) mod accelerator_node;
pub(crate) mod access_list;
pub(crate) mod alarms;
mod application_notes;
pub(crate) mod control;
pub(crate) mod domain_lists;
pub(crate) mod egress;
pub(crate) mod events;
pub(crate) mod host;
pub(crate) mod idle;
pub(crate) mod inspection;
pub(crate) mod lag;
pub(crate) mod nat;
pub(crate) mod network;
pub(crate) mod policer;
pub(crate) mod policy;
pub(crate) mod pools;
pub(crate) mod predefined;
pub(crate) mod records;
pub(crate) mod rings;
mod rule_conditions;
mod scope;
pub(crate) mod slice_workers;
pub(crate) mod store;
mod unreachable_hosts;
