//! The report as Markdown.

use std::fmt::Write;

use super::sections::{Section, of_device};
use super::summary::Device;
use crate::scenarios;
use crate::tables::escaped as escape;

/// The whole report; `notes` are remarks on the file that it was made from.
pub fn page(devices: &[Device], notes: &[String]) -> String {
    let mut page = String::from("# Launch times\n\n");
    for note in notes {
        paragraph(&mut page, note);
    }
    if devices.is_empty() {
        paragraph(&mut page, "Nothing has been measured yet.");
    }
    for device in devices {
        let _ = writeln!(page, "## {}\n", escape(&device.name));
        for part in of_device(device) {
            section(&mut page, &part);
        }
    }
    legend(&mut page, devices);
    page
}

fn section(page: &mut String, section: &Section) {
    let _ = writeln!(page, "### {}\n", escape(&section.title));
    for text in &section.text {
        paragraph(page, text);
    }
    for table in &section.tables {
        if section.tables.len() > 1 {
            let _ = writeln!(
                page,
                "**{}.** {}\n",
                escape(&table.title),
                escape(&table.note)
            );
        } else if !table.note.is_empty() {
            paragraph(page, &table.note);
        }
        let _ = writeln!(page, "{}", table.to_markdown());
    }
}

fn legend(page: &mut String, devices: &[Device]) {
    let mut names: Vec<&str> = devices
        .iter()
        .flat_map(|device| &device.scenarios)
        .map(|name| scenarios::unnumbered(name))
        .collect();
    names.sort_by_key(|name| scenarios::rank(name));
    names.dedup();
    if names.is_empty() {
        return;
    }
    page.push_str("## Scenarios\n\n");
    for name in names {
        let (label, text) = (escape(scenarios::label(name)), scenarios::description(name));
        let _ = writeln!(page, "- **{label}** ({}): {}", escape(name), escape(text));
    }
}

fn paragraph(page: &mut String, text: &str) {
    let _ = writeln!(page, "{}\n", escape(text));
}
