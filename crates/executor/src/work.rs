//! From what ranks agreed to do to how it is done.

use fakegpu_proto::Descriptor;
use fakegpu_units::Rank;

use crate::{Plan, PlanError, Reduction, Shape};

/// The plan of an operation, and its reduction where it has one, in a communicator of `size` whose ranks have
/// slots of `slot_bytes`.
///
/// Where bytes only move, the plan counts bytes: ranks may give the same bytes another element type, and must
/// cut them in the same places all the same.
///
/// # Errors
/// As [`Plan::new`].
pub fn plan_of(
    descriptor: &Descriptor,
    size: u32,
    slot_bytes: usize,
) -> Result<(Plan, Option<Reduction>), PlanError> {
    let reduction = descriptor.reduce.map(|op| Reduction { data_type: descriptor.data_type, op, size });
    let (count, elem_bytes) = match reduction {
        Some(_) => (descriptor.count, descriptor.data_type.size()),
        None => (descriptor.block_bytes(), 1),
    };
    let root = descriptor.root.unwrap_or(Rank(0));
    let plan = Plan::new(Shape { op: descriptor.op, size, root, count, elem_bytes, slot_bytes })?;
    Ok((plan, reduction))
}

#[cfg(test)]
mod tests {
    use fakegpu_units::{Collective, DataType};

    use super::*;

    #[test]
    fn equal_bytes_of_different_types_are_cut_alike() {
        for &op in Collective::ALL.iter().filter(|op| !op.reduces()) {
            let descriptor = |count, data_type| Descriptor {
                op,
                count,
                data_type,
                reduce: None,
                root: op.has_root().then_some(Rank(1)),
            };
            let wide = plan_of(&descriptor(1000, DataType::Float64), 3, 4096).unwrap();
            let narrow = plan_of(&descriptor(8000, DataType::UInt8), 3, 4096).unwrap();
            assert_eq!(wide, narrow, "{op}");
        }
    }
}
