//! Tables, apart from how they are shown.

use super::escape::markdown as escape;

/// A table with a title, a remark, and cells of text; the first column names the row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Caption of the table.
    pub title: String,
    /// How to read it; may be empty.
    pub note: String,
    /// Heads of columns.
    pub head: Vec<String>,
    /// Rows, each as long as the head.
    pub rows: Vec<Vec<String>>,
}

/// What a cell says where nothing was measured.
pub const NOTHING: &str = "–";

impl Table {
    /// An empty table.
    pub fn new<T: Into<String>>(
        title: &str,
        note: &str,
        head: impl IntoIterator<Item = T>,
    ) -> Self {
        let head = head.into_iter().map(Into::into).collect();
        Self {
            title: title.to_owned(),
            note: note.to_owned(),
            head,
            rows: Vec::new(),
        }
    }

    /// Adds a row; missing cells at its end say that nothing was measured.
    pub fn push<T: Into<String>>(&mut self, row: impl IntoIterator<Item = T>) {
        let mut row: Vec<String> = row.into_iter().map(Into::into).collect();
        row.resize(self.head.len().max(row.len()), NOTHING.to_owned());
        self.rows.push(row);
    }

    /// As plain text, columns aligned.
    pub fn to_text(&self) -> String {
        let lines: Vec<&Vec<String>> = std::iter::once(&self.head).chain(&self.rows).collect();
        let width = |column: usize| {
            lines
                .iter()
                .filter_map(|line| line.get(column))
                .map(|cell| cell.chars().count())
                .max()
        };
        let mut text = String::new();
        for line in &lines {
            let cells: Vec<String> = line
                .iter()
                .enumerate()
                .map(|(column, cell)| format!("{cell:<width$}", width = width(column).unwrap_or(0)))
                .collect();
            text.push_str(cells.join("  ").trim_end());
            text.push('\n');
        }
        text
    }

    /// As a Markdown table, numbers to the right, without its title.
    pub fn to_markdown(&self) -> String {
        let line = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|cell| escape(cell)).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let rule = self
            .head
            .iter()
            .enumerate()
            .map(|(column, _)| if column == 0 { ":--" } else { "--:" });
        let rule: Vec<&str> = rule.collect();
        let rows: String = self.rows.iter().map(|row| line(row)).collect();
        format!("{}| {} |\n{rows}", line(&self.head), rule.join(" | "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_as_long_as_the_head() {
        let mut table = Table::new("t", "", ["app", "cold", "warm"]);
        table.push(["gimp"]);
        assert_eq!(table.rows, [["gimp", NOTHING, NOTHING]]);
    }

    #[test]
    fn text_is_aligned() {
        let mut table = Table::new("t", "", ["app", "s"]);
        table.push(["größer", "1"]);
        assert_eq!(table.to_text(), "app     s\ngrößer  1\n");
    }

    #[test]
    fn markdown_cells_cannot_break_out() {
        let mut table = Table::new("t", "", ["app"]);
        table.push(["a|b\n<script>"]);
        assert_eq!(
            table.to_markdown(),
            "| app |\n| :-- |\n| a\\|b &lt;script&gt; |\n"
        );
    }
}
