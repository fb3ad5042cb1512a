//! Laws of the model, and examples worked by hand.

mod examples;
mod laws;
mod transfers;

use std::collections::BTreeMap;

use fakegpu_config::cluster::{AlgorithmChoice, FabricSpec, LinkClass, LinkKind, Pace};
use fakegpu_fabric::{Model, Query, TwoClass};
use fakegpu_proto::{Descriptor, Estimate};
use fakegpu_units::{Collective, DataType, NodeIndex, Rank, ReduceOp};

/// One prediction to ask for.
#[derive(Clone, Debug)]
struct Case {
    op: Collective,
    /// Of one block.
    bytes: u64,
    nodes: Vec<NodeIndex>,
    root: u32,
    concurrent: u32,
}

impl Case {
    fn new(op: Collective, bytes: u64) -> Self {
        Self { op, bytes, nodes: Vec::new(), root: 0, concurrent: 0 }
    }

    /// On nodes with this many ranks each, in order.
    fn on(self, ranks: &[usize]) -> Self {
        let nodes = (0..).map(NodeIndex).zip(ranks).flat_map(|(node, ranks)| vec![node; *ranks]).collect();
        Self { nodes, ..self }
    }

    fn rooted_at(self, root: u32) -> Self {
        Self { root, ..self }
    }

    fn estimate(&self, spec: &FabricSpec) -> Estimate {
        let descriptor = Descriptor {
            op: self.op,
            count: self.bytes,
            data_type: DataType::UInt8,
            reduce: self.op.reduces().then_some(ReduceOp::Sum),
            root: self.op.has_root().then_some(Rank(self.root)),
        };
        let query = Query { descriptor: &descriptor, nodes: &self.nodes, concurrent: self.concurrent };
        TwoClass::new(spec).estimate(&query)
    }
}

/// 80 Gb/s and 1 µs within a node, 8 Gb/s and 5 µs between nodes, the algorithm up to the model.
fn fabric() -> FabricSpec {
    let class = |kind, bandwidth_gbps, latency_us| LinkClass {
        kind,
        bandwidth_gbps,
        latency_us,
        oversubscription: 1.0,
    };
    FabricSpec {
        intra_node: class(LinkKind::Nvlink, 80.0, 1.0),
        inter_node: class(LinkKind::Infiniband, 8.0, 5.0),
        algorithm: AlgorithmChoice::Auto,
        algorithms: BTreeMap::new(),
        switches: Vec::new(),
        links: Vec::new(),
        pace: Pace::Off,
    }
}
