//! What a report shows, apart from how: sections with text and tables.

mod checks;
mod company;
mod effort;
mod figures;
mod launches;
mod learned;
mod lessons;
mod misses;
mod one_core;
#[cfg(test)]
mod samples;
mod section;
mod service;
mod stretches;
mod sweeps;
mod together;
mod wrong;

use super::summary::Device;
pub use section::{AVERAGE, Section};
use section::{average, head, mean_of_all, present};

/// The sections of a drive, those of experiments that were not made left out.
pub fn of_device(device: &Device) -> Vec<Section> {
    let launches = [
        Some(checks::conditions(device)),
        launches::normalized(device),
        figures::increments(device),
        figures::fast(device),
        figures::averages(device),
    ];
    let conditions = [
        company::background(device),
        company::live(device),
        company::writer(device),
        wrong::wrong(device),
        one_core::one_core(device),
        together::together(device),
        checks::tiny(device),
        launches::seconds(device),
        checks::requests(device),
        effort::effort(device),
        misses::misses(device),
        learned::learned(device),
        checks::ends(device),
        checks::disturbed(device),
        stretches::stretches(device),
    ];
    let rounds = service::rounds(device)
        .into_iter()
        .chain(sweeps::sweeps(device))
        .chain(lessons::lessons(device));
    let launches = launches.into_iter().flatten().chain(rounds);
    launches.chain(conditions.into_iter().flatten()).collect()
}
