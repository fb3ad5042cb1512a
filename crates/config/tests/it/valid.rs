//! What valid files mean.

use fakegpu_config::Cluster;
use fakegpu_config::cluster::{AlgorithmChoice, LinkKind, Pace, SwitchKind};
use fakegpu_units::{Collective, GlobalRank, NodeIndex};

use crate::{files, name};

#[track_caller]
fn parse(file: &str) -> Cluster {
    let (_, text) =
        files("valid").into_iter().find(|(path, _)| name(path) == file).expect("the file is there");
    Cluster::parse(file, &text).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

#[test]
fn every_valid_file_reads_as_its_summary_says() {
    for (path, _) in files("valid") {
        insta::with_settings!({ prepend_module_to_snapshot => false, snapshot_path => "snapshots/valid" }, {
            insta::assert_snapshot!(name(&path), parse(name(&path)).summary());
        });
    }
}

#[test]
fn the_short_form_fills_in_the_rest() {
    let cluster = parse("short.yaml");
    assert_eq!((cluster.world_size(), cluster.name.as_str()), (4, "dev"));
    assert_eq!(cluster.fabric.inter_node.kind, LinkKind::Infiniband);
    assert_eq!(
        (cluster.fabric.inter_node.oversubscription, cluster.fabric.intra_node.oversubscription),
        (1.5, 1.0)
    );
    assert_eq!((cluster.fabric.algorithm, cluster.fabric.pace), (AlgorithmChoice::Auto, Pace::Off));
    assert_eq!(cluster.node_of(GlobalRank(2)), Some(NodeIndex(1)));
    assert_eq!(cluster.nodes[1].gpus[0].spec().map(|profile| profile.memory_gib), Some(80));
}

#[test]
fn the_long_form_keeps_all_that_it_says() {
    let cluster = parse("long.yaml");
    assert_eq!(cluster.local_device_of(GlobalRank(3)), Some(1));
    assert_eq!(cluster.nodes[1].nics[1].rail, Some(1));
    assert_eq!(cluster.nodes[1].numa[1].gpus, [1]);
    assert_eq!(cluster.fabric.algorithms[&Collective::AllReduce], AlgorithmChoice::Tree);
    assert_eq!(cluster.fabric.switches[2].kind, SwitchKind::Spine);
    let link = cluster.fabric.links[1];
    assert_eq!(
        (link.src, link.dst, link.bandwidth_gbps, link.latency_us),
        (NodeIndex(1), NodeIndex(0), None, Some(40.0))
    );
}

#[test]
fn a_preset_is_overridden_part_by_part() {
    let cluster = parse("preset-resized.yaml");
    assert_eq!((cluster.world_size(), cluster.nodes.len()), (16, 4));
    let network = cluster.fabric.inter_node;
    assert_eq!((network.kind, network.bandwidth_gbps, network.latency_us), (LinkKind::Roce, 200.0, 5.0));
    assert_eq!(cluster.fabric.intra_node.bandwidth_gbps, 3600.0);
    assert_eq!(cluster.fabric.algorithm, AlgorithmChoice::Ring);
}

#[test]
fn the_nics_of_a_preset_follow_their_class() {
    let cluster = parse("preset-resized.yaml");
    assert!(cluster.nodes.iter().flat_map(|node| &node.nics).all(|nic| nic.bandwidth_gbps == 200.0));
}

#[test]
fn what_is_written_out_reads_back_the_same() {
    for (path, _) in files("valid") {
        let cluster = parse(name(&path));
        assert_eq!(Cluster::parse("written.yaml", &cluster.to_yaml()), Ok(cluster));
    }
    insta::assert_snapshot!(parse("long.yaml").to_yaml());
}

#[test]
fn names_that_yaml_would_take_for_something_else_are_quoted() {
    let mut cluster = Cluster::uniform(2, 1);
    let odd = ["null", "1.5", "true", " a: b # c", "\"'\\\n\u{7}", "*x", "größe 😀", "~", "0x1F"];
    for name in odd {
        name.clone_into(&mut cluster.name);
        name.clone_into(&mut cluster.nodes[1].id);
        assert_eq!(Cluster::parse("written.yaml", &cluster.to_yaml()).as_ref(), Ok(&cluster), "{name:?}");
    }
}
