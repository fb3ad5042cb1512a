//! The cluster file's fabric decides the predicted times, and the report says over which links bytes went.

use std::process::Command;

use fakegpu_verification::Layout;

/// Runs the checking client on 2 nodes × 2 ranks whose inter-node links have this bandwidth; gives the report.
fn report(inter_node_gbps: u32) -> serde_json::Value {
    let layout = Layout::find();
    let folder = tempfile::tempdir().unwrap();
    let cluster = folder.path().join("cluster.yaml");
    let text = format!(
        "version: 1\ncluster: {{name: pair}}\nnodes:\n  - {{id: left, ranks: [0, 1]}}\n  - {{id: right, ranks: [2, 3]}}\n\
         fabric:\n  intra_node: {{type: nvlink, bandwidth_gbps: 2400, latency_us: 2}}\n  \
         inter_node: {{type: infiniband, bandwidth_gbps: {inter_node_gbps}, latency_us: 5, oversubscription: 2}}\n"
    );
    std::fs::write(&cluster, text).unwrap();
    let output = Command::new(layout.fakegpu())
        .args(["run", "--cluster"])
        .arg(&cluster)
        .arg("--report")
        .arg(folder.path().join("report"))
        .arg("--")
        .arg(layout.client("collectives"))
        .args(["--loop", "20", "--op", "allreduce", "--bytes", "1048576", "--dir"])
        .arg(folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(folder.path().join("report/cluster_report.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_slower_fabric_predicts_longer_times_for_the_same_program() {
    let (slow, fast) = (report(25), report(400));
    let time = |report: &serde_json::Value, field: &str| {
        report["collectives"]["all_reduce"][field].as_f64().unwrap()
    };
    assert_eq!(slow["collectives"]["all_reduce"]["calls"], fast["collectives"]["all_reduce"]["calls"]);
    let ratio = time(&slow, "estimated_time_us_total") / time(&fast, "estimated_time_us_total");
    assert!(ratio > 4.0, "16 times less bandwidth, {ratio:.1} times the time");
    assert!(time(&slow, "contention_penalty_us_total") > time(&fast, "contention_penalty_us_total"));
    assert_eq!(slow["cluster"]["name"], "pair");
}

#[test]
fn links_say_which_bytes_went_between_which_nodes() {
    let report = report(100);
    let links = report["links"].as_array().unwrap();
    let between = |src: &str, dst: &str| links.iter().find(|link| link["src"] == src && link["dst"] == dst);
    for (src, dst, scope) in [
        ("left", "left", "intra_node"),
        ("left", "right", "inter_node"),
        ("right", "left", "inter_node"),
        ("right", "right", "intra_node"),
    ] {
        let link = between(src, dst).unwrap_or_else(|| panic!("no link {src} to {dst}: {links:?}"));
        assert_eq!(link["scope"], scope);
        assert!(link["bytes"].as_u64().unwrap() > 0 && link["operations"].as_u64().unwrap() > 0, "{link}");
    }
    assert_eq!(report["node_pairs"].as_array().unwrap().len(), 2, "{}", report["node_pairs"]);
    assert!(report["virtual_time"]["makespan_us"].as_f64().unwrap() > 0.0);
}
