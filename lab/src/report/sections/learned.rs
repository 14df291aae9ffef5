//! What learning runs found, and how well.

use super::super::summary::Device;
use super::{Section, service};
use crate::tables::Table;
use crate::tables::format::{mebibytes, or_nothing, seconds};

/// What learning runs found.
pub fn learned(device: &Device) -> Option<Section> {
    let head = [
        "app",
        "how",
        "log entries",
        "entries",
        "metadata MiB",
        "data MiB",
        "files",
        "s",
    ];
    let mut table = Table::new("Learned sets", "Entries are those after scheduling.", head);
    for learned in &device.learned {
        table.push([
            learned.app.clone(),
            learned.how.clone(),
            learned.log_entries.to_string(),
            learned.entries.to_string(),
            mebibytes(learned.metadata_bytes),
            mebibytes(learned.data_bytes),
            learned.files.to_string(),
            seconds(learned.seconds),
        ]);
    }
    let tuned = service::tuned(&device.learned);
    let tables = vec![table, tuned, table_1(device), accuracy(device)];
    Section::of("Learned sets", Vec::new(), tables)
}

/// The paper's Table 1.
fn table_1(device: &Device) -> Table {
    let head = [
        "app",
        "how",
        "metadata requests (KiB)",
        "data requests (KiB)",
        "missing metadata found",
        "files",
        "mapped files",
    ];
    let note = "What launches require, in the columns of the paper's Table 1. Missing metadata, in 4 KiB \
                blocks, are those that data depend on and those that look-ups of paths need.";
    let mut table = Table::new("Table 1", note, head);
    for learned in &device.learned {
        let Some(required) = learned.required else {
            continue;
        };
        table.push([
            learned.app.clone(),
            learned.how.clone(),
            format!("{} ({})", required.metadata_requests, required.metadata_kib),
            format!("{} ({})", required.data_requests, required.data_kib),
            required.missing_metadata.to_string(),
            required.files.to_string(),
            or_nothing(required.mapped_files.map(|files| files.to_string())),
        ]);
    }
    table
}

/// What each learning run has of what the exact one has.
fn accuracy(device: &Device) -> Table {
    let head = [
        "app",
        "how",
        "data: recall",
        "excess",
        "metadata: recall",
        "excess",
    ];
    let note = "Against the set that was learned exactly from a cold cache on an idle system: how much is \
                there of what that launch used until its window came, and what is there beside all that \
                it used, in 4 KiB pages.";
    let mut table = Table::new("Accuracy", note, head);
    for learned in &device.learned {
        let Some(accuracy) = learned.against_exact else {
            continue;
        };
        table.push([
            learned.app.clone(),
            learned.how.clone(),
            hundredths(accuracy.data.recall()),
            hundredths(accuracy.data.excess_ratio()),
            hundredths(accuracy.metadata.recall()),
            hundredths(accuracy.metadata.excess_ratio()),
        ]);
    }
    table
}

/// A share in hundredths of a per cent.
fn hundredths(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}
