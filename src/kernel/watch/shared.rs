//! The memory that the programs in the kernel and we both write: their globals, mapped.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

use super::skel::types::{bss, pf_counts};

/// The globals of the loaded programs. Each word is read and written on its own, at any time, by the
/// kernel, too.
pub(super) struct Shared<'obj> {
    globals: NonNull<bss>,
    mapped: PhantomData<&'obj mut bss>,
}

impl<'obj> Shared<'obj> {
    /// Takes them over from the skeleton, which keeps them mapped.
    pub fn new(globals: &'obj mut bss) -> Self {
        Shared {
            globals: NonNull::from(globals),
            mapped: PhantomData,
        }
    }

    /// Number of the launch that began last.
    pub fn last_launch(&self) -> &AtomicU64 {
        // SAFETY: an aligned word of the mapping, which lives as long as `self`; as for all words here,
        // nobody has a reference to it but atomic ones.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.globals.as_ptr()).last_launch) }
    }

    /// Slots that are taken.
    pub fn live_launches(&self) -> &AtomicI64 {
        // SAFETY: as in `last_launch`.
        unsafe { AtomicI64::from_ptr(&raw mut (*self.globals.as_ptr()).live_launches) }
    }

    /// Processes that read less, in bytes, are not told of; 0: none are.
    pub fn large_bytes(&self) -> &AtomicU64 {
        // SAFETY: as in `last_launch`.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.globals.as_ptr()).large_bytes) }
    }

    /// The thread that makes the first requests of launches, and the launch of the moment.
    pub fn first_reader(&self) -> (&AtomicU32, &AtomicU64) {
        // SAFETY: as in `last_launch`.
        unsafe {
            (
                AtomicU32::from_ptr(&raw mut (*self.globals.as_ptr()).first_reader),
                AtomicU64::from_ptr(&raw mut (*self.globals.as_ptr()).first_reader_launch),
            )
        }
    }

    /// Events that found no room, and launches that found no slot.
    pub fn lost(&self) -> u64 {
        // SAFETY: as in `last_launch`.
        let (events, launches) = unsafe {
            (
                AtomicU64::from_ptr(&raw mut (*self.globals.as_ptr()).lost_events),
                AtomicU64::from_ptr(&raw mut (*self.globals.as_ptr()).lost_launches),
            )
        };
        events.load(Ordering::Relaxed) + launches.load(Ordering::Relaxed)
    }

    /// The word of bits for the ends of watched names that has this index.
    pub fn name_tails(&self, index: usize) -> &AtomicU64 {
        assert!(index < TAIL_WORDS, "{index}");
        // SAFETY: as in `last_launch`, and within the array.
        unsafe {
            let words = &raw mut (*self.globals.as_ptr()).name_tails;
            AtomicU64::from_ptr(words.cast::<u64>().add(index))
        }
    }

    /// The slot of a launch of this number, or of another with the same remainder.
    pub fn slot(&self, launch: u64) -> Slot<'_> {
        // SAFETY: within the array, by the remainder.
        let place = unsafe {
            let slots = (&raw mut (*self.globals.as_ptr()).counts).cast::<pf_counts>();
            NonNull::new_unchecked(slots.add((launch % LAUNCHES) as usize))
        };
        Slot {
            place,
            mapped: PhantomData,
        }
    }
}

/// Launches that can be told apart at a time (`PF_LAUNCHES`).
pub(super) const LAUNCHES: u64 = 64;

/// Words of bits for the ends of watched names (`PF_TAIL_WORDS`).
pub(super) const TAIL_WORDS: usize = 1024;

/// What is counted of one launch.
pub(super) struct Slot<'a> {
    place: NonNull<pf_counts>,
    mapped: PhantomData<&'a pf_counts>,
}

impl Slot<'_> {
    /// Number of the launch whose slot it is; 0 if it is free.
    pub fn launch(&self) -> &AtomicU64 {
        // SAFETY: as in `Shared::last_launch`.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.place.as_ptr()).launch) }
    }

    /// All of it, each word as it is when it is read.
    pub fn read(&self) -> pf_counts {
        // SAFETY: plain integers, mapped and aligned. A volatile read is one of each word, which the
        // kernel may change at any time.
        unsafe { self.place.read_volatile() }
    }

    /// Writes all of a slot that nobody else knows of yet.
    pub fn begin(&self, counts: pf_counts) {
        // SAFETY: as in `read`.
        unsafe { self.place.write_volatile(counts) }
    }

    /// Writes the completion page; the device, which is what says that there is one, last.
    pub fn set_completion(&self, dev: u32, ino: u64, index: u64) {
        let place = self.place.as_ptr();
        // SAFETY: as in `read`; the kernel only reads these words once the launch has begun.
        unsafe {
            (&raw mut (*place).completion_ino).write_volatile(ino);
            (&raw mut (*place).completion_page).write_volatile(index);
            AtomicU32::from_ptr(&raw mut (*place).completion_dev).store(dev, Ordering::Release);
        }
    }
}

/// Counts of nothing.
pub(super) fn no_counts() -> pf_counts {
    // SAFETY: plain integers, for which zeros are a value.
    unsafe { std::mem::zeroed() }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Globals as they are when programs are loaded.
    pub(in crate::kernel::watch) fn globals() -> Box<bss> {
        // SAFETY: plain integers and enums of them, all with a zero.
        Box::new(unsafe { std::mem::zeroed() })
    }

    #[test]
    fn arrays_are_as_long_as_in_the_kernel() {
        let globals = globals();
        assert_eq!(globals.counts.len() as u64, LAUNCHES);
        assert_eq!(globals.name_tails.len(), TAIL_WORDS);
    }
}
