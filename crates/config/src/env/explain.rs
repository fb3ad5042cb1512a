//! What the settings come to, for people.

use super::{Settings, Timeouts};

/// Lines of a name and what there is to say about it.
struct Lines(String);

impl Lines {
    fn say(&mut self, name: &str, value: impl std::fmt::Display) {
        self.0.push_str(&format!("{name:<19} {value}\n"));
    }
}

impl Settings {
    /// What the settings come to, one `name  value` line each, as `fakegpu check --env` prints it. The token is
    /// said to be set, never shown.
    ///
    /// ```
    /// let settings = fakegpu_config::Settings::from_vars([])?;
    /// assert!(settings.explain().starts_with("compute mode        simulate\n"));
    /// # Ok::<(), fakegpu_config::EnvMistakes>(())
    /// ```
    pub fn explain(&self) -> String {
        let mut lines = Lines(String::new());
        lines.say("compute mode", self.mode);
        lines.say("communication mode", self.explain_dist_mode());
        match &self.coordinator {
            Some(address) => {
                lines.say("transport", address.transport());
                lines.say("address", address);
            }
            None => lines.say("address", if self.is_embedded() { "chosen by the session" } else { "none" }),
        }
        lines.say("token", if self.token.is_some() { "set, not shown" } else { "none" });
        lines.say("cluster", self.explain_cluster());
        lines.say("join timeout", Timeouts::explain(self.timeouts.join_ms));
        lines.say("collective timeout", Timeouts::explain(self.timeouts.collective_ms));
        lines.say("placement", self.explain_placement());
        lines.say("node", self.node.as_deref().unwrap_or("by rank"));
        lines.say("faults", self.faults.as_deref().unwrap_or("none"));
        lines.say("staging", self.explain_staging());
        lines.say("report", format_args!("{}, {}", self.report.json, self.report.markdown));
        lines.say("log", format_args!("{}{}", self.log, if self.strict { ", strict" } else { "" }));
        lines.0
    }

    fn explain_dist_mode(&self) -> String {
        match self.dist_mode {
            None => "simulate, with an embedded coordinator".to_owned(),
            Some(mode) if self.dist_mode_written => mode.to_string(),
            Some(mode) => format!("{mode}, implied by FAKEGPU_COORDINATOR_ADDR"),
        }
    }

    fn explain_cluster(&self) -> String {
        match (&self.cluster_config, &self.preset) {
            (Some(path), _) => path.clone(),
            (None, Some(preset)) => format!("preset {preset}"),
            (None, None) => "one node as large as the job".to_owned(),
        }
    }

    fn explain_placement(&self) -> String {
        self.placement.map_or_else(
            || "by order of joining".to_owned(),
            |place| format!("rank {} of {}, from {}", place.global_rank, place.world_size, place.source),
        )
    }

    fn explain_staging(&self) -> &'static str {
        match (self.staging.force_socket, self.staging.no_uring) {
            (false, false) => "shared memory, else io_uring, else sockets",
            (false, true) => "shared memory, else sockets",
            (true, false) => "io_uring, else sockets",
            (true, true) => "sockets",
        }
    }
}

impl Timeouts {
    fn explain(millis: Option<u64>) -> String {
        millis.map_or_else(
            || "60 s for a rank that cannot come, 9 min for one that may".to_owned(),
            |millis| format!("{millis} ms"),
        )
    }
}
