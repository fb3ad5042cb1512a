//! The report as Markdown.
use crate::model::Report;
impl Report {
    /// The report for people, as Markdown.
    pub fn to_markdown(&self) -> String { String::new() }
}
