//! Any octets as a session record, with and without a right check sum: read or refused; what is read is written as what
//! is read to the same.

use session::{Frame, Record, WallClock};

fn read(octets: &[u8]) {
    let network = rules::testing::network();
    let predefined = rules::Predefined::default();
    let wall = WallClock::starting(1_700_000_000);
    let frame = Frame {
        predefined: &predefined,
        network: &network,
        wall: &wall,
    };
    let Ok((record, _)) = Record::decode(octets, frame) else {
        return;
    };
    let written = |record: &Record| match record {
        Record::Session(session) => session.encode(frame),
        Record::Association(association) => association.encode(),
        Record::Node(node) => node.encode(),
        Record::Application(application) => application.encode(),
        Record::Response(response) => response.encode(),
        Record::Usage(usage) => usage.encode(&wall),
    };
    let again = written(&record);
    // Longer than it was it can only be by a few octets: numbers have one form, names of instances theirs.
    if let Ok(again) = again {
        let (second, rest) = Record::decode(&again, frame).expect("what was written");
        assert!(rest.is_empty());
        assert_eq!(written(&second), Ok(again));
    }
}

/// See the module.
pub fn run(data: &[u8]) {
    read(data);
    // The same as the body of a sealed record, so that the check sum does not keep it out.
    if let Some((kind, body)) = data.split_first() {
        let mut octets = b"SLUI".to_vec();
        // The revisions of the kinds, in their order.
        let revision = [6, 0, 0, 1, 0, 0][usize::from(kind % 6)];
        octets.extend([1 + kind % 6, revision, 1]);
        octets.extend((body.len() as u32).to_be_bytes());
        let sum = crc32c::crc32c_append(crc32c::crc32c(&octets), body);
        octets.extend(sum.to_be_bytes());
        octets.extend(body);
        read(&octets);
    }
}
