//! A table of results as text for people: columns as wide as their widest cell.

use std::fmt::Write as _;

/// Rows of cells; the first column stands left, the others right.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Adds a row.
    pub fn row<C: Into<String>>(&mut self, cells: impl IntoIterator<Item = C>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut widths: Vec<usize> = Vec::new();
        for row in &self.rows {
            for (at, cell) in row.iter().enumerate() {
                let wide = cell.chars().count();
                match widths.get_mut(at) {
                    Some(width) => *width = (*width).max(wide),
                    None => widths.push(wide),
                }
            }
        }
        for row in &self.rows {
            let mut line = String::new();
            for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
                if at == 0 {
                    let _ = write!(line, "{cell:<width$}");
                } else {
                    let _ = write!(line, "  {cell:>width$}");
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::default();
        table.row(["p50", "70 µs"]);
        table.row(["operations", "1"]);
        table.row(["short"]);
        assert_eq!(table.to_string(), "p50         70 µs\noperations      1\nshort\n");
    }
}
