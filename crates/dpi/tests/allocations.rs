//! Inspection and lookups allocate nothing: counted by an allocator that counts. What AWS-LC allocates in C for a
//! moment is not counted.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use dpi::dns::{Query, Response, Sinkhole, answer};
use dpi::domain_lists::{Categories, CategoryId, DomainListsBuilder};
use dpi::hosts::{ApplicationIndex, HostTableBuilder};
use dpi::{HostName, Inspector, Layer4, Sender, Settings, Transport, Verdict};

#[path = "all/messages.rs"]
mod messages;

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

/// Allocations from the opening of a flow to what is found by the last of these packets.
fn until_found(inspector: &mut Inspector, transport: Transport, packets: &[Layer4<'_>]) -> usize {
    let mut is_found = false;
    let count = allocations(|| {
        let flow = inspector.open(0, 0, transport, 0).expect("a state");
        for packet in packets {
            is_found = matches!(
                inspector.inspect(flow, Sender::Initiator, packet),
                Verdict::Found(_)
            );
        }
    });
    assert!(is_found);
    count
}

fn segment(sequence: u32, payload: &[u8]) -> Layer4<'_> {
    Layer4::Tcp {
        sequence,
        has_syn: false,
        payload,
    }
}

#[test]
fn flows_are_inspected_without_allocation() {
    let mut inspector = Inspector::new(Settings {
        flows: 2,
        blocks: 1,
        owners: 1,
        ..Settings::default()
    });
    let hello = messages::records(&messages::client_hello("www.example.com", 500), 64);
    let (one, other) = hello.split_at(200);
    let in_two = [segment(1, one), segment(201, other)];
    assert_eq!(until_found(&mut inspector, Transport::Tcp, &in_two), 0);
    let request = [segment(1, b"GET / HTTP/1.1\r\nHost: www.example.com\r\n\r\n")];
    assert_eq!(until_found(&mut inspector, Transport::Tcp, &request), 0);
}

#[cfg(feature = "quic")]
#[test]
fn initial_packets_are_opened_without_allocation_in_rust() {
    use dpi::quic::Version;

    let mut inspector = Inspector::new(Settings {
        flows: 2,
        blocks: 1,
        owners: 1,
        ..Settings::default()
    });
    let hello = messages::client_hello("www.example.com", 500);
    let payload = messages::quic::crypto(&hello, 0, hello.len());
    let packet = messages::quic::initial(Version::V1, &[7; 8], &[7; 8], 0, &payload);
    let datagram = [Layer4::Udp { payload: &packet }];
    // The first time AWS-LC looks what the processor has.
    until_found(&mut inspector, Transport::Udp, &datagram);
    assert_eq!(until_found(&mut inspector, Transport::Udp, &datagram), 0);
}

#[test]
fn queries_are_read_and_answered_without_allocation() {
    let query = b"\0\x07\x01\0\0\x01\0\0\0\0\0\0\x01a\x07example\0\0\x01\0\x01";
    let mut found = (false, None);
    let count = allocations(|| {
        found.0 = Query::parse(query).is_some();
        found.1 = answer(query, &Sinkhole::default(), &mut [0; 64]);
    });
    assert_eq!((count, found), (0, (true, Some(query.len()))));
}

#[test]
fn lookups_and_responses_are_read_without_allocation() {
    let mut builder = HostTableBuilder::default();
    builder
        .add(".example.com", "", ApplicationIndex(3))
        .expect("a rule");
    let (table, _) = builder.build(1);
    let category = CategoryId::new(4).expect("a category");
    let listed = HostName::parse(b"example.com").expect("a name");
    let mut lists = DomainListsBuilder::new(1);
    lists.add(category, &listed).expect("a domain");
    let lists = lists.build().expect("lists");
    let response = b"\0\x07\x81\x80\0\x01\0\x01\0\0\0\0\x01a\x07example\0\0\x01\0\x01\
        \xc0\x0c\0\x01\0\x01\0\0\0\x09\0\x04\xc0\0\x02\x01";
    let mut found = (0, 0, Categories::NONE);
    let count = allocations(|| {
        let host = HostName::parse(b"www.example.com").expect("a name");
        found.0 = table.lookup(&host, None).count();
        found.2 = lists.lookup(&host);
        found.1 = Response::parse(response).expect("a response").answers().count();
    });
    assert_eq!((count, found), (0, (1, 1, category.into())));
}
