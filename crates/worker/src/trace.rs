//! Traces and mirrors of single packets: requests of Control, and what a worker reports of the packets that they
//! select.
//!
//! A request ([`TraceRequest`]) arrives as a command and has its own ring. It ends by time, by number of packets, or
//! when the far end of the ring is dropped. Without a request a burst pays one comparison. With one, the first octets
//! of each packet are copied before the stages write over them, and the decisions of the stages are reported before the
//! packet leaves. Memory is allocated here while packets flow: for reported packets, at most as many a second as the
//! request says. What was not read of them when the request ends is Control's to free
//! ([`Event::TraceOver`](crate::Event)).

pub(crate) mod copying;
pub(crate) mod observe;
pub(crate) mod report;
pub(crate) mod request;
pub(crate) mod tracer;

pub use self::report::{
    QueueEnd, TraceSource, Traced, TracedDecision, TracedDetection, TracedEnd, TracedFlow, TracedFrame,
    TracedLookup, TracedPlace, TracedQueueing, TracedSession, TracedTranslation, TracedUnsolicited,
};
pub use self::request::{
    TraceEnd, TraceFilter, TraceFlow, TraceItem, TraceRequest, TraceTerms, mirror, trace,
};
pub use self::tracer::MAX_TRACES;
