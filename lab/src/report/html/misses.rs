//! The reads that a launch had to wait for, as a table.

use maud::{Markup, html};

use super::super::table::Table;
use super::tables;
use crate::timeline::Miss;

/// Misses in the table; the longest waits are kept.
const LISTED: usize = 200;

/// The misses of a launch behind a line that opens them; nothing where there are none.
pub fn table(misses: &[Miss]) -> Markup {
    let note = match misses.len().checked_sub(LISTED) {
        Some(more) if more > 0 => {
            format!("The {LISTED} longest waits; {more} shorter ones are left out.")
        }
        _ => String::new(),
    };
    let head = ["what", "why", "at ms", "waited ms", "first page", "pages"];
    let mut table = Table::new("Misses", &note, head);
    for miss in longest(misses, LISTED) {
        table.push([
            miss.what.clone(),
            miss.why.description().to_owned(),
            format!("{:.1}", miss.time_us as f64 / 1e3),
            format!("{:.2}", miss.wait_us as f64 / 1e3),
            miss.offset.to_string(),
            miss.pages.to_string(),
        ]);
    }
    html! { @if !table.rows.is_empty() { (tables::folded(&table)) } }
}

/// The `most` longest waits, in order of time.
pub fn longest(misses: &[Miss], most: usize) -> Vec<&Miss> {
    let mut kept: Vec<&Miss> = misses.iter().collect();
    kept.sort_by_key(|miss| std::cmp::Reverse(miss.wait_us));
    kept.truncate(most);
    kept.sort_by_key(|miss| miss.time_us);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::Why;

    #[test]
    fn the_longest_waits_are_kept_in_order_of_time() {
        let miss = |time_us, wait_us| Miss {
            time_us,
            wait_us,
            what: "/lib/a".to_owned(),
            offset: 0,
            pages: 1,
            why: Why::CameTooLate,
        };
        let all = [miss(1, 5), miss(2, 1), miss(3, 9)];
        let kept: Vec<u64> = longest(&all, 2).iter().map(|miss| miss.time_us).collect();
        assert_eq!(kept, [1, 3]);
    }
}
