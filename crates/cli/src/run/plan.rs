//! Which ranks are started and what each one's environment says. Pure: nothing is looked up, nothing started.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use fakegpu_config::{Address, Cluster};
use fakegpu_units::{GlobalRank, NodeIndex};

use crate::find;

/// Variables that a run decides and `--env` may not.
const MANAGED: &[&str] = &[
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "NODE_RANK",
    "GROUP_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "FAKEGPU_DIST_MODE",
    "FAKEGPU_COORDINATOR_ADDR",
    "FAKEGPU_COORDINATOR_TRANSPORT",
    "FAKEGPU_COORDINATOR_TOKEN",
    "FAKEGPU_NODE",
    "FAKEGPU_CLUSTER_CONFIG",
    "FAKEGPU_PRESET",
];

/// Variables that hold for another run, or for this program alone.
pub(crate) const STALE: &[&str] = &[
    "FAKEGPU_PRESET",
    "FAKEGPU_COORDINATOR_ADDR",
    "FAKEGPU_COORDINATOR_TRANSPORT",
    "FAKEGPU_COORDINATOR_TOKEN",
    "FAKEGPU_CLUSTER_REPORT_PATH",
    "FAKEGPU_CLUSTER_REPORT_MARKDOWN_PATH",
    find::LIB_DIR,
];

/// An environment.
pub(crate) type Variables = BTreeMap<OsString, OsString>;

/// Where the coordinator of a run is, and the secret it asks for.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    pub(crate) address: Address,
    pub(crate) token: String,
}

/// A whole run.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    pub(crate) cluster: &'a Cluster,
    /// The first so many ranks of the cluster take part.
    pub(crate) world_size: u32,
    /// The node whose ranks are started here; `None` starts all nodes'.
    pub(crate) only_node: Option<NodeIndex>,
    /// The file that describes the cluster.
    pub(crate) cluster_file: &'a str,
    pub(crate) master: (String, u16),
    pub(crate) dist_mode: &'a str,
    /// `None` where the mode needs no coordinator.
    pub(crate) way: Option<Way>,
    pub(crate) library: &'a Path,
    /// What is loaded beside it.
    pub(crate) companions: &'a [PathBuf],
    /// What ranks inherit, flags included.
    pub(crate) base: &'a Variables,
}

/// One rank to start.
#[derive(Debug)]
pub(crate) struct RankPlan {
    pub(crate) rank: GlobalRank,
    /// Its whole environment.
    pub(crate) variables: Variables,
}

/// A rank's seat on its node.
struct Seat<'a> {
    rank: GlobalRank,
    local_rank: usize,
    local_size: usize,
    node: NodeIndex,
    node_id: &'a str,
}

impl Job<'_> {
    /// The ranks that this host starts, in order of rank.
    pub(crate) fn ranks(&self) -> Result<Vec<RankPlan>> {
        let shared = self.shared()?;
        let mut plans: Vec<RankPlan> = self.seats().map(|seat| self.plan(&shared, &seat)).collect();
        plans.sort_by_key(|plan| plan.rank);
        Ok(plans)
    }

    /// Local ranks count the ranks that take part, so that they stay below their number when `-n` leaves some out.
    fn seats(&self) -> impl Iterator<Item = Seat<'_>> {
        let here = |node: NodeIndex| self.only_node.is_none_or(|only| only == node);
        self.cluster.indexed_nodes().filter(move |(index, _)| here(*index)).flat_map(|(index, node)| {
            let taking_part: Vec<GlobalRank> =
                node.ranks.iter().copied().filter(|rank| rank.0 < self.world_size).collect();
            let local_size = taking_part.len();
            taking_part.into_iter().enumerate().map(move |(local_rank, rank)| Seat {
                rank,
                local_rank,
                local_size,
                node: index,
                node_id: &node.id,
            })
        })
    }

    fn plan(&self, shared: &Variables, seat: &Seat<'_>) -> RankPlan {
        let mut variables = shared.clone();
        let mut set = |name: &str, value: String| {
            variables.insert(name.into(), value.into());
        };
        for name in ["RANK", "OMPI_COMM_WORLD_RANK"] {
            set(name, seat.rank.to_string());
        }
        for name in ["LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"] {
            set(name, seat.local_rank.to_string());
        }
        for name in ["LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"] {
            set(name, seat.local_size.to_string());
        }
        for name in ["NODE_RANK", "GROUP_RANK"] {
            set(name, seat.node.to_string());
        }
        set("FAKEGPU_NODE", seat.node_id.to_owned());
        RankPlan { rank: seat.rank, variables }
    }

    /// What a launcher of ranks gets, which numbers them itself.
    pub(crate) fn launcher(&self) -> Result<Variables> {
        let mut variables = self.shared()?;
        for name in ["WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"] {
            variables.remove(OsStr::new(name));
        }
        Ok(variables)
    }

    /// What all ranks have in common.
    fn shared(&self) -> Result<Variables> {
        let mut variables = self.base.clone();
        for name in STALE {
            variables.remove(OsStr::new(name));
        }
        let mut set = |name: &str, value: OsString| {
            variables.insert(name.into(), value);
        };
        for name in ["WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"] {
            set(name, self.world_size.to_string().into());
        }
        set("MASTER_ADDR", self.master.0.clone().into());
        set("MASTER_PORT", self.master.1.to_string().into());
        set("FAKEGPU_DIST_MODE", self.dist_mode.into());
        set("FAKEGPU_CLUSTER_CONFIG", self.cluster_file.into());
        if let Some(Way { address, token }) = &self.way {
            set("FAKEGPU_COORDINATOR_ADDR", address.to_string().into());
            set("FAKEGPU_COORDINATOR_TRANSPORT", address.transport().name().into());
            set("FAKEGPU_COORDINATOR_TOKEN", token.into());
        }
        self.put_library_first(&mut variables)?;
        self.put_python_first(&mut variables);
        // Ranks share this machine's cores; `torchrun` does the same.
        variables.entry("OMP_NUM_THREADS".into()).or_insert_with(|| "1".into());
        let asan = with_our_library_first(variables.get(OsStr::new("ASAN_OPTIONS")).map(OsString::as_os_str));
        variables.insert("ASAN_OPTIONS".into(), asan);
        Ok(variables)
    }

    /// The search path serves programs that look for NCCL by name, the preload those with a path of their own built
    /// in (RPATH), such as PyTorch's wheels.
    fn put_library_first(&self, variables: &mut Variables) -> Result<()> {
        let path = self.library.as_os_str();
        if path.as_encoded_bytes().iter().any(|byte| matches!(byte, b' ' | b':' | b';')) {
            bail!("`{}` cannot be preloaded: the loader splits paths at blanks, `:` and `;`", path.display());
        }
        let folder = self.library.parent().unwrap_or_else(|| Path::new("/")).as_os_str();
        let search =
            joined(Some(folder), variables.get(OsStr::new("LD_LIBRARY_PATH")).map(OsString::as_os_str));
        let mut preload =
            joined(variables.get(OsStr::new("LD_PRELOAD")).map(OsString::as_os_str), Some(path));
        for companion in self.companions {
            preload = joined(Some(&preload), Some(companion.as_os_str()));
        }
        variables.insert("LD_LIBRARY_PATH".into(), search);
        variables.insert("LD_PRELOAD".into(), preload);
        Ok(())
    }

    /// The Python package stands beside the library's folder; where it does not, Python passes over the path.
    fn put_python_first(&self, variables: &mut Variables) {
        let Some(layout) = self.library.parent().and_then(Path::parent) else { return };
        let package = layout.join("python");
        let search = variables.get(OsStr::new("PYTHONPATH")).map(OsString::as_os_str);
        let search = joined(Some(package.as_os_str()), search);
        variables.insert("PYTHONPATH".into(), search);
    }
}

/// AddressSanitizer ends a program before whose runtime another library is preloaded, lest that one takes over what
/// it has to see. Ours has names of NCCL only; a program's own word on it stays.
fn with_our_library_first(options: Option<&OsStr>) -> OsString {
    const OPTION: &str = "verify_asan_link_order";
    let said = options.is_some_and(|options| options.to_string_lossy().contains(OPTION));
    let ours = (!said).then(|| OsString::from(format!("{OPTION}=0")));
    joined(ours.as_deref(), options)
}

/// Two lists of paths as one. An empty part would mean the current folder, so there is none.
fn joined(first: Option<&OsStr>, second: Option<&OsStr>) -> OsString {
    let parts: Vec<&OsStr> = [first, second].into_iter().flatten().filter(|part| !part.is_empty()).collect();
    parts.join(OsStr::new(":"))
}

/// The assignments of `--env`.
pub(crate) fn assignments(written: &[OsString]) -> Result<Variables> {
    written.iter().map(|text| assignment(text)).collect()
}

fn assignment(text: &OsStr) -> Result<(OsString, OsString)> {
    use std::os::unix::ffi::OsStrExt;
    let bytes = text.as_bytes();
    let at = bytes.iter().position(|byte| *byte == b'=').filter(|at| *at > 0);
    let at = at.with_context(|| format!("--env `{}` is not NAME=VALUE", text.display()))?;
    let (name, value) = (OsStr::from_bytes(&bytes[..at]), OsStr::from_bytes(&bytes[at + 1..]));
    if MANAGED.iter().any(|managed| name == *managed) {
        bail!("--env may not set `{}`, which `fakegpu run` decides for each rank", name.display());
    }
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> Variables {
        pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    fn job<'a>(cluster: &'a Cluster, base: &'a Variables) -> Job<'a> {
        Job {
            cluster,
            world_size: cluster.world_size(),
            only_node: None,
            cluster_file: "/out/cluster.yaml",
            master: ("127.0.0.1".to_owned(), 4321),
            dist_mode: "simulate",
            way: Some(Way { address: "@fakegpu-run-1-ab".parse().unwrap(), token: "secret".to_owned() }),
            library: Path::new("/opt/fakegpu/lib/libnccl.so.2"),
            companions: &[],
            base,
        }
    }

    fn text(variables: &Variables) -> String {
        variables.iter().map(|(name, value)| format!("{}={}\n", name.display(), value.display())).collect()
    }

    #[test]
    fn a_rank_sees_its_place_its_coordinator_and_our_library_first() {
        let cluster = Cluster::uniform(2, 2);
        let base = variables(&[
            ("FAKEGPU_PRESET", "dgx-h100"),
            ("FAKEGPU_LIB_DIR", "/opt"),
            ("HOME", "/root"),
            ("LD_LIBRARY_PATH", "/usr/local/cuda/lib64"),
            ("LD_PRELOAD", "libjemalloc.so"),
            ("PYTHONPATH", "/home/me/lib"),
        ]);
        let plans = job(&cluster, &base).ranks().unwrap();
        assert_eq!(plans.len(), 4);
        insta::assert_snapshot!(text(&plans[3].variables), @"
        ASAN_OPTIONS=verify_asan_link_order=0
        FAKEGPU_CLUSTER_CONFIG=/out/cluster.yaml
        FAKEGPU_COORDINATOR_ADDR=@fakegpu-run-1-ab
        FAKEGPU_COORDINATOR_TOKEN=secret
        FAKEGPU_COORDINATOR_TRANSPORT=unix
        FAKEGPU_DIST_MODE=simulate
        FAKEGPU_NODE=node1
        GROUP_RANK=1
        HOME=/root
        LD_LIBRARY_PATH=/opt/fakegpu/lib:/usr/local/cuda/lib64
        LD_PRELOAD=libjemalloc.so:/opt/fakegpu/lib/libnccl.so.2
        LOCAL_RANK=1
        LOCAL_WORLD_SIZE=2
        MASTER_ADDR=127.0.0.1
        MASTER_PORT=4321
        NODE_RANK=1
        OMPI_COMM_WORLD_LOCAL_RANK=1
        OMPI_COMM_WORLD_LOCAL_SIZE=2
        OMPI_COMM_WORLD_RANK=3
        OMPI_COMM_WORLD_SIZE=4
        OMP_NUM_THREADS=1
        PYTHONPATH=/opt/fakegpu/python:/home/me/lib
        RANK=3
        WORLD_SIZE=4
        ");
    }

    #[test]
    fn a_programs_own_number_of_threads_stays() {
        let (cluster, base) = (Cluster::uniform(1, 1), variables(&[("OMP_NUM_THREADS", "4")]));
        let plans = job(&cluster, &base).ranks().unwrap();
        assert_eq!(plans[0].variables[OsStr::new("OMP_NUM_THREADS")], "4");
    }

    #[test]
    fn a_programs_own_words_to_its_sanitizer_stay() {
        let with = |options: &str| with_our_library_first(Some(OsStr::new(options)));
        assert_eq!(with("detect_leaks=0"), "verify_asan_link_order=0:detect_leaks=0");
        assert_eq!(with("verify_asan_link_order=1"), "verify_asan_link_order=1");
    }

    #[test]
    fn every_rank_of_every_node_is_there_once_in_order() {
        let mut cluster = Cluster::uniform(2, 2);
        cluster.nodes[0].ranks = vec![GlobalRank(2), GlobalRank(0)];
        cluster.nodes[1].ranks = vec![GlobalRank(3), GlobalRank(1)];
        let base = Variables::new();
        let seats = |world_size| -> Vec<String> {
            let plans = Job { world_size, ..job(&cluster, &base) }.ranks().unwrap();
            let of = |plan: &RankPlan, name: &str| plan.variables[OsStr::new(name)].display().to_string();
            let told = |plan: &RankPlan| {
                let local = format!("{}/{}", of(plan, "LOCAL_RANK"), of(plan, "LOCAL_WORLD_SIZE"));
                format!("{} on {} {local}", plan.rank, of(plan, "FAKEGPU_NODE"))
            };
            plans.iter().map(told).collect()
        };
        assert_eq!(seats(4), ["0 on node0 1/2", "1 on node1 1/2", "2 on node0 0/2", "3 on node1 0/2"]);
        assert_eq!(seats(2), ["0 on node0 0/1", "1 on node1 0/1"]);
    }

    #[test]
    fn a_host_starts_its_own_nodes_ranks_alone() {
        let (cluster, base) = (Cluster::uniform(2, 3), Variables::new());
        let plans = Job { only_node: Some(NodeIndex(1)), ..job(&cluster, &base) }.ranks().unwrap();
        assert_eq!(plans.iter().map(|plan| plan.rank.0).collect::<Vec<_>>(), [3, 4, 5]);
    }

    #[test]
    fn every_rank_has_an_environment_that_the_library_accepts() {
        let (cluster, base) = (Cluster::uniform(2, 3), variables(&[("FAKEGPU_PRESET", "dgx-h100")]));
        for plan in job(&cluster, &base).ranks().unwrap() {
            let settings = crate::check::settings(plan.variables).unwrap();
            assert_eq!(settings.placement.unwrap().global_rank, plan.rank.0);
        }
    }

    #[test]
    fn the_loader_must_be_able_to_read_the_librarys_path() {
        let (cluster, base) = (Cluster::uniform(1, 1), Variables::new());
        let job = Job { library: Path::new("/my libs/libnccl.so.2"), ..job(&cluster, &base) };
        assert!(job.ranks().unwrap_err().to_string().contains("cannot be preloaded"));
    }

    #[test]
    fn assignments_are_name_and_value_and_never_a_ranks_place() {
        let told = |text: &str| assignments(&[text.into()]).map_err(|error| error.to_string());
        assert_eq!(told("A=b=c"), Ok(variables(&[("A", "b=c")])));
        assert_eq!(told("A="), Ok(variables(&[("A", "")])));
        assert_eq!(told("A"), Err("--env `A` is not NAME=VALUE".to_owned()));
        assert_eq!(told("=x"), Err("--env `=x` is not NAME=VALUE".to_owned()));
        assert_eq!(
            told("RANK=3"),
            Err("--env may not set `RANK`, which `fakegpu run` decides for each rank".to_owned())
        );
    }
}
