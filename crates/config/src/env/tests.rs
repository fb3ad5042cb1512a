//! Variables present, missing, invalid, and what they mean together.

use super::*;

type Vars<'a> = &'a [(&'a str, &'a str)];

fn read(vars: Vars<'_>) -> Result<Settings, EnvMistakes> {
    Settings::from_vars(vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
}

#[track_caller]
fn settings(vars: Vars<'_>) -> Settings {
    read(vars).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

#[track_caller]
fn mistakes(vars: Vars<'_>) -> String {
    read(vars).expect_err("these variables must be refused").to_string()
}

#[test]
fn variables_missing_mean_an_embedded_coordinator_and_the_tables_defaults() {
    let settings = settings(&[("HOME", "/root"), ("FAKEGPU_LOG", "")]);
    assert!(settings.is_embedded());
    assert_eq!(settings.timeouts, Timeouts::default());
    assert_eq!(settings.report.max_operations, 4096);
    insta::assert_snapshot!(settings.explain(), @r#"
    compute mode        simulate
    communication mode  simulate, with an embedded coordinator
    address             chosen by the session
    token               none
    cluster             one node as large as the job
    join timeout        60 s for a rank that cannot come, 9 min for one that may
    collective timeout  60 s for a rank that cannot come, 9 min for one that may
    placement           by order of joining
    node                by rank
    faults              none
    staging             shared memory, else io_uring, else sockets
    report              fake_gpu_cluster_report.json, fake_gpu_cluster_report.md
    log                 warn
    "#);
}

#[test]
fn variables_present_are_all_read() {
    let settings = settings(&[
        ("FAKEGPU_MODE", "hybrid"),
        ("FAKEGPU_DIST_MODE", "proxy"),
        ("FAKEGPU_COORDINATOR_ADDR", "10.0.0.1:4000"),
        ("FAKEGPU_COORDINATOR_TRANSPORT", "tcp"),
        ("FAKEGPU_COORDINATOR_TOKEN", "s3cret"),
        ("FAKEGPU_COORDINATOR_TIMEOUT_MS", "5000"),
        ("FAKEGPU_JOIN_TIMEOUT_MS", "100"),
        ("FAKEGPU_CLUSTER_CONFIG", "cluster.yaml"),
        ("FAKEGPU_CLUSTER_REPORT_PATH", "out/r.json"),
        ("FAKEGPU_STAGING_FORCE_SOCKET", "yes"),
        ("FAKEGPU_STRICT", "1"),
        ("FAKEGPU_NODE", "node1"),
        ("RANK", "3"),
        ("WORLD_SIZE", "4"),
        ("LOCAL_RANK", "1"),
    ]);
    assert_eq!(settings.timeouts, Timeouts { join_ms: Some(100), collective_ms: Some(5000) });
    assert_eq!(settings.token, Some(Token::new("s3cret")));
    assert!(!format!("{settings:?}{}", settings.explain()).contains("s3cret"));
    insta::assert_snapshot!(settings.explain(), @r#"
    compute mode        hybrid
    communication mode  proxy
    transport           tcp
    address             10.0.0.1:4000
    token               set, not shown
    cluster             cluster.yaml
    join timeout        100 ms
    collective timeout  5000 ms
    placement           rank 3 of 4, from RANK
    node                node1
    faults              none
    staging             io_uring, else sockets
    report              out/r.json, out/r.md
    log                 warn, strict
    "#);
}

#[test]
fn variables_invalid_are_all_told_at_once() {
    let long = "9".repeat(100_000);
    insta::assert_snapshot!(mistakes(&[
        ("FAKEGPU_MODE", "simulated"),
        ("FAKEGPU_DIST_MODE", "none"),
        ("FAKEGPU_COORDINATOR_ADDR", "relative/path"),
        ("FAKEGPU_COORDINATER_TOKEN", "s3cret"),
        ("FAKEGPU_COORDINATOR_TIMEOUT_MS", "0"),
        ("FAKEGPU_JOIN_TIMEOUT_MS", "5s"),
        ("FAKEGPU_COLLECTIVE_TIMEOUT_MS", &long),
        ("FAKEGPU_STAGING_CHUNK_BYTES", "8192"),
        ("FAKEGPU_STAGING_MAX_BYTES", "4096"),
        ("FAKEGPU_STAGING_NO_URING", "maybe"),
        ("FAKEGPU_CLUSTER_REPORT_PATH", "r.md"),
        ("FAKEGPU_CLUSTER_REPORT_MARKDOWN_PATH", "r.md"),
        ("FAKEGPU_CLUSTER_CONFIG", "c.yaml"),
        ("FAKEGPU_PRESET", "dgx-h100"),
        ("FAKEGPU_TURBO", "1"),
        ("FAKEGPU_LOG", "loud\u{1b}[31m"),
        ("RANK", "4"),
        ("WORLD_SIZE", "4"),
    ]), @r#"
    14 mistakes in the environment:
      FAKEGPU_COORDINATER_TOKEN is not a variable of FakeGPU; did you mean FAKEGPU_COORDINATOR_TOKEN?
      FAKEGPU_COLLECTIVE_TIMEOUT_MS has 100000 bytes; at most 64 are accepted
      FAKEGPU_TURBO is not a variable of FakeGPU; unset it, or see `fakegpu doctor` for those there are
      FAKEGPU_COORDINATOR_ADDR is not an address: `relative/path` is neither an absolute path, an @abstract-name nor host:port; use /path, @abstract-name or host:port
      FAKEGPU_DIST_MODE is `none`; use disabled, simulate, proxy or passthrough
      FAKEGPU_MODE is `simulated`; did you mean `simulate`?
      FAKEGPU_COORDINATOR_TIMEOUT_MS is `0`; use a whole number of milliseconds from 1 to 604800000
      FAKEGPU_JOIN_TIMEOUT_MS is `5s`; use a whole number of milliseconds from 1 to 604800000
      FAKEGPU_STAGING_NO_URING is `maybe`; use 1 or 0 (also true/false, yes/no, on/off)
      FAKEGPU_STAGING_CHUNK_BYTES is 8192, more than FAKEGPU_STAGING_MAX_BYTES, which is 4096; a chunk must fit into the staging memory: lower the one or raise the other
      FAKEGPU_CLUSTER_REPORT_MARKDOWN_PATH is the same file as FAKEGPU_CLUSTER_REPORT_PATH; one report would overwrite the other: give each a path of its own
      FAKEGPU_PRESET is set together with FAKEGPU_CLUSTER_CONFIG; a job runs on one cluster: unset one of them, or name the preset inside the file
      FAKEGPU_LOG is `loud\u{1b}[31m`; use error, warn, info, debug or trace
      RANK is 4, but WORLD_SIZE is 4; ranks count from 0 and stay below the number of ranks
    "#);
}

#[test]
fn half_a_coordinator_is_a_mistake_that_names_the_other_half() {
    insta::assert_snapshot!(mistakes(&[("FAKEGPU_DIST_MODE", "simulate")]), @r#"FAKEGPU_COORDINATOR_ADDR is not set, but FAKEGPU_DIST_MODE is `simulate`, which needs a coordinator; set it to the coordinator's address, such as /tmp/fakegpu.sock, or unset FAKEGPU_DIST_MODE for an embedded coordinator"#);
    insta::assert_snapshot!(mistakes(&[("FAKEGPU_COORDINATOR_TRANSPORT", "tcp")]), @r#"FAKEGPU_COORDINATOR_TRANSPORT is `tcp`, but FAKEGPU_COORDINATOR_ADDR is not set; set the address too, or unset both for an embedded coordinator"#);
    insta::assert_snapshot!(mistakes(&[
        ("FAKEGPU_COORDINATOR_TRANSPORT", "tcp"),
        ("FAKEGPU_COORDINATOR_ADDR", "/tmp/a.sock"),
    ]), @r#"FAKEGPU_COORDINATOR_TRANSPORT is `tcp`, but FAKEGPU_COORDINATOR_ADDR is a unix address; unset the transport: the address says it already"#);
    // One cause, one sentence: an unreadable address is not also a missing one.
    assert_eq!(
        read(&[("FAKEGPU_DIST_MODE", "proxy"), ("FAKEGPU_COORDINATOR_ADDR", "h:0")])
            .unwrap_err()
            .iter()
            .count(),
        1
    );
}

#[test]
fn only_an_address_implies_simulate() {
    assert_eq!(settings(&[("FAKEGPU_COORDINATOR_ADDR", "@x")]).dist_mode, Some(DistMode::Simulate));
    let passthrough = settings(&[("FAKEGPU_DIST_MODE", "passthrough")]);
    assert_eq!((passthrough.dist_mode, passthrough.coordinator), (Some(DistMode::Passthrough), None));
    assert_eq!(settings(&[("FAKEGPU_COORDINATOR_TIMEOUT_MS", "5")]).dist_mode, None);
}

#[test]
fn the_markdown_report_lies_beside_the_json() {
    for (json, markdown) in [("a.json", "a.md"), ("a", "a.md"), ("d.json/r", "d.json/r.md")] {
        assert_eq!(settings(&[("FAKEGPU_CLUSTER_REPORT_PATH", json)]).report.markdown, markdown);
    }
}

#[track_caller]
fn check_place(vars: Vars<'_>, expected: Option<(u32, u32, Option<u32>, &str)>) {
    let place = settings(vars).placement;
    assert_eq!(place.map(|p| (p.global_rank, p.world_size, p.local_rank, p.source)), expected);
}

#[test]
fn the_innermost_launcher_says_which_rank_this_is() {
    let slurm = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "2"), ("SLURM_LOCALID", "0")];
    let ompi =
        [("OMPI_COMM_WORLD_RANK", "3"), ("OMPI_COMM_WORLD_SIZE", "8"), ("OMPI_COMM_WORLD_LOCAL_RANK", "1")];
    check_place(&[], None);
    check_place(&slurm, Some((0, 2, Some(0), "SLURM_PROCID")));
    check_place(&[slurm, ompi].concat(), Some((3, 8, Some(1), "OMPI_COMM_WORLD_RANK")));
    check_place(&[("PMI_RANK", "1"), ("PMI_SIZE", "2")], Some((1, 2, None, "PMI_RANK")));
    check_place(&[&slurm[..], &[("RANK", "1"), ("WORLD_SIZE", "2")]].concat(), Some((1, 2, None, "RANK")));
}

#[test]
fn a_shell_inside_an_allocation_has_no_place() {
    check_place(&[("SLURM_NTASKS", "4")], None);
    check_place(&[("LOCAL_RANK", "0")], None);
}

#[test]
fn half_a_place_or_an_impossible_one_is_a_mistake() {
    insta::assert_snapshot!(mistakes(&[("RANK", "0")]), @r#"WORLD_SIZE is not set, but RANK is; launchers set both: set it too, or unset the other"#);
    insta::assert_snapshot!(mistakes(&[("PMI_SIZE", "2")]), @r#"PMI_RANK is not set, but PMI_SIZE is; launchers set both: set it too, or unset the other"#);
    insta::assert_snapshot!(mistakes(&[("OMPI_COMM_WORLD_RANK", "2"), ("OMPI_COMM_WORLD_SIZE", "2")]), @r#"OMPI_COMM_WORLD_RANK is 2, but OMPI_COMM_WORLD_SIZE is 2; ranks count from 0 and stay below the number of ranks"#);
    insta::assert_snapshot!(mistakes(&[
        ("RANK", "-1"),
        ("WORLD_SIZE", "70000"),
        ("LOCAL_RANK", "2"),
        ("LOCAL_WORLD_SIZE", "2"),
    ]), @r#"
    3 mistakes in the environment:
      LOCAL_RANK is 2, but LOCAL_WORLD_SIZE is 2; ranks count from 0 and stay below the number of ranks
      RANK is `-1`; use a whole number from 0 to 65535
      WORLD_SIZE is `70000`; use a whole number from 1 to 65536
    "#);
}

#[test]
fn every_example_and_default_of_the_table_is_accepted() {
    let companions = [
        ("FAKEGPU_COORDINATOR_ADDR", "/tmp/a"),
        ("RANK", "0"),
        ("WORLD_SIZE", "4"),
        ("LOCAL_WORLD_SIZE", "4"),
    ];
    for variable in VARIABLES.iter().chain(PLACEMENT_VARIABLES) {
        let rest = companions.into_iter().filter(|(name, _)| *name != variable.name);
        let values = [Some(variable.example), variable.default.value()];
        for value in values.into_iter().flatten() {
            let vars: Vec<_> = rest.clone().chain([(variable.name, value)]).collect();
            settings(&vars);
        }
    }
}

#[test]
fn a_value_too_long_is_refused_whatever_it_is_for() {
    let long = "x".repeat(5000);
    for variable in VARIABLES.iter().chain(PLACEMENT_VARIABLES) {
        assert!(mistakes(&[(variable.name, &long)]).contains(variable.name));
    }
}

#[test]
fn the_readme_table_is_the_table() {
    insta::assert_snapshot!(markdown_table());
}

#[test]
fn a_fault_on_purpose_knows_a_call_by_any_spelling_of_its_name() {
    assert_eq!(settings(&[]).nccl_fault, None);
    let fault = settings(&[("FAKEGPU_NCCL_FAULT_OPERATION", "all_reduce"), ("FAKEGPU_NCCL_FAULT_RANK", "1")])
        .nccl_fault
        .unwrap();
    assert!(fault.means(1, 7, "ncclAllReduce"));
    assert!(!fault.means(0, 7, "ncclAllReduce") && !fault.means(1, 7, "ncclReduce"));
    let third = settings(&[("FAKEGPU_NCCL_FAULT_SEQNO", "3")]).nccl_fault.unwrap();
    assert!(third.means(5, 3, "ncclSend") && !third.means(5, 2, "ncclSend"));
}

#[test]
fn payload_is_on_unless_it_is_off() {
    assert_eq!(settings(&[]).payload, Payload::On);
    assert_eq!(settings(&[("FAKEGPU_PAYLOAD", "off")]).payload, Payload::Off);
    assert!(mistakes(&[("FAKEGPU_PAYLOAD", "never")]).contains("use on or off"));
}
