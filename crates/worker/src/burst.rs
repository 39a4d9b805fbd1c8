//! What a burst consists of: the batch of buffers and one descriptor for each packet.

pub(crate) mod batch;
pub(crate) mod descriptor;
