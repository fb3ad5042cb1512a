//! Which rank a launcher made this process.

use super::reader::Reader;
use super::table::{self, Variable};

/// A process's place in its job, as its launcher told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The process's rank in the job; below `world_size`.
    pub global_rank: u32,
    /// Ranks in the job, at least 1.
    pub world_size: u32,
    /// The rank within its node; below `local_world_size` where both are known.
    pub local_rank: Option<u32>,
    /// Ranks on its node.
    pub local_world_size: Option<u32>,
    /// The variable that gave `global_rank`.
    pub source: &'static str,
}

/// The variables by which one launcher tells a process its place.
struct Launcher {
    rank: Variable,
    world_size: Variable,
    local_rank: Option<Variable>,
    local_world_size: Option<Variable>,
    /// Whether it sets one of rank and size without the other in ordinary use: an `salloc` shell has the number of
    /// tasks and no rank, `srun` without `-n` the reverse.
    sets_halves: bool,
}

/// In order of trust: inside a Slurm job, `mpirun` and torchrun know better than `srun` which process this is.
const LAUNCHERS: [Launcher; 4] = [
    Launcher {
        rank: table::TORCH_RANK,
        world_size: table::TORCH_WORLD_SIZE,
        local_rank: Some(table::TORCH_LOCAL_RANK),
        local_world_size: Some(table::TORCH_LOCAL_WORLD_SIZE),
        sets_halves: false,
    },
    Launcher {
        rank: table::OMPI_RANK,
        world_size: table::OMPI_SIZE,
        local_rank: Some(table::OMPI_LOCAL_RANK),
        local_world_size: None,
        sets_halves: false,
    },
    Launcher {
        rank: table::PMI_RANK,
        world_size: table::PMI_SIZE,
        local_rank: None,
        local_world_size: None,
        sets_halves: false,
    },
    Launcher {
        rank: table::SLURM_PROCID,
        world_size: table::SLURM_NTASKS,
        local_rank: Some(table::SLURM_LOCALID),
        local_world_size: None,
        sets_halves: true,
    },
];

impl Placement {
    /// By the first launcher of which the rank or the size is set.
    pub(super) fn read(reader: &mut Reader) -> Option<Self> {
        let launcher = LAUNCHERS.iter().find(|launcher| launcher.is_present(reader))?;
        launcher.read(reader)
    }
}

impl Launcher {
    fn is_present(&self, reader: &Reader) -> bool {
        let (rank, size) = (reader.is_set(&self.rank), reader.is_set(&self.world_size));
        if self.sets_halves { rank && size } else { rank || size }
    }

    fn read(&self, reader: &mut Reader) -> Option<Placement> {
        for (there, lacking) in [(&self.rank, &self.world_size), (&self.world_size, &self.rank)] {
            if !reader.is_set(lacking) {
                let message = format!("is not set, but {} is", there.name);
                reader.mistake(lacking, message, "launchers set both: set it too, or unset the other");
            }
        }
        let local_rank = self.local_rank.as_ref().and_then(|variable| reader.ranks(variable));
        let local_world_size = self.local_world_size.as_ref().and_then(|variable| reader.ranks(variable));
        if let (Some(rank), Some(size)) = (&self.local_rank, &self.local_world_size) {
            below(reader, (rank, local_rank), (size, local_world_size));
        }
        let (global_rank, world_size) = (reader.ranks(&self.rank), reader.ranks(&self.world_size));
        below(reader, (&self.rank, global_rank), (&self.world_size, world_size));
        let source = self.rank.name;
        Some(Placement {
            global_rank: global_rank?,
            world_size: world_size?,
            local_rank,
            local_world_size,
            source,
        })
    }
}

/// Reports a rank that its world is too small for.
fn below(reader: &mut Reader, rank: (&Variable, Option<u32>), size: (&Variable, Option<u32>)) {
    if let (Some(value), Some(limit)) = (rank.1, size.1)
        && value >= limit
    {
        let message = format!("is {value}, but {} is {limit}", size.0.name);
        reader.mistake(rank.0, message, "ranks count from 0 and stay below the number of ranks");
    }
}
