//! Fields: their names and bounds, and how they are read and written. A field is declared once, for both ways.

use core::fmt;

/// Octets of a message, at most: one fits into a frame of 1,500 octets with its headers, in a VLAN and a tunnel, too.
pub const MAX_MESSAGE: usize = 1_400;

/// The values that a field can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// From the least to the greatest, both included.
    Range(u64, u64),
    /// The same, or this one, which means "none" or "no limit".
    RangeOr(u64, u64, u64),
    /// One of these.
    OneOf(&'static [u64]),
    /// Any in which no other bits are set than in this one.
    Bits(u64),
}

impl Bound {
    #[inline]
    fn has(self, value: u64) -> bool {
        match self {
            Self::Range(least, most) => (least..=most).contains(&value),
            Self::RangeOr(least, most, or) => (least..=most).contains(&value) || value == or,
            Self::OneOf(values) => values.contains(&value),
            Self::Bits(mask) => value & !mask == 0,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range(only, same) if only == same => write!(f, "{only}"),
            Self::Range(least, most) => write!(f, "in {least}..={most}"),
            Self::RangeOr(least, most, or) => write!(f, "in {least}..={most} or {or}"),
            Self::OneOf(values) => write!(f, "one of {values:?}"),
            Self::Bits(mask) => write!(f, "within the bits {mask:#x}"),
        }
    }
}

/// Why octets are no message, or a value cannot be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodecError {
    /// It ends before this field does.
    Short {
        /// The field.
        field: &'static str,
    },
    /// There are octets behind its end.
    Trailing {
        /// How many.
        octets: usize,
    },
    /// It is longer than it may be.
    TooLong {
        /// Its octets.
        octets: usize,
        /// How many there may be: [`MAX_MESSAGE`], or what there is room for.
        most: usize,
    },
    /// A field has a value that it cannot have.
    Value {
        /// The field.
        field: &'static str,
        /// What it has.
        value: u64,
        /// What it can have.
        bound: Bound,
    },
    /// A list names something twice.
    Twice {
        /// By this field.
        field: &'static str,
        /// With this value.
        value: u64,
    },
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { field } => write!(f, "the message ends before the end of {field}"),
            Self::Trailing { octets } => write!(f, "{octets} octets behind the end of the message"),
            Self::TooLong { octets, most } => write!(f, "{octets} octets, there may be {most}"),
            Self::Value { field, value, bound } => write!(f, "{field} is {value}, not {bound}"),
            Self::Twice { field, value } => write!(f, "{field} {value} is there twice"),
        }
    }
}

impl core::error::Error for CodecError {}

/// A field of a message.
pub(crate) struct Field {
    name: &'static str,
    bound: Bound,
}

/// Reserved octets.
pub(crate) const RESERVED: Field = Field::zero("reserved");

impl Field {
    pub(crate) const fn new(name: &'static str, bound: Bound) -> Self {
        Self { name, bound }
    }

    /// A field that can have any value.
    pub(crate) const fn any(name: &'static str) -> Self {
        Self::new(name, Bound::Range(0, u64::MAX))
    }

    /// A field with values from 0 to `most`.
    pub(crate) const fn most(name: &'static str, most: u64) -> Self {
        Self::new(name, Bound::Range(0, most))
    }

    /// A field with values from 0 to `most`, or `or`.
    pub(crate) const fn most_or(name: &'static str, most: u64, or: u64) -> Self {
        Self::new(name, Bound::RangeOr(0, most, or))
    }

    /// A field that is 0.
    pub(crate) const fn zero(name: &'static str) -> Self {
        Self::most(name, 0)
    }

    /// A field with these bits.
    pub(crate) const fn bits(name: &'static str, mask: u64) -> Self {
        Self::new(name, Bound::Bits(mask))
    }

    /// This field where it takes part, else it is 0.
    pub(crate) const fn only_if(self, takes_part: bool) -> Self {
        if takes_part { self } else { Self::zero(self.name) }
    }

    /// This field without the value beside its range.
    pub(crate) const fn without_other(self) -> Self {
        match self.bound {
            Bound::RangeOr(least, most, _) => Self::new(self.name, Bound::Range(least, most)),
            bound => Self::new(self.name, bound),
        }
    }

    /// With a constant field, no more than comparisons with constants.
    #[inline(always)]
    pub(crate) fn check(&self, value: u64) -> Result<(), CodecError> {
        match self.bound.has(value) {
            true => Ok(()),
            false => Err(CodecError::Value {
                field: self.name,
                value,
                bound: self.bound,
            }),
        }
    }
}

/// Reads the fields of a message one after the other.
pub(crate) struct Reader<'a> {
    octets: &'a [u8],
}

macro_rules! read {
    ($($name:ident: $int:ty),*) => {
        $(#[inline]
        pub(crate) fn $name(&mut self, field: &Field) -> Result<$int, CodecError> {
            let value = <$int>::from_be_bytes(self.array(field)?);
            field.check(u64::from(value))?;
            Ok(value)
        })*
    };
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(octets: &'a [u8]) -> Self {
        Self { octets }
    }

    read!(u8: u8, u16: u16, u32: u32, u64: u64);

    /// Octets without a bound.
    #[inline]
    pub(crate) fn array<const N: usize>(&mut self, field: &Field) -> Result<[u8; N], CodecError> {
        let short = CodecError::Short { field: field.name };
        let (octets, rest) = self.octets.split_first_chunk().ok_or(short)?;
        self.octets = rest;
        Ok(*octets)
    }

    /// A number that is the place of a value in `all`.
    pub(crate) fn place<T: Copy>(&mut self, field: &Field, all: &[T]) -> Result<T, CodecError> {
        let number = self.u8(field)?;
        all.get(usize::from(number)).copied().ok_or(CodecError::Value {
            field: field.name,
            value: number.into(),
            bound: Bound::Range(0, all.len() as u64 - 1),
        })
    }

    /// Reserved octets.
    pub(crate) fn reserved(&mut self, octets: usize) -> Result<(), CodecError> {
        (0..octets).try_for_each(|_| self.u8(&RESERVED).map(drop))
    }

    /// What is left.
    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.octets
    }

    /// The message ends here.
    pub(crate) const fn end(self) -> Result<(), CodecError> {
        match self.octets.len() {
            0 => Ok(()),
            octets => Err(CodecError::Trailing { octets }),
        }
    }
}

/// Writes the fields of a message one after the other, and keeps the first fault. What does not fit is not written, but
/// counted.
pub(crate) struct Writer<'a> {
    octets: &'a mut [u8],
    at: usize,
    fault: Option<CodecError>,
}

macro_rules! write {
    ($($name:ident: $int:ty),*) => {
        $(#[inline]
        pub(crate) fn $name(&mut self, field: &Field, value: $int) {
            self.check(field, u64::from(value));
            self.array(&value.to_be_bytes());
        })*
    };
}

impl<'a> Writer<'a> {
    pub(crate) const fn new(octets: &'a mut [u8]) -> Self {
        Self {
            octets,
            at: 0,
            fault: None,
        }
    }

    write!(u8: u8, u16: u16, u32: u32, u64: u64);

    /// Octets without a bound.
    #[inline]
    pub(crate) fn array(&mut self, octets: &[u8]) {
        let end = self.at + octets.len();
        if let Some(place) = self.octets.get_mut(self.at..end) {
            place.copy_from_slice(octets);
        }
        self.at = end;
    }

    /// Reserved octets.
    pub(crate) fn reserved(&mut self, octets: usize) {
        (0..octets).for_each(|_| self.u8(&RESERVED, 0));
    }

    /// A value that is not written has to be this.
    pub(crate) fn check(&mut self, field: &Field, value: u64) {
        self.verify(field.check(value));
    }

    /// Octets that are not written have to be 0.
    pub(crate) fn check_zero(&mut self, name: &'static str, octets: &[u8]) {
        let value = octets.iter().copied().find(|octet| *octet != 0).unwrap_or(0);
        self.check(&Field::zero(name), value.into());
    }

    pub(crate) fn verify(&mut self, checked: Result<(), CodecError>) {
        if let Err(fault) = checked {
            self.fail(fault);
        }
    }

    fn fail(&mut self, fault: CodecError) {
        self.fault.get_or_insert(fault);
    }

    /// How many octets there are, also where they do not fit.
    pub(crate) const fn len(&self) -> usize {
        self.at
    }

    /// How many octets were written.
    pub(crate) const fn end(self) -> Result<usize, CodecError> {
        let (octets, most) = (self.at, self.octets.len());
        match self.fault {
            _ if octets > most => Err(CodecError::TooLong { octets, most }),
            None => Ok(octets),
            Some(fault) => Err(fault),
        }
    }
}

/// What is written as fields.
pub(crate) trait Wire: Sized {
    fn put(&self, to: &mut Writer<'_>);
    fn take(from: &mut Reader<'_>) -> Result<Self, CodecError>;
}
