//! Conversion between values and their form in a record, in both directions.

use flow::meter::TimeUnit;
use packet::{Ppi, Qfi, Teid};
use rules::model;
use rules::sdf::FlowDescription;
use std::net::{Ipv4Addr, Ipv6Addr};
use usage::{Exhausted, Moment, Seconds, UsageInformation, UsageTriggers, WallClock};

use super::super::error::{RecordError, bad};
use rules::compile::MAX_PDRS;

pub(super) type Result<T> = std::result::Result<T, RecordError>;

/// The clock by which moments are dates, in nanoseconds since 1970.
#[derive(Clone, Copy)]
pub(super) struct Dates<'a> {
    pub(super) wall: &'a WallClock,
}

impl Dates<'_> {
    /// The date of a moment.
    pub(super) fn date(self, moment: Moment) -> u64 {
        self.wall.unix_nanos(moment)
    }

    /// The moment of a date.
    pub(super) fn moment(self, date: u64) -> Moment {
        self.wall.moment(date)
    }
}

/// The form of a value `M`. Reading fails for values that cannot be.
pub(super) trait Form<M>: Sized {
    fn write(value: &M, dates: Dates<'_>) -> Self;
    fn read(&self, dates: Dates<'_>) -> Result<M>;
}

/// A struct of a record, whose fields are named as those of the value, in the order in which they are written. A field
/// that is added to the value does not compile before it is decided what becomes of it here.
macro_rules! form {
    ($(#[$meta:meta])* $name:ident = $($value:ident)::+ { $($(#[$field_meta:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[derive(serde::Serialize, serde::Deserialize)]
        pub(super) struct $name {
            $($(#[$field_meta])* $field: $type,)*
        }

        impl $crate::record::session_v1::convert::Form<$($value)::+> for $name {
            fn write(value: &$($value)::+, dates: $crate::record::session_v1::convert::Dates<'_>) -> $name {
                let $($value)::+ { $($field,)* } = value;
                $name { $($field: $crate::record::session_v1::convert::Form::write($field, dates),)* }
            }

            fn read(
                &self,
                dates: $crate::record::session_v1::convert::Dates<'_>,
            ) -> $crate::record::session_v1::convert::Result<$($value)::+> {
                Ok($($value)::+ { $($field: $crate::record::session_v1::convert::Form::read(&self.$field, dates)?,)* })
            }
        }
    };
}
pub(super) use form;

macro_rules! as_they_are {
    ($($type:ty)*) => {$(
        impl Form<$type> for $type {
            fn write(value: &$type, _: Dates<'_>) -> $type {
                *value
            }

            fn read(&self, _: Dates<'_>) -> Result<$type> {
                Ok(*self)
            }
        }
    )*};
}
as_they_are!(bool u8 u16 u32 u64 i64 [u64; 2] Ipv4Addr Ipv6Addr);

macro_rules! numbers {
    ($($value:path: $type:ty,)*) => {$(
        impl Form<$value> for $type {
            fn write(value: &$value, _: Dates<'_>) -> $type {
                value.0
            }

            fn read(&self, _: Dates<'_>) -> Result<$value> {
                Ok($value(*self))
            }
        }
    )*};
}
numbers! {
    Teid: u32,
    model::FarId: u32,
    model::QerId: u32,
    model::UrrId: u32,
    model::BarId: u8,
    model::CorrelationId: u32,
    model::SdfFilterId: u32,
    model::OuterHeaderKind: u16,
    model::BitsPerSecond: u64,
    model::UnixSeconds: u64,
    model::MeasurementMethod: u8,
    model::MeasurementInformation: u8,
    model::ReportingTriggers: u32,
    Exhausted: u8,
    Seconds: u32,
    UsageInformation: u8,
    UsageTriggers: u32,
}

/// Values that have a number, of which some numbers may be none.
macro_rules! coded {
    ($($value:ty as $type:ty: $write:expr, $read:expr;)*) => {$(
        impl Form<$value> for $type {
            fn write(value: &$value, _: Dates<'_>) -> $type {
                $write(value)
            }

            fn read(&self, _: Dates<'_>) -> Result<$value> {
                $read(self)
            }
        }
    )*};
}
coded! {
    Qfi as u8: |qfi: &Qfi| qfi.get(), |value: &u8| Qfi::new(*value).ok_or(bad("QFI"));
    Ppi as u8: |ppi: &Ppi| ppi.get(), |value: &u8| Ppi::new(*value).ok_or(bad("PPI"));
    TimeUnit as u8: |unit: &TimeUnit| unit.value(), |value: &u8| Ok(TimeUnit::from_value(*value));
    model::Gate as bool: |gate: &model::Gate| gate.is_closed(), |is_closed: &bool| Ok(match is_closed {
        true => model::Gate::Closed,
        false => model::Gate::Open,
    });
    model::Multiplier as u64: |multiplier: &model::Multiplier| multiplier.billionths(),
        |value: &u64| model::Multiplier::from_billionths(*value).ok_or(bad("URR"));
    model::TosTrafficClass as (u8, u8): |class: &model::TosTrafficClass| (class.value, class.mask),
        |(value, mask): &(u8, u8)| Ok(model::TosTrafficClass { value: *value, mask: *mask });
    FlowDescription as String: |flow: &FlowDescription| flow.to_string(),
        |text: &String| text.parse().map_err(|_| bad("Flow Description"));
    model::Application as (Vec<u8>, Vec<String>): |application: &model::Application| {
        // Names are the node's: the session gets them anew.
        let model::Application { id, flows, named: _ } = application;
        (id.to_vec(), flows.iter().map(ToString::to_string).collect())
    }, |(id, flows): &(Vec<u8>, Vec<String>)| {
        let flows = flows.iter().map(|text| text.parse().map_err(|_| bad("application")));
        Ok(model::Application {
            id: id.as_slice().into(),
            flows: flows.collect::<Result<Vec<_>>>()?.into(),
            named: Default::default(),
        })
    };
}

/// A date.
impl Form<Moment> for u64 {
    fn write(value: &Moment, dates: Dates<'_>) -> u64 {
        dates.date(*value)
    }

    fn read(&self, dates: Dates<'_>) -> Result<Moment> {
        Ok(dates.moment(*self))
    }
}

impl<M, T: Form<M>> Form<Box<M>> for T {
    fn write(value: &Box<M>, dates: Dates<'_>) -> T {
        T::write(value, dates)
    }

    fn read(&self, dates: Dates<'_>) -> Result<Box<M>> {
        self.read(dates).map(Box::new)
    }
}

impl<M, T: Form<M>> Form<Option<M>> for Option<T> {
    fn write(value: &Option<M>, dates: Dates<'_>) -> Option<T> {
        value.as_ref().map(|value| T::write(value, dates))
    }

    fn read(&self, dates: Dates<'_>) -> Result<Option<M>> {
        self.as_ref().map(|form| form.read(dates)).transpose()
    }
}

impl<M, N, T: Form<M>, U: Form<N>> Form<(M, N)> for (T, U) {
    fn write((first, second): &(M, N), dates: Dates<'_>) -> (T, U) {
        (T::write(first, dates), U::write(second, dates))
    }

    fn read(&self, dates: Dates<'_>) -> Result<(M, N)> {
        Ok((self.0.read(dates)?, self.1.read(dates)?))
    }
}

/// A list of a URR.
impl<M, T: Form<M>> Form<Vec<M>> for Vec<T> {
    fn write(value: &Vec<M>, dates: Dates<'_>) -> Vec<T> {
        value.iter().map(|value| T::write(value, dates)).collect()
    }

    fn read(&self, dates: Dates<'_>) -> Result<Vec<M>> {
        if self.len() > MAX_PDRS {
            return Err(bad("URR"));
        }
        self.iter().map(|form| form.read(dates)).collect()
    }
}
