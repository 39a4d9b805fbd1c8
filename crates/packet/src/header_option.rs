//! The list of options that IPv4 and TCP headers share the form of: kind, length, data (RFC 791 §3.1, RFC 9293 §3.1).

/// End of Option List.
pub const END: u8 = 0;
/// No Operation.
pub const NOP: u8 = 1;

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderOption<'a> {
    /// Its kind: IPv4 says type.
    pub kind: u8,
    /// Its octets without kind and length; none of a No Operation.
    pub data: &'a [u8],
}

/// An option whose length is below 2, or exceeds the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadLength;

/// Takes the first option off `list`. `None` at the end of the list; `list` is empty after the end and after an error.
#[inline]
pub(crate) fn take<'a>(list: &mut &'a [u8]) -> Option<Result<HeaderOption<'a>, BadLength>> {
    let (&kind, rest) = list.split_first()?;
    match kind {
        END => {
            *list = &[];
            None
        }
        NOP => {
            *list = rest;
            Some(Ok(HeaderOption { kind, data: &[] }))
        }
        _ => {
            let len = usize::from(rest.first().copied().unwrap_or(0));
            let data = list.get(2..len);
            *list = list.get(len..).filter(|_| data.is_some()).unwrap_or_default();
            Some(data.map(|data| HeaderOption { kind, data }).ok_or(BadLength))
        }
    }
}
