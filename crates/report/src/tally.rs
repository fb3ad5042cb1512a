//! Sums over operations, in integers; they become microseconds when a report is written.

use std::collections::BTreeMap;

use fakegpu_proto::Estimate;
use fakegpu_units::VirtualSpan;

use crate::model::{AlgorithmUse, Totals};

/// Sums of one kind of operation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) calls: u64,
    pub(crate) bytes: u64,
    pub(crate) time: VirtualSpan,
    pub(crate) contention: VirtualSpan,
}

/// Sums of one algorithm.
#[derive(Clone, Debug, Default)]
pub(crate) struct AlgorithmTally {
    sum: Tally,
    chosen_by: BTreeMap<String, u64>,
}

impl Tally {
    pub(crate) fn book(&mut self, bytes: u64, time: VirtualSpan, contention: VirtualSpan) {
        self.calls += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.time += time;
        self.contention += contention;
    }

    pub(crate) fn totals(&self) -> Totals {
        Totals {
            calls: self.calls,
            bytes: self.bytes,
            estimated_time_us_total: self.time.as_micros_f64(),
            contention_penalty_us_total: self.contention.as_micros_f64(),
        }
    }
}

impl AlgorithmTally {
    pub(crate) fn book(&mut self, bytes: u64, estimate: &Estimate) {
        self.sum.book(bytes, estimate.total(), estimate.contention);
        // Not `entry`, which wants a key of its own for every operation.
        match self.chosen_by.get_mut(&estimate.chosen_by) {
            Some(count) => *count += 1,
            None => drop(self.chosen_by.insert(estimate.chosen_by.clone(), 1)),
        }
    }

    pub(crate) fn used(&self) -> AlgorithmUse {
        AlgorithmUse {
            operations: self.sum.calls,
            bytes: self.sum.bytes,
            estimated_time_us_total: self.sum.time.as_micros_f64(),
            chosen_by: self.chosen_by.clone(),
        }
    }
}
