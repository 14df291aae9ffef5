//! What people look at: tables and comparisons.
//!
//! [`mod@load`] reads records, [`summary`] groups them and computes, [`sections`] says what is shown,
//! and [`markdown`] shows it. [`mod@compare`] tells two sets of results apart.

pub mod app;
pub mod compare;
pub mod load;
pub mod markdown;
pub mod sections;
pub mod summary;

#[cfg(test)]
mod synthetic;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::writes::tables;

pub use compare::compare;
pub use load::{Results, load};

/// Writes `report.md` into `dir`, from `results.jsonl` there; of benchmarks beside a writer, `writes.md`.
///
/// # Errors
/// There is no `results.jsonl`, a line of it is no record, or the reports cannot be written.
pub fn write(dir: &Path) -> Result<()> {
    let results = load(dir)?;
    if !results.written.is_empty() {
        store(&dir.join("writes.md"), &tables::pages(&results.written))?;
        if results.launches.is_empty() {
            return Ok(());
        }
    }
    let page = markdown::page(&summary::devices(&results), &results.notes);
    store(&dir.join("report.md"), &page)
}

// By rename: a reader, or an interruption, never meets half a page.
fn store(path: &Path, text: &str) -> Result<()> {
    let unfinished = path.with_extension("unfinished");
    fs::write(&unfinished, text)
        .with_context(|| format!("cannot write {}", unfinished.display()))?;
    fs::rename(&unfinished, path).with_context(|| format!("cannot write {}", path.display()))
}
