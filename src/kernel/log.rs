//! The log that the BPF programs write events to (`bpf/log.bpf.h`), and its reader.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::abilities::TraceError;
use super::skel::learn::types::{pf_log, pf_log_ends};

/// Bytes in a word of the log: every record begins at one.
const WORD: usize = size_of::<u64>();

/// Words of what `bpf/log.bpf.h` calls `struct log`.
const WORDS: usize = (ENDS_BYTES + LOG_BYTES + MOST_PARTS * RECORD_BYTES) / WORD;

const LOG_BYTES: usize = pf_log::PF_LOG_BYTES.0 as usize;
const MOST_PARTS: usize = pf_log::PF_LOG_PARTS.0 as usize;
const RECORD_BYTES: usize = pf_log::PF_LOG_RECORD.0 as usize;
const ENDS_BYTES: usize = MOST_PARTS * size_of::<pf_log_ends>();
const HEAD: usize = std::mem::offset_of!(pf_log_ends, head) / WORD;
const TAIL: usize = std::mem::offset_of!(pf_log_ends, tail) / WORD;

/// How many parts the log has for so many processors: a power of two, so that most have one alone.
pub(super) fn parts_for(processors: usize) -> usize {
    processors.next_power_of_two().clamp(1, MOST_PARTS)
}

/// The log of a loaded object, mapped into this process. Only one of these may read a log.
pub(super) struct Log {
    memory: LogMapping,
    parts: usize,
}

impl Log {
    /// Maps the log, which the programs use in so many parts.
    ///
    /// # Errors
    /// When it cannot be mapped.
    pub fn map(map: BorrowedFd<'_>, parts: usize) -> Result<Log, TraceError> {
        let memory =
            LogMapping::new(map).map_err(|error| TraceError::system("mapping the log", error))?;
        Ok(Log { memory, parts })
    }

    /// Hands over what was written since the last time, record by record; of one processor in the order of
    /// time. Returns in how many parts something stays behind that a program has claimed and not written
    /// yet.
    pub fn drain(&mut self, take: impl FnMut(&[u8])) -> usize {
        drain(self.memory.words(), self.parts, take)
    }
}

/// Reads all parts, and gives the room back to the programs. Returns how many were not read to their end.
fn drain(words: &[AtomicU64], parts: usize, mut take: impl FnMut(&[u8])) -> usize {
    let (ends, room) = words.split_at(ENDS_BYTES / WORD);
    let mut behind = 0;
    let part_words = LOG_BYTES / parts / WORD;
    let mut record = Vec::with_capacity(RECORD_BYTES);
    for part in 0..parts {
        let ends = &ends[part * size_of::<pf_log_ends>() / WORD..];
        let stride = part_words + RECORD_BYTES / WORD;
        let ring = &room[part * stride..][..stride];
        // The claim of a record happened before its header was written: the header orders what is read.
        let head = ends[HEAD].load(Ordering::Relaxed);
        let mut tail = ends[TAIL].load(Ordering::Relaxed);
        while tail < head {
            let begin = (tail / WORD as u64) as usize % part_words;
            let bytes = ring[begin].load(Ordering::Acquire) as usize;
            let count = bytes.div_ceil(WORD);
            // No length yet: claimed, and not written. One that no program of ours writes: nothing behind it
            // can be made out.
            let data = ring.get(begin + 1..begin + 1 + count);
            let Some(data) = data.filter(|data| !data.is_empty()) else {
                behind += 1;
                break;
            };
            record.clear();
            for word in data {
                record.extend_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
                word.store(0, Ordering::Relaxed);
            }
            ring[begin].store(0, Ordering::Relaxed);
            take(&record[..bytes]);
            tail += ((1 + count) * WORD) as u64;
            // Cleared before it is given back.
            ends[TAIL].store(tail, Ordering::Release);
        }
    }
    behind
}

/// The map's memory, shared with the kernel.
struct LogMapping(*const AtomicU64);

impl LogMapping {
    fn new(map: BorrowedFd<'_>) -> std::io::Result<LogMapping> {
        // SAFETY: a new mapping, at an address that the kernel chooses, touches no memory in use.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                WORDS * WORD,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                map.as_fd(),
                0,
            )
        }?;
        Ok(LogMapping(start.cast_const().cast()))
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is aligned to a page, has so many words (mmap refuses more than the map has)
        // and lives as long as `self`. The programs write to it meanwhile, and atomics may be written to.
        unsafe { std::slice::from_raw_parts(self.0, WORDS) }
    }
}

impl Drop for LogMapping {
    fn drop(&mut self) {
        // SAFETY: nothing borrowed from `self` is left, so nobody uses the mapping any more.
        // It fails only for a range that is no mapping.
        let _ = unsafe { munmap(self.0.cast_mut().cast(), WORDS * WORD) };
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    /// A log in memory of our own, and the programs' side of it.
    struct Written {
        words: Vec<AtomicU64>,
        parts: usize,
    }

    /// Where a record was claimed: word of its header, and its bytes.
    type Claim = (usize, Vec<u8>);

    impl Written {
        fn new(parts: usize) -> Written {
            let words = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
            Written { words, parts }
        }

        /// As `claim` in `bpf/log.bpf.h`.
        fn claim(&self, part: usize, data: &[u8]) -> Option<Claim> {
            let ends = &self.words[part * size_of::<pf_log_ends>() / WORD..];
            let part_bytes = LOG_BYTES / self.parts;
            let head = ends[HEAD].load(Ordering::Relaxed);
            let end = head + (WORD + data.len().next_multiple_of(WORD)) as u64;
            if end - ends[TAIL].load(Ordering::Relaxed) > part_bytes as u64 {
                return None;
            }
            ends[HEAD].store(end, Ordering::Relaxed);
            let at = part * (part_bytes + RECORD_BYTES) + head as usize % part_bytes;
            Some(((ENDS_BYTES + at) / WORD, data.to_vec()))
        }

        fn publish(&self, (begin, data): Claim) {
            for (i, chunk) in data.chunks(WORD).enumerate() {
                let mut word = [0; WORD];
                word[..chunk.len()].copy_from_slice(chunk);
                let old =
                    self.words[begin + 1 + i].swap(u64::from_ne_bytes(word), Ordering::Relaxed);
                assert_eq!(old, 0, "the room was not cleared");
            }
            let old = self.words[begin].swap(data.len() as u64, Ordering::Release);
            assert_eq!(old, 0, "the header was not cleared");
        }

        fn drain(&self) -> Vec<Vec<u8>> {
            self.drain_some().0
        }

        /// And how many parts were not read to their end.
        fn drain_some(&self) -> (Vec<Vec<u8>>, usize) {
            let mut taken = Vec::new();
            let behind = drain(&self.words, self.parts, |record| {
                taken.push(record.to_vec());
            });
            (taken, behind)
        }
    }

    #[test]
    fn processors_have_a_part_alone_up_to_the_most() {
        let parts = [0, 1, 2, 3, 8, 12, 16, 17, 500].map(parts_for);
        assert_eq!(parts, [1, 1, 2, 4, 8, 16, 16, 16, 16]);
    }

    #[test]
    fn a_record_is_read_once() {
        let log = Written::new(2);
        for part in [1, 0] {
            log.publish(log.claim(part, &[part as u8 + 1; 13]).unwrap());
        }
        assert_eq!(log.drain(), [[1; 13], [2; 13]]);
        assert!(log.drain().is_empty());
    }

    #[test]
    fn what_is_not_written_yet_is_waited_for() {
        let log = Written::new(2);
        log.publish(log.claim(0, b"first").unwrap());
        let late = log.claim(0, b"late").unwrap();
        log.publish(log.claim(0, b"behind").unwrap());
        log.publish(log.claim(1, b"beside").unwrap());
        let soon = vec![b"first".to_vec(), b"beside".to_vec()];
        assert_eq!(log.drain_some(), (soon, 1));
        assert_eq!(log.drain_some(), (Vec::new(), 1));
        log.publish(late);
        let rest = vec![b"late".to_vec(), b"behind".to_vec()];
        assert_eq!(log.drain_some(), (rest, 0));
    }

    #[test]
    fn a_full_part_takes_records_again_once_it_was_read() {
        let log = Written::new(MOST_PARTS);
        let data = [7; RECORD_BYTES - WORD];
        let mut written = 0;
        while let Some(claim) = log.claim(3, &data) {
            log.publish(claim);
            written += 1;
        }
        assert_eq!(written, LOG_BYTES / MOST_PARTS / RECORD_BYTES);
        assert_eq!(log.drain().len(), written);
        for _ in 0..written {
            log.publish(log.claim(3, &data).unwrap());
        }
        assert_eq!(log.drain().len(), written);
    }

    #[test]
    fn a_length_that_no_record_has_ends_the_reading() {
        let log = Written::new(1);
        let (begin, _) = log.claim(0, &[1; 40]).unwrap();
        log.words[begin].store(u64::MAX >> 1, Ordering::Relaxed);
        assert_eq!(log.drain_some(), (Vec::new(), 1));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        /// Whatever is written in whichever parts, and read whenever: each part's records come out once, in
        /// their order, also around the end of its ring.
        #[test]
        fn all_that_was_written_is_read(
            parts in (0..5_u32).prop_map(|n| 1 << n),
            steps in prop::collection::vec((any::<u8>(), 1..RECORD_BYTES - WORD), 1..4000),
        ) {
            let log = Written::new(parts);
            let mut expected = vec![VecDeque::new(); parts];
            let check = |expected: &mut Vec<VecDeque<Vec<u8>>>| {
                for record in log.drain() {
                    let part = record[0] as usize;
                    prop_assert_eq!(Some(&record), expected[part].front());
                    expected[part].pop_front();
                }
                Ok(())
            };
            for (number, (choice, length)) in steps.into_iter().enumerate() {
                let part = choice as usize % parts;
                let mut data = vec![number as u8; length];
                data[0] = part as u8;
                match log.claim(part, &data) {
                    Some(claim) => {
                        log.publish(claim);
                        expected[part].push_back(data);
                    }
                    None => check(&mut expected)?,
                }
                if choice > 250 {
                    check(&mut expected)?;
                }
            }
            check(&mut expected)?;
            prop_assert!(expected.iter().all(VecDeque::is_empty));
        }
    }
}
