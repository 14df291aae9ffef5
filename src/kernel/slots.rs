//! The slots of launches: what is counted of each, in memory that the programs write.

use std::sync::atomic::Ordering;

use super::event::kernel_dev;
use super::globals::{COMPLETION_PAGES, Globals, LAUNCHES, empty_slot};
use super::skel::types::{pf_launch, pf_page};
use crate::model::{LaunchCounts, pages_to_complete};

/// A page of a file: by its use, launches of one app can be timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchedPage {
    /// Device (`st_dev`).
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Index in pages of the kernel's size.
    pub index: u64,
}

/// What was counted of a launch so far; `None` if it has no slot (any more).
pub(super) fn counts(globals: &Globals, launch: u64) -> Option<LaunchCounts> {
    let slot = globals.slot(launch);
    let raw = slot.read();
    // The slot may have been another's while it was read.
    let is_its = |number| number == launch && launch != 0;
    if !is_its(raw.number) || !is_its(slot.number().load(Ordering::Acquire)) {
        return None;
    }
    Some(LaunchCounts {
        start_ns: raw.start_ns,
        tasks: raw.tasks,
        // The caller sets these: it knows which programs are attached.
        waits_counted: false,
        completion_late: false,
        switches: raw.switches,
        waiting_ns: raw.waiting_ns,
        requests: raw.requests,
        bytes: raw.bytes,
        prefetch_requests: raw.prefetch_requests,
        prefetch_bytes: raw.prefetch_bytes,
        first_prefetch_ns: raw.first_prefetch_ns,
        has_completion: raw.completion_pages != 0,
        completed_ns: raw.completed_ns,
        completed_requests: raw.completed_requests,
    })
}

/// How many read requests of the launch were to be noted; 0 if it has no slot (any more).
pub(super) fn noted_reads(globals: &Globals, launch: u64) -> u32 {
    let raw = globals.slot(launch).read();
    if raw.number == launch {
        raw.noted_reads
    } else {
        0
    }
}

/// Sets the launch's completion pages, if it still has a slot.
pub(super) fn set_completion(globals: &Globals, launch: u64, pages: &[WatchedPage]) {
    let slot = globals.slot(launch);
    if slot.number().load(Ordering::Relaxed) == launch {
        let raw = |page: &WatchedPage| pf_page {
            ino: page.ino,
            index: page.index,
            dev: kernel_dev(page.dev),
            pad: 0,
        };
        let raw: Vec<pf_page> = pages.iter().take(COMPLETION_PAGES).map(raw).collect();
        slot.set_completion(&raw, pages_to_complete(raw.len()) as u32);
    }
}

/// Takes a slot for a launch that user space begins, with what `launch` says beside its number, and
/// returns the number; `None` if all slots are taken.
pub(super) fn take(globals: &Globals, launch: pf_launch) -> Option<u64> {
    // The slot of a number may still serve a longer launch: then take the next number.
    for _ in 0..LAUNCHES {
        let number = globals.last_launch().fetch_add(1, Ordering::Relaxed) + 1;
        let slot = globals.slot(number);
        let taken = slot
            .number()
            .compare_exchange(0, number, Ordering::AcqRel, Ordering::Relaxed);
        if taken.is_ok() {
            slot.begin(pf_launch { number, ..launch });
            globals.live_launches().fetch_add(1, Ordering::Relaxed);
            return Some(number);
        }
    }
    None
}

/// The slot of a launch that begins outside of execve at this time, with one task of this user.
pub(super) fn adopted(start_ns: u64, uid: u32) -> pf_launch {
    pf_launch {
        start_ns,
        tasks: 1,
        uid,
        ..empty_slot()
    }
}

/// The slot of a login of this user that begins at this time. It counts as a task itself: it has none yet, and goes on
/// when the last one has exited.
pub(super) fn session(start_ns: u64, uid: u32) -> pf_launch {
    pf_launch {
        is_session: 1,
        ..adopted(start_ns, uid)
    }
}

/// Whether a launch is under way.
pub(super) fn is_under_way(globals: &Globals, launch: u64) -> bool {
    let raw = globals.slot(launch).read();
    launch != 0 && raw.number == launch && raw.is_over == 0
}

/// Another task is of a launch's tree.
pub(super) fn add_task(globals: &Globals, launch: u64) {
    let slot = globals.slot(launch);
    slot.tasks().fetch_add(1, Ordering::AcqRel);
}

/// The launches up to this number that have a slot.
pub(super) fn taken_until(globals: &Globals, last: u64) -> impl Iterator<Item = u64> {
    let numbers = (0..LAUNCHES).map(|slot| globals.slot(slot).number().load(Ordering::Acquire));
    numbers.filter(move |number| (1..=last).contains(number))
}

/// Notes that a launch is over, if it has a slot. The reads of its tree are noted anew from now on.
pub(super) fn set_over(globals: &Globals, launch: u64) {
    let slot = globals.slot(launch);
    if launch == 0 || slot.number().load(Ordering::Acquire) != launch {
        return;
    }
    // Its recorder may soon be another launch's.
    slot.recorder().store(0, Ordering::Relaxed);
    if slot.is_over().swap(1, Ordering::AcqRel) == 0 {
        globals.over_launches().fetch_add(1, Ordering::Relaxed);
    }
    slot.noted_reads().store(0, Ordering::Release);
}

/// Frees the launch's slot, if it has one: its tasks count nothing any more.
pub(super) fn free(globals: &Globals, launch: u64) {
    let slot = globals.slot(launch);
    // Nobody but its owner, who frees it, calls it over.
    let was_over = slot.is_over().load(Ordering::Acquire) != 0;
    let freed = launch != 0
        && slot
            .number()
            .compare_exchange(launch, 0, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok();
    if freed {
        globals
            .over_launches()
            .fetch_sub(i64::from(was_over), Ordering::Relaxed);
        globals.live_launches().fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_launch_has_a_slot_until_it_is_freed() {
        let globals = Globals::of_no_object();
        let all: Vec<u64> = (0..LAUNCHES)
            .map_while(|_| take(&globals, adopted(7, 0)))
            .collect();
        assert_eq!(all.len() as u64, LAUNCHES);
        assert_eq!(take(&globals, adopted(7, 0)), None);
        assert_eq!(globals.live_launches().load(Ordering::Relaxed), 64);
        let counted = counts(&globals, all[3]).unwrap();
        assert_eq!((counted.start_ns, counted.tasks), (7, 1));
        free(&globals, all[3]);
        free(&globals, all[3]);
        assert_eq!(globals.live_launches().load(Ordering::Relaxed), 63);
        assert_eq!(counts(&globals, all[3]), None);
        let next = take(&globals, adopted(8, 0)).unwrap();
        assert_eq!(next % LAUNCHES, all[3] % LAUNCHES);
        assert!(next > all[63]);
        assert_eq!(counts(&globals, next).unwrap().start_ns, 8);
        assert_eq!(counts(&globals, all[3]), None);
        assert_eq!(counts(&globals, 0), None);
    }

    #[test]
    fn a_launch_that_is_over_keeps_its_slot_and_its_reads_are_noted_anew() {
        let globals = Globals::of_no_object();
        let begun = pf_launch {
            noted_reads: 7,
            recorder: 3,
            ..adopted(7, 0)
        };
        let [over, other] = [begun, adopted(8, 0)].map(|launch| take(&globals, launch).unwrap());
        let counted = || {
            let counters = [globals.live_launches(), globals.over_launches()];
            counters.map(|counter| counter.load(Ordering::Relaxed))
        };
        // The slot is another's by then, or none's.
        set_over(&globals, other + LAUNCHES);
        set_over(&globals, 0);
        assert_eq!(counted(), [2, 0]);
        for _ in 0..2 {
            set_over(&globals, over);
            assert_eq!(counted(), [2, 1]);
        }
        let slot = globals.slot(over).read();
        assert_eq!((slot.noted_reads, slot.recorder, slot.tasks), (0, 0, 1));
        free(&globals, other);
        assert_eq!(counted(), [1, 1]);
        free(&globals, over);
        assert_eq!(counted(), [0, 0]);
        // The next launch in the slot is not over.
        let mut next = take(&globals, adopted(9, 0)).unwrap();
        while next % LAUNCHES != over % LAUNCHES {
            next = take(&globals, adopted(9, 0)).unwrap();
        }
        free(&globals, next);
        assert_eq!(counted()[1], 0);
    }

    #[test]
    fn a_login_is_under_way_until_it_is_over_and_counts_as_a_task() {
        let globals = Globals::of_no_object();
        assert!(!is_under_way(&globals, 0));
        let login = take(&globals, session(7, 1000)).unwrap();
        let raw = globals.slot(login).read();
        assert_eq!((raw.is_session, raw.uid, raw.tasks), (1, 1000, 1));
        add_task(&globals, login);
        assert_eq!(counts(&globals, login).unwrap().tasks, 2);
        assert!(is_under_way(&globals, login));
        assert!(!is_under_way(&globals, login + LAUNCHES));
        set_over(&globals, login);
        assert!(!is_under_way(&globals, login));
        free(&globals, login);
        // The next launch in the slot is no login.
        let mut next = take(&globals, adopted(9, 0)).unwrap();
        while next % LAUNCHES != login % LAUNCHES {
            next = take(&globals, adopted(9, 0)).unwrap();
        }
        assert_eq!(globals.slot(next).read().is_session, 0);
    }

    #[test]
    fn slots_that_were_taken_up_to_a_launch_are_found() {
        let globals = Globals::of_no_object();
        let [first, ended, last] =
            [7, 8, 9].map(|start| take(&globals, adopted(start, 0)).unwrap());
        free(&globals, ended);
        let until = |last| taken_until(&globals, last).collect::<Vec<_>>();
        assert!(until(0).is_empty());
        assert_eq!(until(ended), [first]);
        assert_eq!(until(u64::MAX), [first, last]);
    }

    #[test]
    fn completion_pages_leave_the_counts_alone() {
        let globals = Globals::of_no_object();
        let launch = take(&globals, adopted(7, 0)).unwrap();
        let pages = [12, 13, 14].map(|ino| WatchedPage {
            dev: 0x0801,
            ino,
            index: 34,
        });
        set_completion(&globals, launch + LAUNCHES, &pages);
        assert_eq!(globals.slot(launch).read().completion_pages, 0);
        set_completion(&globals, launch, &pages);
        let raw = globals.slot(launch).read();
        assert_eq!((raw.completion_pages, raw.completion_left), (3, 2));
        for (raw, page) in raw.completion.iter().zip(pages) {
            let expected = (kernel_dev(page.dev), page.ino, page.index);
            assert_eq!((raw.dev, raw.ino, raw.index), expected);
        }
        assert_eq!((raw.start_ns, raw.tasks), (7, 1));
        // More than there is room for are left out.
        set_completion(&globals, launch, &[pages[0]; 99]);
        let raw = globals.slot(launch).read();
        assert_eq!(raw.completion_pages, 8);
    }
}
