//! From the tree to the cluster: the grammar of the file.
//!
//! Each function reads one thing of the grammar, and its list of keys stands above it.

mod fabric;
mod lists;
mod nodes;

use super::checker::{Checker, Field, Fields};
use super::mistakes::{Finding, Mistakes};
use super::tree::{self, Tree, Value};
use super::{Cluster, MAX_BYTES, MAX_RANKS, presets};
use fabric::fabric;
use nodes::{Roster, nodes};

/// The host of a node about which the file does not say.
pub(super) const DEFAULT_HOST: &str = "127.0.0.1";

pub(super) fn cluster(source_name: &str, text: &str) -> Result<Cluster, Mistakes> {
    if text.len() > MAX_BYTES {
        return Err(Mistakes::new(source_name, "", vec![too_large(text.len())]));
    }
    let tree = tree::parse(text).map_err(|error| {
        let finding =
            Finding { help: error.help.map(str::to_owned), ..Finding::new(&error.span, error.message) };
        Mistakes::new(source_name, text, vec![finding])
    })?;
    let mut checker = Checker::default();
    let cluster = document(&mut checker, &tree);
    match (cluster, checker.into_findings()) {
        (Some(cluster), findings) if findings.is_empty() => Ok(cluster),
        (_, findings) => Err(Mistakes::new(source_name, text, findings)),
    }
}

fn too_large(len: usize) -> Finding {
    Finding::new(&(0..0), format!("the file has {len} bytes; a cluster file has at most {MAX_BYTES}"))
        .help("is this the right file? `preset` describes many equal nodes in one line")
}

const DOCUMENT: &[&str] = &["version", "preset", "cluster", "nodes", "fabric"];

fn document(checker: &mut Checker, tree: &Tree) -> Option<Cluster> {
    if matches!(tree.value, Value::Null) {
        checker.report(
            Finding::new(&tree.span, "the file is empty")
                .help("begin with `version: 1` and `preset: dgx-h100`, or list `nodes` and `fabric`"),
        );
        return None;
    }
    let fields = checker.fields(tree, "a cluster file", DOCUMENT)?;
    version(checker, &fields);
    let base = Base::read(checker, &fields);
    let roster = match fields.find("nodes") {
        None if base.is_named => Roster::inherited(base.cluster.as_ref()),
        Some(field) => nodes(checker, field),
        None => {
            checker.require(&fields, "nodes", "[{id: node0, ranks: [0, 1]}]");
            Roster::default()
        }
    };
    let fabric = fabric(checker, &fields, &base, roster.ids.as_ref());
    let (name, default_backend) = head(checker, &fields, base.cluster.as_ref());
    let mut cluster = Cluster { name, default_backend, nodes: roster.nodes?, fabric: fabric? };
    base.follow(&mut cluster);
    Some(cluster)
}

/// The preset that a file builds on.
struct Base {
    /// Whether the file names one, right or wrong: then nothing else has to be written.
    is_named: bool,
    cluster: Option<Cluster>,
}

impl Base {
    fn read(checker: &mut Checker, fields: &Fields<'_>) -> Self {
        let field = fields.find("preset");
        let cluster = field.and_then(|field| preset(checker, field, fields.find("nodes")));
        Self { is_named: field.is_some(), cluster }
    }

    /// The entry, which without a preset must be there.
    fn part<'t>(
        &self,
        checker: &mut Checker,
        fields: &Fields<'t>,
        name: &str,
        example: &str,
    ) -> Option<Field<'t>> {
        if self.is_named { fields.find(name) } else { checker.require(fields, name, example) }
    }

    /// Brings the preset's NICs to the bandwidth that the file gives their class.
    fn follow(&self, cluster: &mut Cluster) {
        let Some(base) = &self.cluster else { return };
        let (was, is) = (base.fabric.inter_node.bandwidth_gbps, cluster.fabric.inter_node.bandwidth_gbps);
        if cluster.nodes == base.nodes {
            let nics = cluster.nodes.iter_mut().flat_map(|node| &mut node.nics);
            nics.filter(|nic| nic.bandwidth_gbps == was).for_each(|nic| nic.bandwidth_gbps = is);
        }
    }
}

fn version(checker: &mut Checker, fields: &Fields<'_>) {
    let Some(field) = checker.require(fields, "version", "1") else { return };
    if !matches!(field.tree.value, Value::Whole(1)) {
        let message = format!("unsupported version: {}", field.tree.value);
        checker.report(Finding::new(field.span(), message).help("this is written for `version: 1`"));
    }
}

const PRESET: &[&str] = &["name", "nodes", "ranks_per_node"];

/// `dgx-h100`, or `{name: dgx-h100, nodes: 4, ranks_per_node: 8}`.
fn preset(checker: &mut Checker, field: Field<'_>, nodes: Option<Field<'_>>) -> Option<Cluster> {
    if matches!(field.tree.value, Value::Text(_)) {
        return checker.one_of(field, presets::NAMES).and_then(Cluster::preset);
    }
    let fields = checker.fields(field.tree, "a preset", PRESET)?;
    let name = checker.require(&fields, "name", "dgx-h100");
    let base = name.and_then(|field| checker.one_of(field, presets::NAMES)).and_then(Cluster::preset);
    let count = fields.find("nodes");
    if let (Some(count), Some(nodes)) = (count.or_else(|| fields.find("ranks_per_node")), nodes) {
        let finding = Finding::new(
            count.span(),
            format!("`{}` resizes the preset, but the file lists nodes of its own", count.name),
        );
        checker.report(finding.also(nodes.span(), "listed here").help("remove one of them"));
    }
    let mut number = |name| fields.find(name).map(|field| checker.whole(field, 1, MAX_RANKS));
    let (nodes, ranks) = (number("nodes"), number("ranks_per_node"));
    let base = base?;
    let own_ranks = base.nodes.first().map_or(0, |node| node.ranks.len());
    let nodes = nodes.unwrap_or_else(|| u32::try_from(base.nodes.len()).ok())?;
    let ranks = ranks.unwrap_or_else(|| u32::try_from(own_ranks).ok())?;
    base.resized(nodes, ranks)
        .map_err(|error| checker.report(Finding::new(fields.at(), error.to_string())))
        .ok()
}

const HEAD: &[&str] = &["name", "default_backend"];

/// Name and backend, from the file, else from the preset.
fn head(checker: &mut Checker, fields: &Fields<'_>, base: Option<&Cluster>) -> (String, String) {
    let own = fields.find("cluster").and_then(|field| checker.fields(field.tree, "`cluster`", HEAD));
    let mut text = |key: &str| {
        let written = own.as_ref().and_then(|own| own.find(key));
        written.and_then(|field| checker.text(field)).map(str::to_owned)
    };
    let name = text("name").or_else(|| base.map(|base| base.name.clone()));
    let backend = text("default_backend").or_else(|| base.map(|base| base.default_backend.clone()));
    (name.unwrap_or_else(|| "cluster".to_owned()), backend.unwrap_or_else(|| "nccl".to_owned()))
}
