//! Standard output. A reader that went away (`reprise show | head`) is no error.

use std::fmt::Display;
use std::io::{Write, stdout};

/// One line of text.
pub fn text(line: impl Display) {
    if writeln!(stdout(), "{line}").is_err() {
        std::process::exit(0);
    }
}

/// One JSON document on one line.
pub fn json(value: &serde_json::Value) {
    text(value);
}

/// 1234567 as 1,234,567.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (idx, digit) in digits.chars().enumerate() {
        if idx > 0 && (digits.len() - idx).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Columns as wide as their widest cell; the first `n_left` columns flush left, the rest right.
pub fn table(rows: &[Vec<String>], n_left: usize) {
    let n_columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..n_columns).map(width).collect();
    for row in rows {
        let cells = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(idx, (cell, width))| {
                if idx < n_left {
                    format!("{cell:<width$}")
                } else {
                    format!("{cell:>width$}")
                }
            });
        text(cells.collect::<Vec<_>>().join("  ").trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn digits_are_grouped_by_three() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1000), "1,000");
        assert_eq!(grouped(1_234_567), "1,234,567");
    }
}
