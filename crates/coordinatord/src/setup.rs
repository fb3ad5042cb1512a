//! What a daemon is started with, beyond its address.

use std::path::PathBuf;
use std::time::Duration;

use fakegpu_config::Cluster;

/// The settings of a daemon.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The secret peers must show.
    pub token: Option<String>,
    /// The cluster to simulate, and where its description came from; `None` lets it grow as ranks join.
    pub cluster: Option<(String, Cluster)>,
    /// Where the JSON report goes; `None` writes none.
    pub report_json: Option<PathBuf>,
    /// Where the Markdown report goes.
    pub report_markdown: Option<PathBuf>,
    /// Operations the report's timeline keeps.
    pub timeline_max: usize,
    /// Where events go, one JSON object a line.
    pub event_log: Option<PathBuf>,
    /// End after this long without a session.
    pub linger: Option<Duration>,
    /// How long ranks may wait for the rest of their communicator, where their own environment does not say.
    pub join_timeout: Option<Duration>,
    /// How long a call may wait for other ranks, where their own environment does not say.
    pub collective_timeout: Option<Duration>,
    /// Whether the relay must do without io_uring.
    pub no_uring: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            token: None,
            cluster: None,
            report_json: None,
            report_markdown: None,
            timeline_max: 4096,
            event_log: None,
            linger: None,
            join_timeout: None,
            collective_timeout: None,
            no_uring: false,
        }
    }
}
