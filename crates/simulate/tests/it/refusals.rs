//! What is refused before any coordinator is asked.

use fakegpu_simulate::{Code, CommOptions, NeverSpawn, Runtime};

use crate::{Place, join_with};

#[track_caller]
fn refused(vars: &[(&str, &str)], words: &str) {
    let vars = vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let fault = Runtime::new(vars, Box::new(NeverSpawn)).unique_id().unwrap_err();
    assert!(fault.detail.contains(words), "{}", fault.detail);
}

#[test]
fn modes_that_are_not_built_are_refused_by_name() {
    refused(&[("FAKEGPU_DIST_MODE", "disabled")], "NCCL calls are refused");
    refused(&[("FAKEGPU_DIST_MODE", "passthrough")], "`passthrough`");
    refused(&[("FAKEGPU_MODE", "hybrid")], "`hybrid`");
}

#[test]
fn mistakes_in_the_environment_answer_the_first_call() {
    refused(&[("FAKEGPU_COORDINATOR_ADR", "/tmp/x")], "FAKEGPU_COORDINATOR_ADDR");
    refused(&[("FAKEGPU_DIST_MODE", "simulate")], "FAKEGPU_COORDINATOR_ADDR");
}

#[test]
fn a_coordinator_binary_that_is_no_file_is_named() {
    refused(
        &[("FAKEGPU_COORDINATOR_BIN", "/nonexistent/bin")],
        "FAKEGPU_COORDINATOR_BIN is `/nonexistent/bin`",
    );
}

#[test]
fn an_invented_id_without_a_coordinator_is_told_what_to_do() {
    let runtime = Runtime::new([], Box::new(NeverSpawn));
    let fault = join_with(&runtime, Place { id: 7, size: 2, rank: 0 }, CommOptions::default()).unwrap_err();
    assert_eq!(fault.code, Code::InvalidUsage);
    assert!(fault.detail.contains("FAKEGPU_COORDINATOR_ADDR"), "{}", fault.detail);
}
