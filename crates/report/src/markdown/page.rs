//! Markdown, written piece by piece, with a blank line wherever one is due.

use super::ROWS_MAX;

/// A page in the making.
pub(super) struct Page {
    text: String,
    /// Whether the last piece was an item of a list, which the next item follows at once.
    in_list: bool,
}

/// On which side of its column a cell stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
}

impl Page {
    pub(super) fn new(title: &str) -> Self {
        Self { text: format!("# {title}\n"), in_list: false }
    }

    pub(super) fn section(&mut self, title: &str) {
        self.block(&format!("## {title}"));
    }

    pub(super) fn paragraph(&mut self, text: &str) {
        self.block(&one_line(text));
    }

    pub(super) fn item(&mut self, text: &str) {
        if !self.in_list {
            self.text.push('\n');
        }
        self.text.push_str("- ");
        self.text.push_str(&one_line(text));
        self.text.push('\n');
        self.in_list = true;
    }

    /// A table whose cells line up as plain text, too. Rows beyond [`ROWS_MAX`] are counted below it.
    pub(super) fn table(&mut self, columns: &[(&str, Align)], rows: &[Vec<String>]) {
        let head: Vec<String> = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
        let rows: Vec<Vec<String>> =
            rows.iter().map(|row| row.iter().map(|cell| escaped(cell)).collect()).collect();
        let shown = &rows[..rows.len().min(ROWS_MAX)];
        let widths: Vec<usize> = (0..columns.len())
            .map(|at| {
                std::iter::once(&head).chain(shown).map(|row| width(&row[at])).max().unwrap_or(0).max(3)
            })
            .collect();
        let rule: Vec<String> =
            columns.iter().zip(&widths).map(|((_, align), width)| ruler(*align, *width)).collect();
        let mut lines = vec![line(&head, columns, &widths), line(&rule, columns, &widths)];
        lines.extend(shown.iter().map(|row| line(row, columns, &widths)));
        self.block(&lines.join("\n"));
        if let Some(more @ 1..) = rows.len().checked_sub(ROWS_MAX) {
            self.block(&format!("… and {more} more in the JSON."));
        }
    }

    /// Lines that stand as they are.
    pub(super) fn literal(&mut self, lines: &[String]) {
        self.block(&format!("```text\n{}\n```", lines.join("\n").replace("```", "'''")));
    }

    pub(super) fn finish(self) -> String {
        self.text
    }

    fn block(&mut self, text: &str) {
        self.text.push('\n');
        self.text.push_str(text);
        self.text.push('\n');
        self.in_list = false;
    }
}

fn line(row: &[String], columns: &[(&str, Align)], widths: &[usize]) -> String {
    let cells: Vec<String> = row
        .iter()
        .zip(columns)
        .zip(widths)
        .map(|((cell, (_, align)), width)| match align {
            Align::Left => format!("{cell:<width$}"),
            Align::Right => format!("{cell:>width$}"),
        })
        .collect();
    format!("| {} |", cells.join(" | "))
}

fn ruler(align: Align, width: usize) -> String {
    match align {
        Align::Left => "-".repeat(width),
        Align::Right => format!("{}:", "-".repeat(width - 1)),
    }
}

fn width(cell: &str) -> usize {
    cell.chars().count()
}

/// Text of a program's or person's making must not end a cell or begin a row.
fn escaped(cell: &str) -> String {
    one_line(cell).replace('|', "\\|")
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_cannot_break_out_of_its_table() {
        let mut page = Page::new("t");
        page.table(
            &[("name", Align::Left), ("n", Align::Right)],
            &[vec!["a|b\n| c".to_owned(), "1".to_owned()]],
        );
        insta::assert_snapshot!(page.finish(), @r"
        # t

        | name      |   n |
        | --------- | --: |
        | a\|b \| c |   1 |
        ");
    }

    #[test]
    fn long_tables_are_cut_and_say_so() {
        let mut page = Page::new("t");
        let rows: Vec<_> = (0..ROWS_MAX + 3).map(|row| vec![row.to_string()]).collect();
        page.table(&[("row", Align::Right)], &rows);
        assert!(page.finish().ends_with("|  63 |\n\n… and 3 more in the JSON.\n"));
    }

    #[test]
    fn items_form_one_list() {
        let mut page = Page::new("t");
        page.item("a");
        page.item("b");
        page.paragraph("c");
        assert_eq!(page.finish(), "# t\n\n- a\n- b\n\nc\n");
    }
}
