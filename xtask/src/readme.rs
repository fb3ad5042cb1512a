//! The README's generated parts: between `<!-- begin NAME -->` and `<!-- end NAME -->`.

use anyhow::{Context, Result};

use crate::{conformance, matrix, workspace};

/// The text with every generated part as it should be.
pub(crate) fn with_generated_parts(text: &str) -> Result<String> {
    let parts = [
        ("matrix", matrix::readme_table()?),
        ("conformance", conformance::summary()?),
        ("environment", fakegpu_config::env::markdown_table()),
        ("crates", crate_table()?),
    ];
    parts.iter().try_fold(text.to_owned(), |text, (name, part)| replace(&text, name, part))
}

fn replace(text: &str, name: &str, part: &str) -> Result<String> {
    let (begin, end) = (format!("<!-- begin {name} -->\n"), format!("<!-- end {name} -->"));
    let from =
        text.find(&begin).with_context(|| format!("README.md has no `{}`", begin.trim()))? + begin.len();
    let to = text[from..].find(&end).with_context(|| format!("README.md has no `{end}`"))? + from;
    Ok(format!("{}\n{}\n\n{}", &text[..from], part.trim(), &text[to..]))
}

/// The rooms with their first sentences, as their manifests say them.
fn crate_table() -> Result<String> {
    let mut rows = String::from("| crate | what it is |\n|---|---|\n");
    let mut packages = workspace::packages()?;
    packages.sort_by_key(|package| (crate::tidy::layer(&package.name), package.name.clone()));
    for package in
        packages.iter().filter(|package| package.folder().starts_with(workspace::root().join("crates")))
    {
        let folder = package.folder().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let manifest = std::fs::read_to_string(&package.manifest_path)?;
        let described =
            manifest.lines().find_map(|line| line.strip_prefix("description = \"")?.strip_suffix('"'));
        rows.push_str(&format!("| [{folder}](crates/{folder}) | {} |\n", described.unwrap_or("")));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_replaced_and_the_rest_is_left() {
        let text = "a\n<!-- begin x -->\nold\n<!-- end x -->\nb\n";
        let once = replace(text, "x", "new").unwrap();
        assert_eq!(once, "a\n<!-- begin x -->\n\nnew\n\n<!-- end x -->\nb\n");
        assert_eq!(replace(&once, "x", "new").unwrap(), once);
        assert!(replace(text, "y", "new").is_err());
    }
}
