//! What the virtual GPU behind a rank can do, where a cluster file or a preset says which it is.

use std::sync::OnceLock;

use fakegpu_config::Cluster;
use fakegpu_config::env::Settings;
use fakegpu_proto::Member;

/// The cluster that the process's settings name, read when it is first asked for.
#[derive(Debug, Default)]
pub(crate) struct Capabilities(OnceLock<Option<Cluster>>);

impl Capabilities {
    /// The compute capability of a member's GPU. `None` where nobody has described it: the coordinator, which may
    /// have a cluster file of its own, then knows better than this process.
    pub(crate) fn of(&self, settings: &Settings, member: &Member) -> Option<(u32, u32)> {
        let cluster = self.0.get_or_init(|| read(settings)).as_ref()?;
        let node = cluster.nodes.get(member.node.0 as usize)?;
        let gpu = node.gpus.get(member.device as usize).or_else(|| node.gpus.first())?;
        gpu.spec().map(|profile| profile.compute_capability)
    }
}

fn read(settings: &Settings) -> Option<Cluster> {
    if let Some(preset) = &settings.preset {
        return Cluster::preset(preset);
    }
    let path = settings.cluster_config.as_ref()?;
    // The coordinator reads the same file, and is the one to complain about it.
    Cluster::parse(path, &std::fs::read_to_string(path).ok()?).ok()
}
