//! A cluster written out in the long form, so that a program can hand on what it made of flags and presets.

use std::fmt::{self, Display};

use super::{Cluster, FabricSpec, LinkClass, LinkOverride, Nic, Node, Numa, Switch};

impl Cluster {
    /// The cluster as a file that [`Cluster::parse`] reads back to the same cluster, every default written out.
    ///
    /// ```
    /// use fakegpu_config::Cluster;
    /// let cluster = Cluster::uniform(2, 4);
    /// assert_eq!(Cluster::parse("written.yaml", &cluster.to_yaml())?, cluster);
    /// # Ok::<(), fakegpu_config::Mistakes>(())
    /// ```
    pub fn to_yaml(&self) -> String {
        let head = flow([("name", quoted(&self.name)), ("default_backend", quoted(&self.default_backend))]);
        let mut out = format!("version: 1\ncluster: {head}\nnodes:\n");
        for node in &self.nodes {
            out.push_str(&format!("  - {}\n", self::node(node)));
        }
        out.push_str("fabric:\n");
        for (key, value) in self.fabric_entries() {
            out.push_str(&format!("  {key}: {value}\n"));
        }
        out
    }

    fn fabric_entries(&self) -> [(&'static str, String); 7] {
        let FabricSpec { intra_node, inter_node, algorithm, algorithms, switches, links, pace } =
            &self.fabric;
        let algorithms =
            algorithms.iter().map(|(collective, choice)| (collective.name(), choice.to_string()));
        [
            ("intra_node", link_class(intra_node)),
            ("inter_node", link_class(inter_node)),
            ("algorithm", algorithm.to_string()),
            ("algorithms", flow(algorithms)),
            ("switches", list(switches.iter().map(|switch| self.switch(switch)))),
            ("links", list(links.iter().map(|link| self.link(link)))),
            ("pace", pace.to_string()),
        ]
    }

    fn switch(&self, switch: &Switch) -> String {
        let nodes = list(switch.nodes.iter().map(|node| self.id_of(*node)));
        flow([("id", quoted(&switch.id)), ("kind", switch.kind.to_string()), ("nodes", nodes)])
    }

    fn link(&self, link: &LinkOverride) -> String {
        let ends = [("src", self.id_of(link.src)), ("dst", self.id_of(link.dst))];
        let bandwidth = link.bandwidth_gbps.map(|gbps| ("bandwidth_gbps", gbps.to_string()));
        let latency = link.latency_us.map(|micros| ("latency_us", micros.to_string()));
        flow(ends.into_iter().chain(bandwidth).chain(latency))
    }

    fn id_of(&self, index: fakegpu_units::NodeIndex) -> String {
        quoted(self.nodes.get(index.index()).map_or("", |node| &node.id))
    }
}

fn node(node: &Node) -> String {
    flow([
        ("id", quoted(&node.id)),
        ("host", quoted(&node.host)),
        ("ranks", list(&node.ranks)),
        ("gpus", list(node.gpus.iter().map(|gpu| flow([("profile", quoted(&gpu.profile))])))),
        ("nics", list(node.nics.iter().map(nic))),
        ("numa", list(node.numa.iter().map(numa))),
    ])
}

fn nic(nic: &Nic) -> String {
    let always = [
        ("id", quoted(&nic.id)),
        ("bandwidth_gbps", nic.bandwidth_gbps.to_string()),
        ("latency_us", nic.latency_us.to_string()),
    ];
    let numa = nic.numa.map(|id| ("numa", id.to_string()));
    let rail = nic.rail.map(|rail| ("rail", rail.to_string()));
    flow(always.into_iter().chain(numa).chain(rail))
}

fn numa(domain: &Numa) -> String {
    flow([("id", domain.id.to_string()), ("gpus", list(&domain.gpus))])
}

fn link_class(class: &LinkClass) -> String {
    flow([
        ("type", class.kind.to_string()),
        ("bandwidth_gbps", class.bandwidth_gbps.to_string()),
        ("latency_us", class.latency_us.to_string()),
        ("oversubscription", class.oversubscription.to_string()),
    ])
}

fn flow(entries: impl IntoIterator<Item = (&'static str, String)>) -> String {
    let entries: Vec<String> = entries.into_iter().map(|(key, value)| format!("{key}: {value}")).collect();
    format!("{{{}}}", entries.join(", "))
}

fn list<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    format!("[{}]", items.join(", "))
}

/// Text that YAML reads as text: plain if it is a harmless word, else in double quotes.
fn quoted(text: &str) -> String {
    let mut bytes = text.bytes();
    let harmless = bytes.next().is_some_and(|b| b.is_ascii_alphabetic())
        && bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        && !RESERVED.contains(&text.to_ascii_lowercase().as_str());
    if harmless { text.to_owned() } else { DoubleQuoted(text).to_string() }
}

/// Words that some YAML version takes for a truth value, nothing or a number.
const RESERVED: &[&str] = &["true", "false", "null", "yes", "no", "on", "off", "y", "n", "inf", "nan"];

struct DoubleQuoted<'a>(&'a str);

impl Display for DoubleQuoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                // Control characters, and those that YAML takes for line breaks or refuses in a file.
                c if c.is_control()
                    || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}') =>
                {
                    write!(f, "\\U{:08x}", u32::from(c))?;
                }
                c => write!(f, "{c}")?,
            }
        }
        f.write_str("\"")
    }
}
