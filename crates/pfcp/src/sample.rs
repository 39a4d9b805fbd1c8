//! Values of every table with every mix of fields, for tests: what is written has to be read back the same.

use std::boxed::Box;
use std::vec::Vec;

use proptest::prelude::*;

use crate::header::{Frames, Header, MessageType, Seid, SequenceNumber};
use crate::ie::{Ie, Leaf};
use crate::message::{Body, Message};
use crate::tlv::Writer;
use crate::wire::{Edit, Repeated};

/// A small generator (xorshift64*): the same seed, the same values.
pub(crate) struct Source(u64);

impl Source {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 32) % bound
    }

    /// Up to 47 octets, most of them small, so that lengths in them are often right. Lives as long as the process.
    fn octets(&mut self) -> &'static [u8] {
        let length = self.below(48);
        let octets: Vec<u8> = (0..length)
            .map(|_| {
                let bound = if self.below(4) == 0 { 256 } else { 8 };
                self.below(bound) as u8
            })
            .collect();
        Box::leak(octets.into_boxed_slice())
    }
}

/// Makes a value out of chance.
pub(crate) trait Sample: Sized {
    /// Some value.
    fn sample(source: &mut Source) -> Self;

    /// Some value, or none.
    fn maybe(source: &mut Source) -> Option<Self> {
        (source.below(2) == 0).then(|| Self::sample(source))
    }

    /// Some value that takes octets: an IE without them means something else in lists and updates.
    fn not_empty(source: &mut Source) -> Self
    where
        Self: Ie<'static>,
    {
        loop {
            let sample = Self::sample(source);
            let mut buf = vec![0; 20_000];
            let room = buf.len();
            if sample
                .write(Writer::new(&mut buf))
                .expect("samples are small")
                .room()
                < room
            {
                return sample;
            }
        }
    }

    /// Some list of values.
    fn list(source: &mut Source, fewest: u64) -> Repeated<'static, Self>
    where
        Self: Ie<'static>,
    {
        let count = fewest + source.below(3);
        let items: Vec<Self> = (0..count).map(|_| Self::not_empty(source)).collect();
        Repeated::new(Box::leak(items.into_boxed_slice()))
    }
}

impl<T: Leaf<'static>> Sample for T {
    fn sample(source: &mut Source) -> Self {
        loop {
            let vendor = T::ENTERPRISE.iter().flat_map(|id| id.to_be_bytes());
            let octets: Vec<u8> = vendor.chain(source.octets().iter().copied()).collect();
            let octets: &'static [u8] = octets.leak();
            if let (false, Ok(leaf)) = (octets.is_empty(), T::decode(octets)) {
                return leaf;
            }
        }
    }
}

impl<T: Sample + Ie<'static>> Sample for Edit<T> {
    fn sample(source: &mut Source) -> Self {
        if source.below(2) == 0 {
            Self::Remove
        } else {
            Self::Set(T::not_empty(source))
        }
    }
}

fn comes_back<B: Body<'static> + Sample + PartialEq + core::fmt::Debug>(source: &mut Source)
where
    Message<'static>: From<B>,
{
    let message = Message::from(B::sample(source));
    let header = if B::MESSAGE_TYPE.is_session() {
        Header::session(B::MESSAGE_TYPE, Seid(source.next()), SequenceNumber::new(1))
    } else {
        Header::node(B::MESSAGE_TYPE, SequenceNumber::new(2))
    };
    let mut buf = vec![0; 60_000];
    let length = message.encode(&header, &mut buf).expect("samples are small");
    let octets: &'static [u8] = Box::leak(buf[..length].to_vec().into_boxed_slice());

    let frame = Frames::new(octets)
        .next()
        .expect("one message")
        .expect("a good header");
    assert_eq!(frame.header, header);
    let read = Message::decode(&frame).unwrap_or_else(|error| panic!("{error} in {message:?}"));
    assert!(read == message, "read    {read:?}\nwritten {message:?}");
    let again = read.encode(&header, &mut buf).expect("as long as before");
    assert_eq!(&buf[..again], octets, "{message:?}");
}

macro_rules! come_back {
    ($($name:ident)*) => {
        proptest! {
            #[test]
            fn every_message_is_read_back_as_it_was_written(seed in 1_u64..) {
                use crate::message::*;
                let source = &mut Source(seed);
                $(comes_back::<$name<'static>>(source);)*
            }
        }

        #[test]
        fn no_message_is_left_out() {
            use crate::message::*;
            let types = [$(<$name<'_>>::TYPE),*];
            assert_eq!(types, MessageType::ALL);
        }
    };
}

come_back! {
    HeartbeatRequest HeartbeatResponse
    PfdManagementRequest PfdManagementResponse
    AssociationSetupRequest AssociationSetupResponse
    AssociationUpdateRequest AssociationUpdateResponse
    AssociationReleaseRequest AssociationReleaseResponse
    VersionNotSupportedResponse
    NodeReportRequest NodeReportResponse
    SessionSetDeletionRequest SessionSetDeletionResponse
    SessionSetModificationRequest SessionSetModificationResponse
    SessionEstablishmentRequest SessionEstablishmentResponse
    SessionModificationRequest SessionModificationResponse
    SessionDeletionRequest SessionDeletionResponse
    SessionReportRequest SessionReportResponse
}
