//! GTP-U (TS 29.281): header, extension headers, information elements.
//!
//! [`Message::parse`] reads a whole message of any type. The packet path takes the shortcut in [`crate::frame`]; a test
//! compares the two. The worker decides what a message means for a tunnel or a path.

mod error_indication;
mod extension;
mod header;
mod ie;
mod message;

pub use error_indication::ErrorIndication;
pub use extension::{
    Comprehension, ExtensionHeader, ExtensionHeaders, ExtensionIter, ExtensionType, MAX_EXTENSIONS,
    SUPPORTED_EXTENSIONS, Unknown,
};
pub use header::{HEADER_LEN, Header, MessageType, OPTIONAL_LEN, OptionalFields, PORT, flags};
pub use ie::{Ie, IeType, Ies, PrivateExtension};
pub use message::Message;
