//! Tables as HTML.

use maud::{Markup, html};

use super::super::table::Table;

/// A table behind a line that opens it.
pub fn folded(table: &Table) -> Markup {
    html! { details { summary { (table.title) } (body(table)) } }
}

/// A table that is always there.
pub fn shown(table: &Table) -> Markup {
    body(table)
}

fn body(table: &Table) -> Markup {
    let class = |column| (!numeric(table, column)).then_some("words");
    html! {
        @if !table.note.is_empty() { p.note { (table.note) } }
        div.scroll tabindex="0" role="group" aria-label=(table.title) {
            table {
                thead { tr { @for (column, head) in table.head.iter().enumerate() { th scope="col" class=[class(column)] { (head) } } } }
                tbody {
                    @for row in &table.rows {
                        tr {
                            @for (column, cell) in row.iter().enumerate() {
                                @if column == 0 { th scope="row" { (cell) } } @else { td class=[class(column)] { (cell) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Whether a column holds numbers, which are aligned to the right.
fn numeric(table: &Table, column: usize) -> bool {
    let starts =
        |cell: &String| cell.starts_with(|c: char| c.is_ascii_digit() || "+-−–".contains(c));
    table
        .rows
        .iter()
        .filter_map(|row| row.get(column))
        .all(starts)
        && !table
            .rows
            .iter()
            .filter_map(|row| row.get(column))
            .any(|cell| cell.len() > 60)
}
