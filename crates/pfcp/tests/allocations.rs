//! Decoding, visiting and encoding allocate nothing: counted by an allocator that counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use pfcp::message::{Body, SessionEstablishmentRequest};
use pfcp::{Frames, Header, Message, MessageType, Seid, SequenceNumber};

#[path = "common/establishment.rs"]
mod establishment;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, counting per thread.
struct Counting;

// SAFETY: both methods hand their arguments to `System` unchanged, whose contract is the same; the counter is a
// constant-initialised thread-local without a destructor, so that touching it does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `GlobalAlloc::dealloc`; `at` came from `System`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocations(work: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(vec![1, 2, 3]))), 1);
}

#[test]
fn an_establishment_is_read_and_written_without_allocation() {
    let rules = establishment::Rules::new(&establishment::FILTERS, &establishment::UE, &establishment::QFIS);
    let header = Header::session(
        MessageType::SESSION_ESTABLISHMENT_REQUEST,
        Seid(0),
        SequenceNumber::new(7),
    );
    let mut buf = [0; 2048];
    let mut again = [0; 2048];
    let mut length = 0;
    let mut rules_seen = 0;
    let count = allocations(|| {
        length = rules.request().encode(&header, &mut buf).unwrap();
        let frame = Frames::new(&buf[..length]).next().unwrap().unwrap();
        let message = Message::decode(&frame).unwrap();
        assert_eq!(message.encode(&header, &mut again), Ok(length));
        let Message::SessionEstablishmentRequest(request) = message else {
            panic!("another message")
        };
        rules_seen = visit(&request);
    });
    assert_eq!((count, rules_seen), (0, 12));
    assert_eq!(buf[..length], again[..length]);
}

fn visit(request: &SessionEstablishmentRequest<'_>) -> usize {
    let mut filters = 0;
    for pdr in request.create_pdr {
        filters += pdr.pdi.sdf_filter.iter().count() + pdr.pdi.qfi.len() + pdr.urr_id.iter().count();
    }
    assert_eq!(filters, 4 + 2 + 8);
    let qers = request.create_qer.iter().filter(|qer| qer.mbr.is_some()).count();
    let urrs = request
        .create_urr
        .iter()
        .filter(|urr| urr.volume_threshold.is_some())
        .count();
    let fars = request
        .create_far
        .iter()
        .filter(|far| far.forwarding_parameters.is_some())
        .count();
    request.create_pdr.len() + qers + urrs + fars
}

#[test]
fn a_refusal_allocates_nothing() {
    let body = [0, 60, 0, 5, 0, 192, 0, 2, 9, 0, 57, 0, 99];
    let count = allocations(|| assert!(SessionEstablishmentRequest::decode(&body).is_err()));
    assert_eq!(count, 0);
}
