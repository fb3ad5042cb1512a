//! `fabric`: what connects GPUs and nodes.

use std::collections::BTreeMap;

use fakegpu_units::{Collective, NodeIndex};

use super::Base;
use super::lists::{Named, each, repeated, unique};
use super::nodes::NodeIds;
use crate::cluster::checker::{BANDWIDTH, Checker, Field, Fields, LATENCY, OVERSUBSCRIPTION};
use crate::cluster::mistakes::Finding;
use crate::cluster::{AlgorithmChoice, FabricSpec, LinkClass, LinkOverride, Pace, Switch};
use crate::nearest::did_you_mean;
use crate::words::quoted;

const FABRIC: &[&str] = &["intra_node", "inter_node", "algorithm", "algorithms", "switches", "links", "pace"];

const EXAMPLE_FABRIC: &str =
    "{intra_node: {type: nvlink, bandwidth_gbps: 2400, latency_us: 3}, inter_node: {…}}";
const EXAMPLE_CLASS: &str = "{type: infiniband, bandwidth_gbps: 200, latency_us: 5}";

/// The fabric, whose parts override the preset's one by one.
pub(super) fn fabric(
    checker: &mut Checker,
    document: &Fields<'_>,
    base: &Base,
    nodes: Option<&NodeIds>,
) -> Option<FabricSpec> {
    let inherited = base.cluster.as_ref().map(|base| &base.fabric);
    let Some(field) = base.part(checker, document, "fabric", EXAMPLE_FABRIC) else {
        return inherited.cloned();
    };
    let fields = checker.fields(field.tree, "`fabric`", FABRIC)?;
    let intra_node = link_class(checker, &fields, "intra_node", base, |fabric| fabric.intra_node);
    let inter_node = link_class(checker, &fields, "inter_node", base, |fabric| fabric.inter_node);
    let algorithm = fields.find("algorithm").map_or(Some(AlgorithmChoice::Auto), |field| checker.word(field));
    let algorithms =
        fields.find("algorithms").map_or(Some(BTreeMap::new()), |field| algorithms(checker, field));
    let switches = fields.find("switches").map_or(Some(Vec::new()), |field| switches(checker, field, nodes));
    let links = fields.find("links").map_or(Some(Vec::new()), |field| links(checker, field, nodes));
    let pace = fields.find("pace").map_or(Some(Pace::Off), |field| checker.word(field));
    Some(FabricSpec {
        intra_node: intra_node?,
        inter_node: inter_node?,
        algorithm: algorithm?,
        algorithms: algorithms?,
        switches: switches?,
        links: links?,
        pace: pace?,
    })
}

const LINK_CLASS: &[&str] = &["type", "bandwidth_gbps", "latency_us", "oversubscription"];

/// A link class, whose parts override those that `pick` finds in the preset.
fn link_class(
    checker: &mut Checker,
    fabric: &Fields<'_>,
    name: &'static str,
    base: &Base,
    pick: fn(&FabricSpec) -> LinkClass,
) -> Option<LinkClass> {
    let inherited = base.cluster.as_ref().map(|base| pick(&base.fabric));
    let Some(field) = base.part(checker, fabric, name, EXAMPLE_CLASS) else { return inherited };
    let fields = checker.fields(field.tree, &format!("`{name}`"), LINK_CLASS)?;
    let kind = match base.part(checker, &fields, "type", "nvlink") {
        Some(field) => checker.word(field),
        None => inherited.map(|class| class.kind),
    };
    let bandwidth_gbps = match base.part(checker, &fields, "bandwidth_gbps", "400") {
        Some(field) => checker.quantity(field, BANDWIDTH),
        None => inherited.map(|class| class.bandwidth_gbps),
    };
    let latency_us = match base.part(checker, &fields, "latency_us", "5") {
        Some(field) => checker.quantity(field, LATENCY),
        None => inherited.map(|class| class.latency_us),
    };
    let oversubscription = match fields.find("oversubscription") {
        Some(field) => checker.quantity(field, OVERSUBSCRIPTION),
        None => Some(inherited.map_or(1.0, |class| class.oversubscription)),
    };
    Some(LinkClass {
        kind: kind?,
        bandwidth_gbps: bandwidth_gbps?,
        latency_us: latency_us?,
        oversubscription: oversubscription?,
    })
}

fn algorithms(checker: &mut Checker, field: Field<'_>) -> Option<BTreeMap<Collective, AlgorithmChoice>> {
    let names: Vec<&'static str> = Collective::ALL.iter().map(|collective| collective.name()).collect();
    let fields = checker.fields(field.tree, "`algorithms`", &names)?;
    let mut chosen = BTreeMap::new();
    for &collective in Collective::ALL {
        if let Some(field) = fields.find(collective.name()) {
            chosen.insert(collective, checker.word(Field { name: "algorithm", ..field })?);
        }
    }
    Some(chosen)
}

const SWITCH: &[&str] = &["id", "kind", "nodes"];

fn switches(checker: &mut Checker, field: Field<'_>, nodes: Option<&NodeIds>) -> Option<Vec<Switch>> {
    let mut ids: Vec<Named> = Vec::new();
    let switches = each(checker, field, |checker, item| {
        let fields = checker.fields(item, "a switch", SWITCH)?;
        let id = checker.require(&fields, "id", "leaf0");
        let id = id.and_then(|field| Some((checker.text(field)?.to_owned(), field.span().clone())));
        let kind = checker.require(&fields, "kind", "leaf").and_then(|field| checker.word(field));
        let below = fields.find("nodes").map_or(Some(Vec::new()), |field| {
            each(checker, field, |checker, item| {
                node_named(checker, Field { name: "node", tree: item }, nodes)
            })
        });
        let (id, span) = id?;
        ids.push((id.clone(), span));
        Some(Switch { id, kind: kind?, nodes: below? })
    });
    unique(checker, "switch", &ids);
    switches
}

const LINK: &[&str] = &["src", "dst", "bandwidth_gbps", "latency_us"];

fn links(checker: &mut Checker, field: Field<'_>, nodes: Option<&NodeIds>) -> Option<Vec<LinkOverride>> {
    let mut pairs = Vec::new();
    let links = each(checker, field, |checker, item| {
        let fields = checker.fields(item, "a link", LINK)?;
        let src = checker.require(&fields, "src", "node0").and_then(|end| node_named(checker, end, nodes));
        let dst = checker.require(&fields, "dst", "node1").and_then(|end| node_named(checker, end, nodes));
        let (bandwidth, latency) = (fields.find("bandwidth_gbps"), fields.find("latency_us"));
        if bandwidth.is_none() && latency.is_none() {
            let finding = Finding::new(fields.at(), "this link says nothing that its class does not");
            checker.report(finding.help("give `bandwidth_gbps`, `latency_us` or both"));
        }
        let bandwidth_gbps = bandwidth.and_then(|field| checker.quantity(field, BANDWIDTH));
        let latency_us = latency.and_then(|field| checker.quantity(field, LATENCY));
        let (src, dst) = (src?, dst?);
        if src == dst {
            let finding = Finding::new(fields.at(), "this link leads from a node to itself");
            checker.report(finding.help("`intra_node` describes what is inside a node"));
        }
        pairs.push(((src, dst), fields.at().clone()));
        Some(LinkOverride { src, dst, bandwidth_gbps, latency_us })
    });
    for (_, first, again) in repeated(pairs.iter().map(|(pair, span)| (*pair, span))) {
        let finding = Finding::new(again, "this pair of nodes has a link already").label("again here");
        checker
            .report(finding.also(first, "first here").help("a link has one direction: was the other meant?"));
    }
    links
}

/// The node that a name stands for. Without readable names, any is taken on trust: the file fails anyway.
fn node_named(checker: &mut Checker, field: Field<'_>, nodes: Option<&NodeIds>) -> Option<NodeIndex> {
    let name = checker.text(field)?;
    let Some(nodes) = nodes else { return Some(NodeIndex(0)) };
    let index = nodes.get(name).copied();
    if index.is_none() && !checker.is_full() {
        let names: Vec<&str> = nodes.keys().map(String::as_str).collect();
        let finding = Finding::new(field.span(), format!("there is no node {}", quoted(name)));
        checker.report(finding.help(did_you_mean(name, &names)));
    }
    index
}
