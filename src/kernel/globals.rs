//! The globals of the BPF programs, mapped: both sides write them.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::launcher::StartMark;
use super::skel::types::{bss, pf_completion_block, pf_launch, pf_page, pf_recorder, pf_sizes};

/// The globals of the loaded programs, in a mapping of their own. The kernel, too, reads and writes each word
/// at any time.
pub(super) struct Globals(NonNull<bss>);

// SAFETY: the mapping belongs to this value; its words are only used atomically, or read and written as volatile
// memory that the kernel may change at any time.
unsafe impl Send for Globals {}
// SAFETY: as above.
unsafe impl Sync for Globals {}

/// An atomic reference to a word of the globals.
macro_rules! word {
    ($atomic:ty, $place:expr, $field:ident) => {
        // SAFETY: an aligned word of the mapping, which lives as long as the borrow of `self`; nobody has a
        // reference to it but atomic ones.
        unsafe { <$atomic>::from_ptr(&raw mut (*$place.as_ptr()).$field) }
    };
}

impl Globals {
    /// Maps them from the map that they are in.
    ///
    /// # Errors
    /// When mmap(2) fails.
    pub fn map(map: BorrowedFd<'_>) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a mapping at an address that the kernel chooses overlaps no other memory.
        let place = unsafe {
            mmap(
                null_mut(),
                size_of::<bss>(),
                access,
                MapFlags::SHARED,
                map,
                0,
            )
        };
        NonNull::new(place?.cast())
            .map(Globals)
            .ok_or_else(|| io::Error::other("the kernel maps them at address 0"))
    }

    /// Number of the launch that began last.
    pub fn last_launch(&self) -> &AtomicU64 {
        word!(AtomicU64, self.0, last_launch)
    }

    /// Slots that are taken.
    pub fn live_launches(&self) -> &AtomicI64 {
        word!(AtomicI64, self.0, live_launches)
    }

    /// Slots whose launch is over.
    pub fn over_launches(&self) -> &AtomicI64 {
        word!(AtomicI64, self.0, over_launches)
    }

    /// Index of the last recorder that user space has switched on, plus 1; 0: none is.
    pub fn recording(&self) -> &AtomicU32 {
        word!(AtomicU32, self.0, recording)
    }

    /// Index of the recorder that waits for a launch that is to be recorded, plus 1; 0: none does.
    pub fn ready_recorder(&self) -> &AtomicU32 {
        word!(AtomicU32, self.0, ready_recorder)
    }

    /// Index of the recorder that a launch has claimed, plus 1, until it counts in [`Globals::recording`]; 0: none has.
    pub fn claimed_recorder(&self) -> &AtomicU32 {
        word!(AtomicU32, self.0, claimed_recorder)
    }

    /// Number of the launch that the recorder is on for; 0: it is off.
    pub fn recorded_launch(&self, index: u32) -> &AtomicU64 {
        let recorder = self.recorder_at(index);
        word!(AtomicU64, recorder, launch)
    }

    /// Number of the cgroup that belongs to its launch alone; 0: there is none.
    pub fn recorder_cgroup(&self, index: u32) -> &AtomicU64 {
        let recorder = self.recorder_at(index);
        word!(AtomicU64, recorder, cgroup)
    }

    /// A recorder, as it is now.
    pub fn recorder(&self, index: u32) -> pf_recorder {
        // SAFETY: plain integers, mapped and aligned. A volatile read is one of each word, which the
        // kernel may change at any time.
        unsafe { self.recorder_at(index).read_volatile() }
    }

    /// Sets up a recorder that no program uses.
    pub fn set_recorder(&self, index: u32, recorder: pf_recorder) {
        // SAFETY: as in `recorder`.
        unsafe { self.recorder_at(index).write_volatile(recorder) }
    }

    fn recorder_at(&self, index: u32) -> NonNull<pf_recorder> {
        assert!((index as usize) < RECORDERS, "{index}");
        // SAFETY: within the array.
        unsafe {
            let recorders = &raw mut (*self.0.as_ptr()).recorders;
            NonNull::new_unchecked(recorders.cast::<pf_recorder>().add(index as usize))
        }
    }

    /// Sets the completion block, before the program that looks for it is attached.
    pub fn set_completion_block(&self, block: pf_completion_block) {
        // SAFETY: as in `recorder`.
        unsafe { (&raw mut (*self.0.as_ptr()).completion_block).write_volatile(block) }
    }

    /// Processes that read fewer bytes are not reported; 0: no process is.
    pub fn large_bytes(&self) -> &AtomicU64 {
        word!(AtomicU64, self.0, large_bytes)
    }

    /// Our own program, whose children begin no launch: its inode number, 0 if they do, and its device as a kernel `dev_t`.
    pub fn own_program(&self) -> (&AtomicU64, &AtomicU32) {
        let ino = word!(AtomicU64, self.0, own_program_ino);
        (ino, word!(AtomicU32, self.0, own_program_dev))
    }

    /// The thread that makes the first requests of launches, and the launch of the moment.
    pub fn first_reader(&self) -> (&AtomicU32, &AtomicU64) {
        let thread = word!(AtomicU32, self.0, first_reader);
        (thread, word!(AtomicU64, self.0, first_reader_launch))
    }

    /// Launch events that found no room, launches that found no slot, and tasks that could not be marked.
    pub fn lost_launches(&self) -> u64 {
        let events = word!(AtomicU64, self.0, lost_launch_events).load(Ordering::Relaxed);
        let launches = word!(AtomicU64, self.0, lost_launches).load(Ordering::Relaxed);
        let tasks = word!(AtomicU64, self.0, lost_tasks).load(Ordering::Relaxed);
        events + launches + tasks
    }

    /// Executions that were not reported because their user makes too many, and the user of the last one.
    pub fn excess_execs(&self) -> (u64, u32) {
        let count = word!(AtomicU64, self.0, excess_execs).load(Ordering::Relaxed);
        let user = word!(AtomicU32, self.0, excess_user).load(Ordering::Relaxed);
        (count, user)
    }

    /// A word of the bits for the ends of watched names.
    pub fn name_filter(&self, index: usize) -> &AtomicU64 {
        assert!(index < NAME_FILTER_WORDS, "{index}");
        // SAFETY: as for all words, and within the array.
        unsafe {
            let words = &raw mut (*self.0.as_ptr()).name_filter;
            AtomicU64::from_ptr(words.cast::<u64>().add(index))
        }
    }

    /// The slot of a launch of this number, or of another with the same remainder.
    pub fn slot(&self, launch: u64) -> Slot<'_> {
        // SAFETY: within the array, by the remainder.
        let place = unsafe {
            let slots = (&raw mut (*self.0.as_ptr()).launches).cast::<pf_launch>();
            NonNull::new_unchecked(slots.add((launch % LAUNCHES) as usize))
        };
        Slot {
            place,
            _globals: self,
        }
    }
}

impl Drop for Globals {
    fn drop(&mut self) {
        // SAFETY: the mapping that was made for this value; references into it have ended. munmap(2) of a whole
        // mapping does not fail.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), size_of::<bss>()) };
    }
}

/// Launches that can be under way at a time.
pub const LAUNCHES: u64 = pf_sizes::PF_LAUNCHES.0 as u64;

/// Launches that can be recorded at a time.
pub(super) const RECORDERS: usize = pf_sizes::PF_RECORDERS.0 as usize;

/// Completion pages of a launch, at most.
pub(super) const COMPLETION_PAGES: usize = pf_sizes::PF_COMPLETION_PAGES.0 as usize;

/// Words of bits for the ends of watched names.
pub(super) const NAME_FILTER_WORDS: usize = pf_sizes::PF_NAME_FILTER_WORDS.0 as usize;

/// The slot of one launch.
pub(super) struct Slot<'a> {
    place: NonNull<pf_launch>,
    _globals: &'a Globals,
}

impl Slot<'_> {
    /// Number of the launch that has the slot; 0 if it is free.
    pub fn number(&self) -> &AtomicU64 {
        word!(AtomicU64, self.place, number)
    }

    /// Tasks of the launch's tree that are alive.
    pub fn tasks(&self) -> &AtomicU64 {
        word!(AtomicU64, self.place, tasks)
    }

    /// Index of the launch's recorder plus 1; 0 if it is not recorded.
    pub fn recorder(&self) -> &AtomicU32 {
        word!(AtomicU32, self.place, recorder)
    }

    /// Read requests that were to be noted.
    pub fn noted_reads(&self) -> &AtomicU32 {
        word!(AtomicU32, self.place, noted_reads)
    }

    /// Whether the launch is over, and only its tree's own reads are noted: 0 or 1.
    pub fn is_over(&self) -> &AtomicU32 {
        word!(AtomicU32, self.place, is_over)
    }

    /// CLOCK_MONOTONIC time of the app's execve in nanoseconds; 0 before it.
    pub fn start_ns(&self) -> &AtomicU64 {
        word!(AtomicU64, self.place, start_ns)
    }

    /// What the app's first process sets as its last act before execve.
    pub fn start_mark(&self) -> StartMark {
        // SAFETY: the word is in the mapping of the object's .bss. As with any object, its reader keeps it
        // until the launch is over.
        unsafe { StartMark::new(&raw mut (*self.place.as_ptr()).start_ns) }
    }

    /// All of it, each word as it is when it is read.
    pub fn read(&self) -> pf_launch {
        // SAFETY: as in `Globals::recorder`.
        unsafe { self.place.read_volatile() }
    }

    /// Writes all of a slot whose launch no task belongs to yet.
    pub fn begin(&self, launch: pf_launch) {
        // SAFETY: as in `Globals::recorder`.
        unsafe { self.place.write_volatile(launch) }
    }

    /// Writes the completion pages, at most `COMPLETION_PAGES`, of which so many have to be used, and then how many there are:
    /// the kernel looks at none before.
    pub fn set_completion(&self, pages: &[pf_page], to_use: u32) {
        let place = self.place.as_ptr();
        let count = pages.len() as u32;
        // SAFETY: as in `Globals::recorder`; an index behind the array panics, and the kernel reads the pages only later.
        unsafe {
            for (at, &page) in pages.iter().enumerate() {
                (&raw mut (*place).completion[at]).write_volatile(page);
            }
            (&raw mut (*place).completion_left).write_volatile(to_use);
        }
        word!(AtomicU32, self.place, completion_pages).store(count, Ordering::Release);
    }
}

/// The slot of a launch of which nothing has been counted.
pub(super) fn empty_slot() -> pf_launch {
    // SAFETY: plain integers, for which zeros are a value.
    unsafe { std::mem::zeroed() }
}

#[cfg(test)]
impl Globals {
    /// Globals as they are when programs are loaded, which no program uses.
    pub fn of_no_object() -> Self {
        use rustix::mm::mmap_anonymous;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: as in `map`.
        let place =
            unsafe { mmap_anonymous(null_mut(), size_of::<bss>(), access, MapFlags::PRIVATE) };
        Globals(NonNull::new(place.unwrap().cast()).unwrap())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::MOST_COMPLETION_PAGES;

    #[test]
    fn arrays_are_as_long_as_in_the_kernel() {
        // SAFETY: plain integers and enums of them, all with a zero.
        let globals: Box<bss> = Box::new(unsafe { std::mem::zeroed() });
        assert_eq!(globals.launches.len() as u64, LAUNCHES);
        assert_eq!(globals.recorders.len(), RECORDERS);
        assert_eq!(globals.name_filter.len(), NAME_FILTER_WORDS);
        assert_eq!(globals.launches[0].completion.len(), COMPLETION_PAGES);
        assert_eq!(COMPLETION_PAGES, MOST_COMPLETION_PAGES);
    }
}
