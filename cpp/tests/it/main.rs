//! The header and the Rust tables describe the same interface.

use std::collections::BTreeMap;

use fakegpu_cpp::answers;
use fakegpu_nccl_abi::ABI_ROWS;
use fakegpu_nccl_abi::types::{ENUMS, LAYOUTS};

/// What the tables say, in the compiler's terms.
fn expected() -> BTreeMap<String, (u64, i64)> {
    let mut all = BTreeMap::new();
    for layout in LAYOUTS {
        all.insert(layout.name.to_owned(), (layout.size as u64, 0));
        for field in layout.fields {
            let offset = i64::try_from(field.offset).expect("a struct of this size");
            all.insert(format!("{}.{}", layout.name, field.name), (field.size as u64, offset));
        }
    }
    for (name, values, _) in ENUMS {
        all.insert((*name).to_owned(), (size_of::<i32>() as u64, 0));
        all.extend(values.iter().map(|named| (named.name.to_owned(), (0, i64::from(named.value)))));
    }
    for row in ABI_ROWS {
        all.insert(row.name.to_owned(), (0, i64::try_from(row.params.len()).expect("a handful")));
    }
    all
}

#[test]
fn a_cpp_compiler_sees_the_layouts_values_and_functions_of_the_tables() {
    let seen: BTreeMap<String, (u64, i64)> =
        answers().into_iter().map(|answer| (answer.name, (answer.size, answer.value))).collect();
    assert_eq!(seen, expected());
    assert!(seen.len() > 200, "{} answers", seen.len());
}
