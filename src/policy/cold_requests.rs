//! The number of read requests of a cold launch without prefetching, which the 5 % rule (paper §3.3) and the 10 %
//! rule (paper §4.3) go by.
//!
//! The paper's rules count in prefetch entries, which are about the requests of a cold launch there. Here the
//! number of entries says how a schedule was learned and merged: for one app it goes from 900 to 16,000.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::gain::remember;
use crate::model::ranges::RangeSet;
use crate::model::{Place, PrefetchEntry, lower_median};

/// Pages of 4 KiB that the kernel reads around a fault: the usual `read_ahead_kb` of 128.
const READ_AROUND_PAGES: u64 = 32;

/// What cold launches of an app without prefetching have shown: their read requests, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColdRequests(Vec<u64>);

impl ColdRequests {
    /// Takes a cold launch that was not prefetched and made that many read requests.
    pub fn measured(&mut self, requests: u64) {
        remember(&mut self.0, requests);
    }

    /// The median; `None` before the first.
    pub fn typical(&self) -> Option<u64> {
        lower_median(&self.0)
    }
}

/// About the number of read requests that a cold launch makes which needs what is scheduled: the kernel reads
/// around each page of a file that is needed and not cached yet. For apps of which no cold launch is known. Of exact
/// sets it is 0.77 to 0.90 of what cold launches of Writer, VLC and Chromium make, of a set as read 1.15.
pub fn estimate_cold_requests(entries: &[PrefetchEntry]) -> u64 {
    let mut in_order: Vec<&PrefetchEntry> = entries.iter().collect();
    in_order.sort_by_key(|entry| entry.time_us);
    let mut cached: HashMap<Place, RangeSet> = HashMap::new();
    let mut requests = 0;
    for PrefetchEntry { span, .. } in in_order {
        let cached = cached.entry(span.place).or_default();
        if span.place.is_metadata() {
            requests += cached.insert(span.pages()).len() as u64;
            continue;
        }
        let mut page = span.start;
        while let Some(needed) = cached.missing(&(page..span.end())).first().cloned() {
            let start = needed.start.saturating_sub(READ_AROUND_PAGES / 2);
            page = start + READ_AROUND_PAGES;
            cached.insert(start..page);
            requests += 1;
        }
    }
    requests
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::Span;

    fn entry(place: Place, start: u64, len: u64, time_us: u64) -> PrefetchEntry {
        let span = Span { place, start, len };
        PrefetchEntry { span, time_us }
    }

    #[test]
    fn a_request_reads_around_each_page_that_is_not_cached() {
        let (library, metadata) = (Place::Data { file: 0 }, Place::Metadata { device: 0 });
        let data = |start, len, time_us| entry(library, start, len, time_us);
        for (entries, requests) in [
            (vec![], 0),
            (vec![data(100, 1, 0), data(110, 1, 1), data(90, 1, 2)], 1),
            (vec![data(100, 1, 0), data(116, 1, 1), data(83, 1, 2)], 3),
            // In the order of their times, not of the schedule.
            (vec![data(116, 1, 2), data(100, 1, 1), data(126, 1, 0)], 2),
            (vec![data(0, 64, 0)], 3),
            (vec![entry(metadata, 7, 1, 0), entry(metadata, 8, 1, 1)], 2),
        ] {
            assert_eq!(estimate_cold_requests(&entries), requests, "{entries:?}");
        }
    }

    proptest! {
        /// As many as there are separate windows at least, and no more than pages.
        #[test]
        fn there_are_no_more_requests_than_pages(
            entries in prop::collection::vec((0..3u32, 0..500u64, 1..80u64, any::<u64>()), 0..40),
        ) {
            let entries: Vec<_> = entries
                .into_iter()
                .map(|(file, start, len, time_us)| entry(Place::Data { file }, start, len, time_us))
                .collect();
            let pages: u64 = entries.iter().map(|entry| entry.span.len).sum();
            let mut needed: HashMap<Place, RangeSet> = HashMap::new();
            for PrefetchEntry { span, .. } in &entries {
                needed.entry(span.place).or_default().insert(span.pages());
            }
            let distinct: u64 = needed.values().map(RangeSet::len).sum();
            let requests = estimate_cold_requests(&entries);
            prop_assert!(requests <= pages && requests * READ_AROUND_PAGES >= distinct);
        }
    }
}
