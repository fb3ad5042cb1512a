//! The variables that hold for a process: its environment, and for what that leaves open NCCL's configuration
//! files, the user's before the system's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fakegpu_config::conf;

/// The system's configuration file.
const SYSTEM_FILE: &str = "/etc/nccl.conf";

/// Variables that name files NCCL would read; one that is not there is worth a word.
const FILES: [&str; 2] = ["NCCL_TOPO_FILE", "NCCL_GRAPH_FILE"];

/// A configuration file larger than this is none.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Variables and where they came from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment {
    vars: BTreeMap<String, String>,
    /// What is odd about them, for the log.
    remarks: Vec<String>,
}

impl Environment {
    /// These variables, and for what they leave open the configuration files they lead to.
    pub(crate) fn read(vars: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut environment = Self { vars: vars.into_iter().collect(), remarks: Vec::new() };
        let user = match environment.get("NCCL_CONF_FILE") {
            Some(file) => Some(PathBuf::from(file)),
            None => environment.get("HOME").map(|home| Path::new(home).join(".nccl.conf")),
        };
        for file in user.as_deref().into_iter().chain([Path::new(SYSTEM_FILE)]) {
            environment.add(file);
        }
        environment
    }

    /// Adds what a file says about variables that nothing has set so far.
    fn add(&mut self, file: &Path) {
        let is_small =
            std::fs::metadata(file).is_ok_and(|about| about.is_file() && about.len() <= FILE_BYTES_MAX);
        let Some(text) = is_small.then(|| std::fs::read_to_string(file).ok()).flatten() else { return };
        for conf::Setting { name, value, line } in conf::parse(&text) {
            if self.vars.contains_key(&name) {
                continue;
            }
            if FILES.contains(&name.as_str()) && !Path::new(&value).exists() {
                self.remarks.push(format!(
                    "{name} is `{value}` by line {line} of {}, and there is no such file: correct the line, or set {name} in the \
                     environment, which overrides it",
                    file.display()
                ));
            }
            self.vars.insert(name, value);
        }
    }

    /// A variable that is set to something.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.vars.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Whether a variable is 1 or another number that is not 0.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.get(name).and_then(|value| value.trim().parse::<i64>().ok()).is_some_and(|number| number != 0)
    }

    /// All variables.
    pub(crate) fn all(&self) -> impl Iterator<Item = (String, String)> + '_ {
        self.vars.iter().map(|(name, value)| (name.clone(), value.clone()))
    }

    /// What is odd about them.
    pub(crate) fn remarks(&self) -> &[String] {
        &self.remarks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_file(text: &str, vars: &[(&str, &str)]) -> (Environment, String) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let path = file.path().to_str().unwrap().to_owned();
        let own = [("NCCL_CONF_FILE", path.as_str())];
        let vars = vars.iter().chain(&own);
        (Environment::read(vars.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))), path)
    }

    #[test]
    fn the_environment_comes_before_a_file() {
        let (environment, _) = with_file("NCCL_DEBUG=INFO\nNCCL_ALGO=Tree\n", &[("NCCL_DEBUG", "WARN")]);
        assert_eq!(environment.get("NCCL_DEBUG"), Some("WARN"));
        assert_eq!(environment.get("NCCL_ALGO"), Some("Tree"));
    }

    #[test]
    fn the_users_file_is_in_the_home_folder() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join(".nccl.conf"), "NCCL_ALGO=Ring").unwrap();
        let home = home.path().to_str().unwrap().to_owned();
        let environment = Environment::read([("HOME".to_owned(), home)]);
        assert_eq!(environment.get("NCCL_ALGO"), Some("Ring"));
    }

    #[test]
    fn a_missing_topology_is_told_with_variable_file_and_line() {
        let (environment, path) = with_file("\nNCCL_GRAPH_FILE=/nowhere/graph.xml\n", &[]);
        let remark = &environment.remarks()[0];
        for word in ["NCCL_GRAPH_FILE", "/nowhere/graph.xml", "line 2", &path] {
            assert!(remark.contains(word), "{remark}");
        }
        let (environment, _) = with_file("NCCL_GRAPH_FILE=/nowhere", &[("NCCL_GRAPH_FILE", "/other")]);
        assert!(environment.remarks().is_empty());
    }
}
