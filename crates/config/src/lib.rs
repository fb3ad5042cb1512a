//! What the user wrote, and what it means: environment variables, the cluster file, the GPU profiles they name.
//!
//! Nothing here reads an environment, opens a file or looks at a clock: callers hand in strings and get back
//! either a value or every mistake at once, so that the same words come from the library inside a user's program,
//! from the daemon and from `fakegpu check`.
//!
//! Read [`Settings`] first (what the variables of the table [`env::VARIABLES`] say), then [`Cluster`] (what a cluster
//! file describes), then [`Mistakes`] (what a person is told when it does not), then [`conf`] and [`nccl`] (NCCL's own
//! configuration files and parameters).
//!
//! ```
//! use fakegpu_config::{Cluster, DistMode, Settings};
//!
//! let vars = [("FAKEGPU_COORDINATOR_ADDR".to_owned(), "/tmp/fakegpu.sock".to_owned())];
//! let settings = Settings::from_vars(vars)?;
//! assert_eq!(settings.dist_mode, Some(DistMode::Simulate));
//!
//! let cluster = Cluster::parse("two.yaml", "version: 1\npreset: {name: dgx-h100, nodes: 2}\n")?;
//! assert_eq!(cluster.world_size(), 16);
//!
//! let wrong = Cluster::parse("typo.yaml", "version: 1\npreset: dgx-h10\n").unwrap_err();
//! assert!(wrong.to_string().contains("did you mean `dgx-h100`?"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Sources: the names of launcher variables follow torchrun, Open MPI, PMI and Slurm; bandwidths, memory sizes and
//! compute capabilities follow NVIDIA's data sheets and the CUDA C++ Programming Guide.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod cluster;
pub mod conf;
pub mod env;
pub mod nccl;
pub mod profiles;

mod nearest;
mod words;

pub use cluster::{Cluster, Mistake, Mistakes};
pub use env::{Address, ComputeMode, DistMode, EnvMistakes, Settings, Token};
pub use profiles::Profile;
