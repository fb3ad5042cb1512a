//! Two clocks that never mix: the host's (deadlines, waits) and the model's (predicted time).

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! clock {
    ($(#[$doc:meta])* $instant:ident, $(#[$span_doc:meta])* $span:ident, $unit:literal, $from:ident, $as:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $instant(u64);

        $(#[$span_doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $span(u64);

        impl $instant {
            /// The origin of this clock.
            pub const ZERO: Self = Self(0);
            #[doc = concat!("The instant this many ", $unit, " after the origin.")]
            pub const fn $from(units: u64) -> Self { Self(units) }
            #[doc = concat!("How many ", $unit, " after the origin.")]
            pub const fn $as(self) -> u64 { self.0 }
            /// The span since `earlier`; zero where `earlier` is later.
            #[must_use]
            pub const fn since(self, earlier: Self) -> $span { $span(self.0.saturating_sub(earlier.0)) }
        }

        impl $span {
            /// No time at all.
            pub const ZERO: Self = Self(0);
            /// Longer than anything that happens.
            pub const MAX: Self = Self(u64::MAX);
            #[doc = concat!("A span of this many ", $unit, ".")]
            pub const fn $from(units: u64) -> Self { Self(units) }
            #[doc = concat!("The span in ", $unit, ".")]
            pub const fn $as(self) -> u64 { self.0 }
            /// The span times a count, saturating.
            #[must_use]
            pub const fn times(self, count: u64) -> Self { Self(self.0.saturating_mul(count)) }
        }

        impl Add<$span> for $instant {
            type Output = Self;
            fn add(self, span: $span) -> Self { Self(self.0.saturating_add(span.0)) }
        }
        impl AddAssign<$span> for $instant {
            fn add_assign(&mut self, span: $span) { *self = *self + span; }
        }
        impl Add for $span {
            type Output = Self;
            fn add(self, other: Self) -> Self { Self(self.0.saturating_add(other.0)) }
        }
        impl AddAssign for $span {
            fn add_assign(&mut self, other: Self) { *self = *self + other; }
        }
        impl Sub for $span {
            type Output = Self;
            fn sub(self, other: Self) -> Self { Self(self.0.saturating_sub(other.0)) }
        }
        impl std::iter::Sum for $span {
            fn sum<I: Iterator<Item = Self>>(spans: I) -> Self { spans.fold(Self::ZERO, Add::add) }
        }
    };
}

clock!(
    /// An instant of the model, in integer picoseconds: no rounding decides an order.
    VirtualTime,
    /// A span of modelled time, in integer picoseconds.
    VirtualSpan,
    "picoseconds", from_picos, as_picos
);
clock!(
    /// An instant of the machine's monotonic clock, in nanoseconds; used for deadlines and waits only.
    HostTime,
    /// A span of the machine's clock, in nanoseconds.
    HostSpan,
    "nanoseconds", from_nanos, as_nanos
);

impl VirtualSpan {
    /// A span of whole microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000_000))
    }

    /// A span from fractional microseconds, as a person writes in a cluster file; negative and NaN give zero.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "float casts saturate, which is the wanted answer"
    )]
    pub fn from_micros_f64(micros: f64) -> Self {
        Self((micros * 1e6).round() as u64)
    }

    /// The span in microseconds, for people.
    pub fn as_micros_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl HostSpan {
    /// A span of whole milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Whole milliseconds, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// The span in milliseconds, for people.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl From<std::time::Duration> for HostSpan {
    fn from(duration: std::time::Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<HostSpan> for std::time::Duration {
    fn from(span: HostSpan) -> Self {
        Self::from_nanos(span.0)
    }
}

impl fmt::Display for VirtualSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..1_000_000_000 => write!(f, "{:.2} µs", self.0 as f64 / 1e6),
            1_000_000_000..1_000_000_000_000 => write!(f, "{:.2} ms", self.0 as f64 / 1e9),
            _ => write!(f, "{:.2} s", self.0 as f64 / 1e12),
        }
    }
}

impl fmt::Display for HostSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..1_000_000 => write!(f, "{:.1} µs", self.0 as f64 / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{:.1} ms", self.0 as f64 / 1e6),
            _ => write!(f, "{:.1} s", self.0 as f64 / 1e9),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_instead_of_wrapping() {
        assert_eq!(
            VirtualTime::from_picos(u64::MAX) + VirtualSpan::from_picos(5),
            VirtualTime::from_picos(u64::MAX)
        );
        assert_eq!(HostTime::from_nanos(3).since(HostTime::from_nanos(7)), HostSpan::ZERO);
    }

    #[test]
    fn fractional_microseconds_keep_their_picoseconds() {
        assert_eq!(VirtualSpan::from_micros_f64(1.25).as_picos(), 1_250_000);
        assert_eq!(VirtualSpan::from_micros_f64(f64::NAN), VirtualSpan::ZERO);
        assert_eq!(VirtualSpan::from_micros_f64(-1.0), VirtualSpan::ZERO);
    }

    #[test]
    fn spans_print_in_the_unit_a_person_would_pick() {
        assert_eq!(VirtualSpan::from_micros(3).to_string(), "3.00 µs");
        assert_eq!(VirtualSpan::from_micros(12_500).to_string(), "12.50 ms");
        assert_eq!(HostSpan::from_millis(1_500).to_string(), "1.5 s");
    }
}
