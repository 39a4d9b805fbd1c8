//! Usage records, and the log of port blocks.

use n4::UnacceptedUsage;

use super::Control;
use crate::port_block_log::{PortBlockLog, PortBlockSink};
use crate::usage_record_writer::{RecordSink, UsageRecordWriter};

impl Control {
    /// Makes usage records and gives them to `sink`; `node` is our Node ID. Only where the endpoint was made with
    /// [`session::Config::usage_records`].
    pub fn keep_records(&mut self, node: String, sink: Box<dyn RecordSink>) {
        self.record_writer = Some(UsageRecordWriter::new(node, sink));
    }

    /// Gives `sink` what happens to port blocks. Only where the endpoint was made with
    /// [`session::Config::port_block_log`].
    pub fn log_port_blocks(&mut self, sink: Box<dyn PortBlockSink>) {
        self.port_block_log = Some(PortBlockLog::new(sink));
    }

    /// See [`n4::Endpoint::take_unaccepted_usage`].
    pub fn take_unaccepted_usage(&mut self) -> Option<UnacceptedUsage> {
        self.endpoint.take_unaccepted_usage()
    }
}
