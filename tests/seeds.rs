//! Whatever is fuzzed, with the seeds of fuzzing and with damaged ones: bytes are missing at their end, or changed.
//!
//! That is no fuzzing (`make fuzz`), but it is done at each change, and with the code as users run it.

#[path = "../fuzz/targets/mod.rs"]
mod targets;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use targets::TARGETS;

/// Damaged forms of each seed, by either way.
const DAMAGED: usize = 24;

/// The seed as it is, without its last bytes, and with single bytes changed. The same ones at each run.
fn forms(seed: &[u8]) -> Vec<Vec<u8>> {
    let mut forms = vec![seed.to_vec()];
    forms.extend((0..DAMAGED).map(|part| seed[..seed.len() * part / DAMAGED].to_vec()));
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15 ^ seed.len() as u64;
    for _ in 0..DAMAGED * usize::from(!seed.is_empty()) {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let mut changed = seed.to_vec();
        changed[(state >> 16) as usize % seed.len()] = (state >> 56) as u8;
        forms.push(changed);
    }
    forms
}

#[test]
fn seeds_of_fuzzing_and_damaged_ones_are_taken_or_refused() {
    let seeds = Path::new(common::TREE).join("fuzz/seeds");
    for (name, check) in TARGETS {
        let files =
            fs::read_dir(seeds.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        assert!(!files.is_empty(), "{name} has no seeds");
        for file in files {
            for form in forms(&fs::read(&file).unwrap()) {
                let checked = catch_unwind(AssertUnwindSafe(|| check(&form)));
                assert!(checked.is_ok(), "{name}, {file:?}: {form:?}");
            }
        }
    }
    let known = TARGETS.map(|(name, _)| name);
    for directory in fs::read_dir(seeds).unwrap() {
        let name = directory.unwrap().file_name();
        assert!(
            known.iter().any(|known| name == *known),
            "{name:?}: no such target"
        );
    }
}
