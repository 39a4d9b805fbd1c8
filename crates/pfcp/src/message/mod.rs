//! The messages of TS 29.244 R17, one struct each, and the enum over all of them.

use crate::error::{Error, NoRoom};
use crate::header::{Frame, Header, MessageType};
use crate::tlv::Writer;

/// The body of one type of message.
pub trait Body<'a>: Sized {
    /// The type in the header.
    const MESSAGE_TYPE: MessageType;

    /// Reads the IEs behind the header.
    ///
    /// # Errors
    /// Cause and offending IE as TS 29.244 §7.6 wants them.
    fn decode(body: &'a [u8]) -> Result<Self, Error>;

    /// Writes the IEs behind the header.
    ///
    /// # Errors
    /// [`NoRoom`] when the buffer ends before.
    fn write<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom>;

    /// Writes the whole message to the front of `buf` and returns how many octets it has. The header's message type
    /// is set from the body.
    ///
    /// # Errors
    /// [`NoRoom`] when the buffer ends before.
    fn encode(&self, header: &Header, buf: &mut [u8]) -> Result<usize, NoRoom> {
        let header = Header {
            message_type: Self::MESSAGE_TYPE,
            ..*header
        };
        let w = Writer::new(buf);
        let room = w.room();
        let (mark, w) = header.begin(w)?;
        let w = self.write(w)?.end(mark);
        Ok(room - w.room())
    }
}

/// Messages: `Name = message type, "place" { rows }`.
macro_rules! messages {
    ($($(#[$meta:meta])* $name:ident = $type:literal, $place:literal {
        $($number:literal $presence:ident $field:ident: $ty:ty,)*
    })*) => {$(
        table! {
            $(#[$meta])*
            #[doc = ""]
            #[doc = concat!("Message type ", $type, ", TS 29.244 ", $place, ".")]
            $name { $($number $presence $field: $ty,)* }
        }

        impl $name<'_> {
            /// The type in the header.
            pub const TYPE: $crate::MessageType = $crate::MessageType($type);

            /// Checks what has to be there if the Cause accepts.
            #[inline]
            fn check_acceptance(&self) -> Result<(), $crate::Error> {
                $(slot!(accepted $presence self.$field $number);)*
                Ok(())
            }
        }

        impl<'a> $crate::message::Body<'a> for $name<'a> {
            const MESSAGE_TYPE: $crate::MessageType = Self::TYPE;

            fn decode(body: &'a [u8]) -> Result<Self, $crate::Error> {
                let mut message = <Self as $crate::wire::Blank>::blank();
                message.read_table(body)?;
                message.check_acceptance()?;
                Ok(message)
            }

            fn write<'b>(&self, w: $crate::tlv::Writer<'b>) -> Result<$crate::tlv::Writer<'b>, $crate::NoRoom> {
                self.write_table(w)
            }
        }
    )*};
}

mod node;
mod session;

pub use node::*;
pub use session::*;

/// The enum over all messages: one variant for each struct, named like it.
macro_rules! any_message {
    ($($name:ident)*) => {
        /// A message of any type, without its header.
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[allow(clippy::large_enum_variant, reason = "lives on the stack for as long as one message is handled")]
        pub enum Message<'a> {
            $(
                #[doc = concat!("See [`", stringify!($name), "`](struct@", stringify!($name), ").")]
                $name($name<'a>),
            )*
        }

        impl<'a> Message<'a> {
            /// Reads the body of `frame`.
            ///
            /// # Errors
            /// Cause and offending IE as TS 29.244 §7.6 wants them; for an unknown message type, which
            /// [`Frames`](crate::Frames) never yields, cause 64 without an offending IE.
            pub fn decode(frame: &Frame<'a>) -> Result<Self, Error> {
                match frame.header.message_type {
                    $(<$name<'_>>::TYPE => $name::decode(frame.body).map(Self::$name),)*
                    _ => Err(Error::UNKNOWN_MESSAGE),
                }
            }

            /// The type that belongs into the header.
            pub const fn message_type(&self) -> MessageType {
                match self {
                    $(Self::$name(_) => <$name<'_>>::TYPE,)*
                }
            }

            /// Writes the whole message to the front of `buf` and returns how many octets it has. The header's
            /// message type is set from the message.
            ///
            /// # Errors
            /// [`NoRoom`] when the buffer ends before.
            pub fn encode(&self, header: &Header, buf: &mut [u8]) -> Result<usize, NoRoom> {
                match self {
                    $(Self::$name(body) => body.encode(header, buf),)*
                }
            }
        }

        $(
            impl<'a> From<$name<'a>> for Message<'a> {
                fn from(body: $name<'a>) -> Self {
                    Self::$name(body)
                }
            }
        )*
    };
}

any_message! {
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
