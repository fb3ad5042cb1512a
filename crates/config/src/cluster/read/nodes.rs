//! `nodes`: who is there, with what devices.

use std::collections::BTreeMap;
use std::ops::Range;

use fakegpu_units::{GlobalRank, NodeIndex};

use super::DEFAULT_HOST;
use super::lists::{Named, each, unique};
use crate::cluster::checker::{BANDWIDTH, Checker, Field, Fields, LATENCY};
use crate::cluster::mistakes::Finding;
use crate::cluster::ranks;
use crate::cluster::tree::Tree;
use crate::cluster::{Cluster, Gpu, MAX_RANKS, Nic, Node, Numa};
use crate::profiles;
use crate::words::counted;

/// The nodes of a file, as far as they could be read.
#[derive(Default)]
pub(super) struct Roster {
    pub(super) nodes: Option<Vec<Node>>,
    /// Which node each name stands for; there if every name could be read, whatever else is wrong.
    pub(super) ids: Option<NodeIds>,
}

pub(super) type NodeIds = BTreeMap<String, NodeIndex>;

impl Roster {
    pub(super) fn inherited(base: Option<&Cluster>) -> Self {
        let ids =
            base.map(|base| base.indexed_nodes().map(|(index, node)| (node.id.clone(), index)).collect());
        Self { nodes: base.map(|base| base.nodes.clone()), ids }
    }
}

/// A node as far as it could be read.
#[derive(Default)]
struct Draft {
    id: Option<Named>,
    ranks: Option<Vec<ranks::Written>>,
    node: Option<Node>,
}

pub(super) fn nodes(checker: &mut Checker, field: Field<'_>) -> Roster {
    let Some(items) = checker.list(field) else { return Roster::default() };
    if items.is_empty() {
        checker
            .report(Finding::new(field.span(), "`nodes` lists no node").help("a cluster has at least one"));
        return Roster::default();
    }
    let drafts: Vec<Draft> = items.iter().map(|item| node(checker, item)).collect();
    unique(checker, "node", drafts.iter().filter_map(|draft| draft.id.as_ref()));
    // With a rank unread, every gap found would be an echo of that mistake.
    let written: Option<Vec<_>> = drafts.iter().map(|draft| draft.ranks.clone()).collect();
    if let Some(written) = written {
        ranks::check(checker, &written.concat());
    }
    let id = |(index, draft): (u32, &Draft)| Some((draft.id.as_ref()?.0.clone(), NodeIndex(index)));
    let ids = (0..).zip(&drafts).map(id).collect();
    Roster { ids, nodes: drafts.into_iter().map(|draft| draft.node).collect() }
}

const NODE: &[&str] = &["id", "host", "ranks", "gpus", "nics", "numa"];

fn node(checker: &mut Checker, tree: &Tree) -> Draft {
    let Some(fields) = checker.fields(tree, "a node", NODE) else { return Draft::default() };
    let id = checker.require(&fields, "id", "node0");
    let id = id.and_then(|field| Some((checker.text(field)?.to_owned(), field.span().clone())));
    let host = match fields.find("host") {
        Some(field) => checker.text(field),
        None => Some(DEFAULT_HOST),
    };
    let ranks_field = checker.require(&fields, "ranks", "[0, 1]");
    let ranks = ranks_field.and_then(|field| numbers(checker, field));
    let gpus = match fields.find("gpus") {
        Some(field) => gpus(checker, field),
        None => ranks.as_ref().map(|ranks| ranks.iter().map(|_| default_gpu()).collect()),
    };
    let numa = fields.find("numa").map_or(Some(Vec::new()), |field| numa(checker, field, gpus.as_deref()));
    let nics = fields.find("nics").map_or(Some(Vec::new()), |field| nics(checker, field, numa.as_deref()));
    if let (Some(field), Some(ranks), Some(gpus)) = (ranks_field, &ranks, &gpus) {
        check_counts(checker, field, fields.find("gpus"), (ranks.len(), gpus.len()));
    }
    let written = ranks.clone();
    let node = || {
        let ranks = ranks?.into_iter().map(|(rank, _)| GlobalRank(rank)).collect();
        let id = id.as_ref()?.0.clone();
        Some(Node { id, host: host?.to_owned(), ranks, gpus: gpus?, nics: nics?, numa: numa? })
    };
    Draft { node: node(), id, ranks: written }
}

fn default_gpu() -> Gpu {
    Gpu { profile: profiles::DEFAULT.to_owned() }
}

/// One GPU a rank, and at least one rank.
fn check_counts(checker: &mut Checker, ranks: Field<'_>, gpus: Option<Field<'_>>, count: (usize, usize)) {
    if count.0 == 0 {
        checker.report(
            Finding::new(ranks.span(), "this node has no ranks").help("list at least one, or drop the node"),
        );
    }
    if let Some(gpus) = gpus
        && count.0 != count.1
    {
        let message = format!("{} but {}", counted(count.0, "rank"), counted(count.1, "GPU"));
        let finding = Finding::new(gpus.span(), message).label(counted(count.1, "GPU"));
        checker.report(
            finding
                .also(ranks.span(), counted(count.0, "rank"))
                .help("a rank drives one GPU: list as many of the one as of the other"),
        );
    }
}

/// A list of ranks or devices with their places; `None` if one of them could not be read.
fn numbers(checker: &mut Checker, field: Field<'_>) -> Option<Vec<ranks::Written>> {
    each(checker, field, |checker, item| {
        let number = checker.whole(Field { name: element(field.name), tree: item }, 0, MAX_RANKS - 1)?;
        Some((number, item.span.clone()))
    })
}

/// What one item of a list is called.
fn element(list: &'static str) -> &'static str {
    match list {
        "ranks" => "rank",
        "gpus" => "gpu",
        "nodes" => "node",
        other => other,
    }
}

fn gpus(checker: &mut Checker, field: Field<'_>) -> Option<Vec<Gpu>> {
    let names: Vec<&str> = profiles::PROFILES.iter().map(|profile| profile.name).collect();
    each(checker, field, |checker, item| {
        let fields = checker.fields(item, "a GPU", &["profile"])?;
        let Some(profile) = fields.find("profile") else { return Some(default_gpu()) };
        let profile = checker.one_of(profile, &names)?;
        Some(Gpu { profile: profile.to_owned() })
    })
}

const NUMA: &[&str] = &["id", "gpus"];

fn numa(checker: &mut Checker, field: Field<'_>, gpus: Option<&[Gpu]>) -> Option<Vec<Numa>> {
    let mut ids: Vec<Named> = Vec::new();
    let mut devices: Vec<Named> = Vec::new();
    let domains = each(checker, field, |checker, item| {
        let fields = checker.fields(item, "a NUMA domain", NUMA)?;
        let id = checker.require(&fields, "id", "0");
        let id = id.and_then(|field| Some((checker.whole(field, 0, 1023)?, field.span().clone())));
        let own = checker.require(&fields, "gpus", "[0, 1]").and_then(|field| numbers(checker, field));
        for (device, span) in own.iter().flatten() {
            check_device(checker, *device, span, gpus);
            devices.push((device.to_string(), span.clone()));
        }
        let (id, span) = id?;
        ids.push((id.to_string(), span));
        Some(Numa { id, gpus: own?.into_iter().map(|(device, _)| device).collect() })
    });
    unique(checker, "NUMA domain", &ids);
    unique(checker, "GPU", &devices);
    domains
}

fn check_device(checker: &mut Checker, device: u32, span: &Range<usize>, gpus: Option<&[Gpu]>) {
    if let Some(gpus) = gpus
        && device as usize >= gpus.len()
    {
        let message = format!("this node has no GPU {device}");
        let help =
            format!("its {} count from 0; these are local devices, not ranks", counted(gpus.len(), "GPU"));
        checker.report(Finding::new(span, message).help(help));
    }
}

const NIC: &[&str] = &["id", "bandwidth_gbps", "latency_us", "numa", "rail"];

fn nics(checker: &mut Checker, field: Field<'_>, domains: Option<&[Numa]>) -> Option<Vec<Nic>> {
    let mut ids: Vec<Named> = Vec::new();
    let nics = each(checker, field, |checker, item| {
        let fields = checker.fields(item, "a NIC", NIC)?;
        let id = checker.require(&fields, "id", "mlx5_0");
        let id = id.and_then(|field| Some((checker.text(field)?.to_owned(), field.span().clone())));
        let bandwidth = checker.require(&fields, "bandwidth_gbps", "400");
        let bandwidth = bandwidth.and_then(|field| checker.quantity(field, BANDWIDTH));
        let latency = fields.find("latency_us").map_or(Some(0.0), |field| checker.quantity(field, LATENCY));
        let numa = optional(checker, &fields, "numa");
        check_domain(checker, numa, fields.find("numa"), domains);
        let rail = optional(checker, &fields, "rail");
        let (id, span) = id?;
        ids.push((id.clone(), span));
        Some(Nic { id, bandwidth_gbps: bandwidth?, latency_us: latency?, numa, rail })
    });
    unique(checker, "NIC", &ids);
    nics
}

/// A small number that may be left out.
fn optional(checker: &mut Checker, fields: &Fields<'_>, name: &str) -> Option<u32> {
    fields.find(name).and_then(|field| checker.whole(field, 0, 1023))
}

fn check_domain(
    checker: &mut Checker,
    numa: Option<u32>,
    field: Option<Field<'_>>,
    domains: Option<&[Numa]>,
) {
    if let (Some(id), Some(field), Some(domains @ [_, ..])) = (numa, field, domains)
        && !domains.iter().any(|domain| domain.id == id)
    {
        let finding = Finding::new(field.span(), format!("this node has no NUMA domain {id}"));
        checker.report(finding.help("name one that its `numa` lists, or list this one too"));
    }
}
