//! Fuzzes the target that PARALFETCH_FUZZ_TARGET names; scripts/fuzz.sh runs it for each.
#![no_main]

mod targets;

use std::sync::LazyLock;

static TARGET: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = std::env::var("PARALFETCH_FUZZ_TARGET").expect("the target is named");
    let mut targets = targets::TARGETS.into_iter();
    let found = targets.find(|(known, _)| *known == name);
    found.expect("there is such a target").1
});

libfuzzer_sys::fuzz_target!(|input: &[u8]| TARGET(input));
