//! The job's ranks: their numbers, and the virtual node each is booked on.

use std::collections::BTreeMap;

use fakegpu_proto::event::{ClusterSummary, NodeSummary};
use fakegpu_proto::{Hello, Member};
use fakegpu_units::{GlobalRank, NodeIndex, Rank, SessionId};

/// A rank of the job, placed.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) session: SessionId,
    pub(crate) node: NodeIndex,
    pub(crate) device: u32,
}

/// A rank that joins, as the world needs to know it.
#[derive(Debug)]
pub(crate) struct Joiner<'a> {
    pub(crate) session: SessionId,
    pub(crate) hello: &'a Hello,
    pub(crate) device: u32,
    pub(crate) rank: Rank,
}

/// Who is who in the job.
#[derive(Debug)]
pub(crate) struct World {
    cluster: ClusterSummary,
    /// Whether a file or preset described the cluster; otherwise it grows.
    described: bool,
    size: Option<u32>,
    by_rank: BTreeMap<GlobalRank, Placed>,
    by_device: BTreeMap<(SessionId, u32), GlobalRank>,
}

impl World {
    pub(crate) fn new(cluster: ClusterSummary) -> Self {
        let described = !cluster.nodes.is_empty();
        let ranks = cluster.nodes.iter().map(|node| node.ranks.len()).sum::<usize>();
        Self {
            described,
            size: described.then(|| u32::try_from(ranks).unwrap_or(u32::MAX)),
            cluster,
            by_rank: BTreeMap::new(),
            by_device: BTreeMap::new(),
        }
    }

    pub(crate) fn cluster(&self) -> &ClusterSummary {
        &self.cluster
    }

    pub(crate) fn node_name(&self, node: NodeIndex) -> &str {
        self.cluster.nodes.get(node.index()).map_or("?", |node| node.id.as_str())
    }

    pub(crate) fn ranks_of(&self, session: SessionId) -> Vec<GlobalRank> {
        self.by_rank.iter().filter(|(_, placed)| placed.session == session).map(|(&rank, _)| rank).collect()
    }

    /// Gives every joiner of one communicator its number and node. `grew` is set where the cluster did, and
    /// `placed` receives the ranks that are new.
    pub(crate) fn place(
        &mut self,
        joiners: &[Joiner<'_>],
        grew: &mut bool,
        placed: &mut Vec<GlobalRank>,
    ) -> Result<Vec<Member>, String> {
        let size = u32::try_from(joiners.len()).unwrap_or(u32::MAX);
        let is_world = self.world_size(joiners).is_none_or(|world| world == size);
        let members: Result<Vec<Member>, String> =
            joiners.iter().map(|joiner| self.place_one(joiner, is_world, grew, placed)).collect();
        if members.is_err() {
            // No communicator comes of it, so those who could be placed are as if they had not come.
            for rank in placed.drain(..) {
                self.by_rank.remove(&rank);
                self.by_device.retain(|_, placed| *placed != rank);
            }
        }
        members
    }

    fn world_size(&self, joiners: &[Joiner<'_>]) -> Option<u32> {
        self.size.or_else(|| {
            joiners.iter().find_map(|joiner| joiner.hello.placement).map(|placement| placement.world_size)
        })
    }

    fn place_one(
        &mut self,
        joiner: &Joiner<'_>,
        is_world: bool,
        grew: &mut bool,
        placed: &mut Vec<GlobalRank>,
    ) -> Result<Member, String> {
        let key = (joiner.session, joiner.device);
        let global = match self.by_device.get(&key) {
            Some(&global) => global,
            None => {
                let global = self.number(joiner, is_world);
                let node = self.node_for(joiner, global, grew)?;
                let device = self.device_on(node, global);
                self.by_rank.insert(global, Placed { session: joiner.session, node, device });
                self.by_device.insert(key, global);
                placed.push(global);
                global
            }
        };
        let entry = &self.by_rank[&global];
        Ok(Member { global, node: entry.node, device: entry.device, pid: joiner.hello.pid })
    }

    /// A whole-world communicator numbers by its ranks; before one, the launcher's variables do; else the
    /// first free number.
    fn number(&self, joiner: &Joiner<'_>, is_world: bool) -> GlobalRank {
        let by_comm = is_world.then_some(GlobalRank(joiner.rank.0));
        let by_launcher = joiner.hello.placement.map(|placement| placement.global_rank);
        let free = |rank: &GlobalRank| !self.by_rank.contains_key(rank);
        by_comm.filter(free).or_else(|| by_launcher.filter(free)).unwrap_or_else(|| {
            let mut next = GlobalRank(0);
            while self.by_rank.contains_key(&next) {
                next.0 += 1;
            }
            next
        })
    }

    fn node_for(
        &mut self,
        joiner: &Joiner<'_>,
        global: GlobalRank,
        grew: &mut bool,
    ) -> Result<NodeIndex, String> {
        if self.described {
            let at = self.cluster.nodes.iter().position(|node| node.ranks.contains(&global));
            return at.map(node_index).ok_or_else(|| {
                format!(
                    "rank {global} of the job is not in the cluster `{}`, which has {} ranks: start as many ranks as the cluster describes, or describe more",
                    self.cluster.name,
                    self.size.unwrap_or(0)
                )
            });
        }
        *grew = true;
        let id = joiner.hello.node.clone().unwrap_or_else(|| "node0".to_owned());
        // Without names from a launcher, ranks of one host share a node.
        let host = joiner.hello.host.clone();
        let same =
            |node: &NodeSummary| if joiner.hello.node.is_some() { node.id == id } else { node.host == host };
        let at = match self.cluster.nodes.iter().position(same) {
            Some(at) => at,
            None => {
                let id = if joiner.hello.node.is_some() {
                    id
                } else {
                    format!("node{}", self.cluster.nodes.len())
                };
                self.cluster.nodes.push(NodeSummary { id, host, ..NodeSummary::default() });
                self.cluster.nodes.len() - 1
            }
        };
        let node = &mut self.cluster.nodes[at];
        if !node.ranks.contains(&global) {
            node.ranks.push(global);
            node.gpus.push("h100".to_owned());
        }
        Ok(node_index(at))
    }

    fn device_on(&self, node: NodeIndex, global: GlobalRank) -> u32 {
        let ranks = &self.cluster.nodes[node.index()].ranks;
        let at = ranks.iter().position(|&rank| rank == global).unwrap_or(0);
        u32::try_from(at).unwrap_or(u32::MAX)
    }

    /// Forgets a session's ranks, so that a restarted process may take their numbers again.
    pub(crate) fn forget(&mut self, session: SessionId) {
        self.by_device.retain(|(owner, _), _| *owner != session);
        self.by_rank.retain(|_, placed| placed.session != session);
    }

    /// The rank of a session's device.
    pub(crate) fn rank_at(&self, session: SessionId, device: u32) -> Option<GlobalRank> {
        self.by_device.get(&(session, device)).copied()
    }

    /// The job's ranks whose processes are connected.
    pub(crate) fn ranks(&self) -> impl Iterator<Item = GlobalRank> {
        self.by_rank.keys().copied()
    }

    pub(crate) fn placed(&self, rank: GlobalRank) -> Option<&Placed> {
        self.by_rank.get(&rank)
    }
}

fn node_index(at: usize) -> NodeIndex {
    NodeIndex(u32::try_from(at).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_that_the_cluster_has_no_place_for_takes_none_from_others() {
        let node = NodeSummary { id: "a".to_owned(), ranks: vec![GlobalRank(0)], ..NodeSummary::default() };
        let mut world = World::new(ClusterSummary { nodes: vec![node], ..ClusterSummary::default() });
        let hello = Hello::default();
        let joiner = |session, rank| Joiner {
            session: SessionId(session),
            hello: &hello,
            device: 0,
            rank: Rank(rank),
        };
        let (mut grew, mut placed) = (false, Vec::new());
        let refused = world.place(&[joiner(1, 0), joiner(2, 1)], &mut grew, &mut placed);
        assert!(refused.is_err() && placed.is_empty(), "{refused:?}");
        let members = world.place(&[joiner(3, 0)], &mut grew, &mut placed);
        assert_eq!(members.map(|members| members[0].global), Ok(GlobalRank(0)));
        assert_eq!(placed, [GlobalRank(0)]);
    }
}
