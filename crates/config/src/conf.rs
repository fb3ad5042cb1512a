//! NCCL's configuration files: lines of `NAME=VALUE`, read where the environment does not say it.

/// One setting of a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The variable.
    pub name: String,
    /// Its value, trimmed.
    pub value: String,
    /// The line it stands on, from 1.
    pub line: usize,
}

/// The settings of a file, in order. What is no setting of NCCL's or ours is passed over, as NCCL does: such a file
/// is shared by libraries.
///
/// ```
/// let settings = fakegpu_config::conf::parse("# a comment\nNCCL_DEBUG = INFO\nPATH=/bin\n");
/// assert_eq!(settings.len(), 1);
/// assert_eq!((settings[0].name.as_str(), settings[0].value.as_str(), settings[0].line), ("NCCL_DEBUG", "INFO", 2));
/// ```
pub fn parse(text: &str) -> Vec<Setting> {
    let setting = |(line, text): (usize, &str)| {
        let (name, value) = text.trim().split_once('=')?;
        let (name, value) = (name.trim(), value.trim());
        let is_ours = name.starts_with("NCCL_") || name.starts_with("FAKEGPU_");
        let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        (is_ours && is_name).then(|| Setting { name: name.to_owned(), value: value.to_owned(), line })
    };
    (1..)
        .zip(text.lines())
        .filter(|(_, line)| !line.trim_start().starts_with('#'))
        .filter_map(setting)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_settings_of_nccl_and_ours_are_read() {
        let text = "\n  NCCL_GRAPH_FILE=/etc/a b.xml  \n#NCCL_DEBUG=INFO\nLD_PRELOAD=x\nNCCL_BAD NAME=1\nNCCL_X\nFAKEGPU_LOG=info";
        let read: Vec<_> =
            parse(text).into_iter().map(|setting| (setting.name, setting.value, setting.line)).collect();
        assert_eq!(
            read,
            [
                ("NCCL_GRAPH_FILE".to_owned(), "/etc/a b.xml".to_owned(), 2),
                ("FAKEGPU_LOG".to_owned(), "info".to_owned(), 7)
            ]
        );
    }
}
