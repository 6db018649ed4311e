//! Tables for people.

use comfy_table::{CellAlignment, Table, presets};
use std::ops::Range;

/// A table in a frame. Bars stand between its heads; the columns in `figures` are numbers.
pub fn framed(
    heads: &str,
    rows: impl IntoIterator<Item = Vec<String>>,
    figures: Range<usize>,
) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header(heads.split('|'));
    table.add_rows(rows);
    // Two spaces between columns, where the usual padding makes three: more fits into 80.
    let last = table.column_count().saturating_sub(1);
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((1, u16::from(at == last)));
    }
    for column in table
        .column_iter_mut()
        .take(figures.end)
        .skip(figures.start)
    {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
