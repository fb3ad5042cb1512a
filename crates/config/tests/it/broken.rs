//! The full text that each broken file is answered with.

use fakegpu_config::Cluster;

use crate::{files, name};

#[test]
fn every_broken_file_is_told_all_that_is_wrong() {
    for (path, text) in files("broken") {
        let mistakes = Cluster::parse(name(&path), &text).expect_err(name(&path));
        insta::with_settings!({ prepend_module_to_snapshot => false, snapshot_path => "snapshots/broken" }, {
            insta::assert_snapshot!(name(&path), mistakes);
        });
    }
}

#[track_caller]
fn check(text: &str, expected: &[(usize, usize, &str)]) {
    let mistakes = Cluster::parse("test.yaml", text).unwrap_err();
    let found: Vec<_> = mistakes.iter().map(|m| (m.line, m.column, m.message.as_str())).collect();
    assert_eq!(found, expected, "\n{mistakes}");
}

#[test]
fn mistakes_come_in_the_order_of_lines_with_columns_in_characters() {
    check(
        "version: 3\npreset: dgx-h100\ncluster: {\"ä\": 1, default_backend: 7}\n",
        &[
            (1, 10, "unsupported version: the number `3`"),
            (3, 11, "`cluster` has no key `ä`"),
            (3, 36, "`default_backend` must be text, found the number `7`"),
        ],
    );
}

#[test]
fn one_mistake_is_not_told_twice() {
    check("version: 1\npreset: dgx\n", &[(2, 9, "unknown preset `dgx`")]);
    let fabric = "fabric:\n  intra_node: {type: pcie, bandwidth_gbps: 1, latency_us: 1}\n  \
                  inter_node: {type: efa, bandwidth_gbps: 1, latency_us: 1}\n";
    check(
        &format!("version: 1\nnodes:\n  - {{id: a, ranks: [0, x]}}\n  - {{id: b, ranks: [2]}}\n{fabric}"),
        &[(3, 24, "`rank` must be a whole number from 0 to 65535, found the text `x`")],
    );
}

#[test]
fn a_byte_order_mark_and_carriage_returns_do_not_move_the_caret() {
    check("version: 1\r\npreset: x\r\n", &[(2, 9, "unknown preset `x`")]);
    check("\u{feff}version: 1\npreset: x\n", &[(2, 9, "unknown preset `x`")]);
}
