//! Clusters by name: cluster files like any other, shipped inside.

use super::{Cluster, read};

/// One built-in cluster.
struct Preset {
    name: &'static str,
    text: &'static str,
}

const DGX_H100: Preset = Preset { name: "dgx-h100", text: include_str!("../../presets/dgx-h100.yaml") };
const DGX_A100: Preset = Preset { name: "dgx-a100", text: include_str!("../../presets/dgx-a100.yaml") };
const ETHERNET_25G: Preset =
    Preset { name: "ethernet-25g", text: include_str!("../../presets/ethernet-25g.yaml") };

const ALL: [Preset; 3] = [DGX_H100, DGX_A100, ETHERNET_25G];

/// The names, for error texts and the table of variables.
pub(crate) const NAMES: &[&str] = &[DGX_H100.name, DGX_A100.name, ETHERNET_25G.name];

/// The cluster that all others grow from.
pub(super) fn dgx_h100() -> Cluster {
    read::cluster(DGX_H100.name, DGX_H100.text).expect("the preset is a valid cluster file")
}

impl Cluster {
    /// The built-in cluster named so, or `None`; [`Cluster::presets`] has the names.
    ///
    /// ```
    /// let cluster = fakegpu_config::Cluster::preset("dgx-a100").expect("a preset");
    /// assert_eq!(cluster.resized(4, 8)?.world_size(), 32);
    /// # Ok::<(), fakegpu_config::cluster::ShapeError>(())
    /// ```
    pub fn preset(name: &str) -> Option<Self> {
        let preset = ALL.into_iter().find(|preset| preset.name == name)?;
        read::cluster(preset.name, preset.text).ok()
    }

    /// The names that [`Cluster::preset`] knows.
    pub const fn presets() -> &'static [&'static str] {
        NAMES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{AlgorithmChoice, Pace};

    #[test]
    fn every_preset_is_a_valid_cluster_file() {
        for (name, preset) in NAMES.iter().zip(ALL) {
            assert_eq!(*name, preset.name);
            let cluster = read::cluster(preset.name, preset.text).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(cluster.name, preset.name);
            let fabric = &cluster.fabric;
            // A file's `fabric` inherits the link classes alone.
            assert!(fabric.algorithms.is_empty() && fabric.switches.is_empty() && fabric.links.is_empty());
            assert_eq!((fabric.algorithm, fabric.pace), (AlgorithmChoice::Auto, Pace::Off));
            assert_eq!(Cluster::preset(name), Some(cluster));
        }
        assert_eq!(Cluster::preset("dgx"), None);
    }
}
