//! The file table and the entries as columns.
//!
//! A column holds one field of every row, mostly as the difference from the row before: inode
//! numbers, times of modification and paths of files that came in one package are close to each
//! other, and so are times and positions of consecutive reads. Files are stored in the order of
//! their paths for this reason.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::limits::{MAX_ENTRIES, MAX_FILES, MAX_PATH, MAX_PATH_BYTES, at_most, require};
use super::{FormatError, TIME_QUANTUM_US};
use crate::model::{File, Place, PrefetchEntry, Span};

const NS_PER_S: i64 = 1_000_000_000;

const NO_TABLE: FormatError = FormatError::Invalid("its file table");
const NO_ENTRIES: FormatError = FormatError::Invalid("its entries");

/// A sequence of at most `MAX` elements. Reading it takes memory for as many at most, whatever length the
/// input claims.
#[derive(Default, Serialize)]
#[serde(transparent)]
pub struct Column<T, const MAX: usize>(pub Vec<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for Column<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ColumnVisitor(PhantomData))
    }
}

struct ColumnVisitor<T, const MAX: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for ColumnVisitor<T, MAX> {
    type Value = Column<T, MAX>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "at most {MAX} elements")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = seq.next_element()? {
            if elements.len() == MAX {
                return Err(A::Error::invalid_length(MAX + 1, &self));
            }
            elements.push(element);
        }
        Ok(Column(elements))
    }
}

impl<T, const MAX: usize> FromIterator<T> for Column<T, MAX> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Column(values.into_iter().collect())
    }
}

/// A column of differences, modulo 2⁶⁴.
type Differences<const MAX: usize> = Column<i64, MAX>;

impl<const MAX: usize> Differences<MAX> {
    /// Each value, less the one before.
    fn of(values: impl Iterator<Item = i64>) -> Self {
        let mut last = 0;
        values
            .map(|value| value.wrapping_sub(std::mem::replace(&mut last, value)))
            .collect()
    }

    /// The values.
    fn sums(&self) -> impl Iterator<Item = i64> {
        self.0.iter().scan(0i64, |last, difference| {
            *last = last.wrapping_add(*difference);
            Some(*last)
        })
    }
}

/// The file table, in the order of paths; all columns but `suffixes` have one element a file.
#[derive(Default, Serialize, Deserialize)]
pub struct FileColumns {
    /// Index in the table.
    index: Differences<MAX_FILES>,
    /// 0 for no path; else 1 + the bytes that the path shares with the start of the one before.
    shared: Column<u32, MAX_FILES>,
    /// Bytes of the path after those shared.
    suffix_len: Column<u32, MAX_FILES>,
    /// These bytes, of all paths.
    suffixes: Column<u8, MAX_PATH_BYTES>,
    device: Column<u16, MAX_FILES>,
    ino: Differences<MAX_FILES>,
    generation: Column<u32, MAX_FILES>,
    size: Column<u64, MAX_FILES>,
    /// Whole seconds of the time of modification, rounded down.
    mtime_s: Differences<MAX_FILES>,
    /// The nanoseconds beyond those seconds: package managers keep whole seconds.
    mtime_ns: Column<u32, MAX_FILES>,
}

impl FileColumns {
    /// The columns of a table that satisfies the limits.
    pub fn new(table: &[File]) -> Self {
        let mut order: Vec<usize> = (0..table.len()).collect();
        order.sort_by_key(|&index| &table[index].path);
        let files = || order.iter().map(|&index| &table[index]);
        let mut columns = FileColumns {
            index: Differences::of(order.iter().map(|&index| index as i64)),
            device: files().map(|file| file.device).collect(),
            ino: Differences::of(files().map(|file| file.ino as i64)),
            generation: files().map(|file| file.generation).collect(),
            size: files().map(|file| file.size).collect(),
            mtime_s: Differences::of(files().map(|file| file.mtime_ns.div_euclid(NS_PER_S))),
            mtime_ns: files()
                .map(|file| file.mtime_ns.rem_euclid(NS_PER_S) as u32)
                .collect(),
            ..FileColumns::default()
        };
        let mut last: &[u8] = &[];
        for file in files() {
            let path = file.path.as_deref().unwrap_or_default();
            let shared = path.iter().zip(last).take_while(|(a, b)| a == b).count();
            // Paths are at most MAX_PATH bytes long.
            let mark = file.path.as_ref().map_or(0, |_| shared as u32 + 1);
            columns.shared.0.push(mark);
            columns.suffix_len.0.push((path.len() - shared) as u32);
            columns.suffixes.0.extend(&path[shared..]);
            last = path;
        }
        columns
    }

    /// Number of files.
    pub fn len(&self) -> usize {
        self.index.0.len()
    }

    /// The table. Its contents are yet to be held against the limits.
    pub fn into_files(self) -> Result<Vec<File>, FormatError> {
        let count = self.len();
        let lengths = [
            self.shared.0.len(),
            self.suffix_len.0.len(),
            self.device.0.len(),
            self.ino.0.len(),
            self.generation.0.len(),
            self.size.0.len(),
            self.mtime_s.0.len(),
            self.mtime_ns.0.len(),
        ];
        require(lengths == [count; 8], NO_TABLE)?;
        let mut files: Vec<Option<File>> = vec![None; count];
        let deltas = self
            .index
            .sums()
            .zip(self.ino.sums())
            .zip(self.mtime_s.sums());
        for (row, (path, ((index, ino), s))) in self.paths()?.into_iter().zip(deltas).enumerate() {
            let ns = i64::from(self.mtime_ns.0[row]);
            require(ns < NS_PER_S, NO_TABLE)?;
            let slot = usize::try_from(index).ok();
            let slot = slot.and_then(|index| files.get_mut(index));
            let slot = slot.filter(|slot| slot.is_none()).ok_or(NO_TABLE)?;
            *slot = Some(File {
                device: self.device.0[row],
                ino: ino as u64,
                generation: self.generation.0[row],
                size: self.size.0[row],
                mtime_ns: join_time(s, ns).ok_or(NO_TABLE)?,
                path,
            });
        }
        // As many distinct indices below `count` as `count`: every slot is taken.
        Ok(files.into_iter().flatten().collect())
    }

    fn paths(&self) -> Result<Vec<Option<Vec<u8>>>, FormatError> {
        let mut paths = Vec::with_capacity(self.len());
        let mut path: Vec<u8> = Vec::new();
        let mut suffixes: &[u8] = &self.suffixes.0;
        let mut total = 0;
        for (&shared, &suffix_len) in self.shared.0.iter().zip(&self.suffix_len.0) {
            let shared_len = shared.saturating_sub(1) as usize;
            let suffix;
            (suffix, suffixes) = suffixes
                .split_at_checked(suffix_len as usize)
                .ok_or(NO_TABLE)?;
            require(shared_len <= path.len(), NO_TABLE)?;
            require(shared_len + suffix.len() <= MAX_PATH, NO_TABLE)?;
            path.truncate(shared_len);
            path.extend(suffix);
            total += path.len();
            at_most("bytes of paths", total, MAX_PATH_BYTES)?;
            require(shared > 0 || path.is_empty(), NO_TABLE)?;
            paths.push((shared > 0).then(|| path.clone()));
        }
        require(suffixes.is_empty(), NO_TABLE)?;
        Ok(paths)
    }
}

/// Nanoseconds since the epoch. In the first second that an `i64` can express, the whole seconds
/// alone lie below its range, so that the sum takes a wider type.
fn join_time(s: i64, ns: i64) -> Option<i64> {
    i64::try_from(i128::from(s) * i128::from(NS_PER_S) + i128::from(ns)).ok()
}

/// The entries in prefetch order; all columns have one element an entry.
#[derive(Default, Serialize, Deserialize)]
pub struct EntryColumns {
    /// Index in the device table for metadata; number of devices + index in the file table for
    /// data.
    place: Column<u32, MAX_ENTRIES>,
    /// First page, less the end of the entry before in the same place.
    start: Column<i64, MAX_ENTRIES>,
    /// Pages.
    len: Column<u64, MAX_ENTRIES>,
    /// Time of first access in units of [`TIME_QUANTUM_US`].
    time: Differences<MAX_ENTRIES>,
}

impl EntryColumns {
    /// The columns of entries that satisfy the limits.
    pub fn new(entries: &[PrefetchEntry], devices: usize, files: usize) -> Self {
        let times = entries.iter().map(|entry| entry.time_us / TIME_QUANTUM_US);
        let mut columns = EntryColumns {
            len: entries.iter().map(|entry| entry.span.len).collect(),
            time: Differences::of(times.map(|time| time as i64)),
            ..EntryColumns::default()
        };
        let mut ends = vec![0u64; devices + files];
        for PrefetchEntry { span, .. } in entries {
            let place = match span.place {
                Place::Metadata { device } => usize::from(device),
                Place::Data { file } => devices + file as usize,
            };
            // Tables are far below 2³² rows, and positions below 2⁵² pages.
            columns.place.0.push(place as u32);
            columns.start.0.push(span.start as i64 - ends[place] as i64);
            ends[place] = span.end();
        }
        columns
    }

    /// The entries. Their contents are yet to be held against the limits.
    pub fn into_entries(
        self,
        devices: usize,
        files: usize,
    ) -> Result<Vec<PrefetchEntry>, FormatError> {
        let count = self.place.0.len();
        let lengths = [self.start.0.len(), self.len.0.len(), self.time.0.len()];
        require(lengths == [count; 3], NO_ENTRIES)?;
        let mut ends = vec![0u64; devices + files];
        let mut entries = Vec::with_capacity(count);
        for ((row, &index), time) in self.place.0.iter().enumerate().zip(self.time.sums()) {
            let end = ends.get_mut(index as usize).ok_or(NO_ENTRIES)?;
            let start = end.checked_add_signed(self.start.0[row]);
            let start = start.ok_or(NO_ENTRIES)?;
            let len = self.len.0[row];
            *end = start.checked_add(len).ok_or(NO_ENTRIES)?;
            let time_us = (time as u64).checked_mul(TIME_QUANTUM_US);
            // There are at most 256 devices, so that their indices fit.
            let place = match (index as usize).checked_sub(devices) {
                None => Place::Metadata {
                    device: index as u16,
                },
                Some(file) => Place::Data { file: file as u32 },
            };
            entries.push(PrefetchEntry {
                span: Span { place, start, len },
                time_us: time_us.ok_or(NO_ENTRIES)?,
            });
        }
        Ok(entries)
    }
}
