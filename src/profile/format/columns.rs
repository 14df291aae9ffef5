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
use crate::model::File;
use crate::model::{Place, PrefetchEntry, Span};

const NS_PER_S: i64 = 1_000_000_000;

/// Reads a sequence of at most `MAX` elements; the memory that it takes is bounded by that, whatever
/// length the input claims.
pub fn bounded<'de, D, T, const MAX: usize>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Bounded<T, const MAX: usize>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for Bounded<T, MAX> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
            write!(f, "at most {MAX} elements")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
            let mut elements = Vec::new();
            while let Some(element) = seq.next_element()? {
                if elements.len() == MAX {
                    return Err(A::Error::invalid_length(MAX + 1, &self));
                }
                elements.push(element);
            }
            Ok(elements)
        }
    }

    deserializer.deserialize_seq(Bounded::<T, MAX>(PhantomData))
}

/// The file table, in the order of paths; all columns but `suffixes` have one element a file.
#[derive(Default, Serialize, Deserialize)]
pub struct FileColumns {
    /// Index in the table, less that of the file before.
    #[serde(deserialize_with = "bounded::<_, _, MAX_FILES>")]
    index: Vec<i64>,
    /// 0 for no path; else 1 + the bytes that the path shares with the start of the one before.
    #[serde(deserialize_with = "bounded::<_, _, MAX_FILES>")]
    shared: Vec<u32>,
    /// Bytes of the path after those shared.
    #[serde(deserialize_with = "bounded::<_, _, MAX_FILES>")]
    suffix_len: Vec<u32>,
    /// These bytes, of all paths.
    #[serde(deserialize_with = "bounded::<_, _, MAX_PATH_BYTES>")]
    suffixes: Vec<u8>,
    #[serde(deserialize_with = "bounded::<_, _, MAX_FILES>")]
    device: Vec<u16>,
    /// Difference from the inode number before, modulo 2⁶⁴.
    #[serde(deserialize_with = "bounded::<_, _, MAX_FILES>")]
    ino: Vec<i64>,
    #[serde(deserialize_with = "bounded::<_, _, MAX_FILES>")]
    generation: Vec<u32>,
    #[serde(deserialize_with = "bounded::<_, _, MAX_FILES>")]
    size: Vec<u64>,
    /// Whole seconds of the time of modification, rounded down, less those of the file before.
    #[serde(deserialize_with = "bounded::<_, _, MAX_FILES>")]
    mtime_s: Vec<i64>,
    /// The nanoseconds beyond those seconds: package managers keep whole seconds.
    #[serde(deserialize_with = "bounded::<_, _, MAX_FILES>")]
    mtime_ns: Vec<u32>,
}

impl FileColumns {
    /// The columns of a table that satisfies the limits.
    pub fn new(files: &[File]) -> Self {
        let mut order: Vec<(i64, &File)> = (0..).zip(files).collect();
        order.sort_by_key(|(_, file)| &file.path);
        let mut columns = FileColumns::default();
        let mut last_path: &[u8] = &[];
        let (mut last_index, mut last_ino, mut last_s) = (0, 0u64, 0);
        for (index, file) in order {
            columns.index.push(index - last_index);
            last_index = index;
            let path = file.path.as_deref().unwrap_or_default();
            let shared = path.iter().zip(last_path).take_while(|(a, b)| a == b);
            let shared = shared.count();
            // Paths are at most MAX_PATH bytes long.
            columns
                .shared
                .push(file.path.as_ref().map_or(0, |_| shared as u32 + 1));
            columns.suffix_len.push((path.len() - shared) as u32);
            columns.suffixes.extend(&path[shared..]);
            last_path = path;
            columns.device.push(file.device);
            columns.ino.push(file.ino.wrapping_sub(last_ino) as i64);
            last_ino = file.ino;
            columns.generation.push(file.generation);
            columns.size.push(file.size);
            let mtime_s = file.mtime_ns.div_euclid(NS_PER_S);
            columns.mtime_s.push(mtime_s - last_s);
            last_s = mtime_s;
            columns
                .mtime_ns
                .push(file.mtime_ns.rem_euclid(NS_PER_S) as u32);
        }
        columns
    }

    /// Number of files.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// The table. What it holds is yet to be held against the limits.
    pub fn into_files(self) -> Result<Vec<File>, FormatError> {
        const NO_TABLE: &str = "its file table has columns of different lengths";
        const NO_ORDER: &str = "its file table has no order";
        const NO_TIME: &str = "a file has an impossible time of modification";
        let count = self.len();
        require(
            [
                self.shared.len(),
                self.suffix_len.len(),
                self.device.len(),
                self.ino.len(),
                self.generation.len(),
                self.size.len(),
                self.mtime_s.len(),
                self.mtime_ns.len(),
            ]
            .iter()
            .all(|&len| len == count),
            NO_TABLE,
        )?;
        let paths = self.paths()?;
        let mut files: Vec<Option<File>> = vec![None; count];
        let (mut index, mut ino, mut mtime_s) = (0usize, 0u64, 0i64);
        for (row, path) in paths.into_iter().enumerate() {
            ino = ino.wrapping_add_signed(self.ino[row]);
            mtime_s = mtime_s
                .checked_add(self.mtime_s[row])
                .ok_or(FormatError::Invalid(NO_TIME))?;
            let ns = i64::from(self.mtime_ns[row]);
            require(ns < NS_PER_S, NO_TIME)?;
            let delta = isize::try_from(self.index[row]);
            index = delta
                .ok()
                .and_then(|delta| index.checked_add_signed(delta))
                .ok_or(FormatError::Invalid(NO_ORDER))?;
            let slot = files
                .get_mut(index)
                .filter(|slot| slot.is_none())
                .ok_or(FormatError::Invalid(NO_ORDER))?;
            *slot = Some(File {
                device: self.device[row],
                ino,
                generation: self.generation[row],
                size: self.size[row],
                mtime_ns: join_time(mtime_s, ns).ok_or(FormatError::Invalid(NO_TIME))?,
                path,
            });
        }
        // As many distinct indices below `count` as `count`: every slot is taken.
        Ok(files.into_iter().flatten().collect())
    }

    fn paths(&self) -> Result<Vec<Option<Vec<u8>>>, FormatError> {
        const NO_PATH: &str = "a file has an impossible path";
        let mut paths = Vec::with_capacity(self.len());
        let mut path: Vec<u8> = Vec::new();
        let mut suffixes: &[u8] = &self.suffixes;
        let mut total = 0;
        for (&shared, &suffix_len) in self.shared.iter().zip(&self.suffix_len) {
            let shared_len = shared.saturating_sub(1) as usize;
            let suffix;
            (suffix, suffixes) = suffixes
                .split_at_checked(suffix_len as usize)
                .ok_or(FormatError::Invalid(NO_PATH))?;
            require(shared_len <= path.len(), NO_PATH)?;
            require(shared_len + suffix.len() <= MAX_PATH, NO_PATH)?;
            path.truncate(shared_len);
            path.extend(suffix);
            total += path.len();
            at_most("bytes of paths", total, MAX_PATH_BYTES)?;
            require(shared > 0 || path.is_empty(), NO_PATH)?;
            paths.push((shared > 0).then(|| path.clone()));
        }
        require(suffixes.is_empty(), NO_PATH)?;
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
    #[serde(deserialize_with = "bounded::<_, _, MAX_ENTRIES>")]
    place: Vec<u32>,
    /// First page, less the end of the entry before in the same place.
    #[serde(deserialize_with = "bounded::<_, _, MAX_ENTRIES>")]
    start: Vec<i64>,
    /// Pages.
    #[serde(deserialize_with = "bounded::<_, _, MAX_ENTRIES>")]
    len: Vec<u64>,
    /// Time of first access in units of [`TIME_QUANTUM_US`], less that of the entry before.
    #[serde(deserialize_with = "bounded::<_, _, MAX_ENTRIES>")]
    time: Vec<i64>,
}

impl EntryColumns {
    /// The columns of entries that satisfy the limits.
    pub fn new(entries: &[PrefetchEntry], devices: usize, files: usize) -> Self {
        let mut columns = EntryColumns::default();
        let mut ends = vec![0u64; devices + files];
        let mut last_time = 0;
        for PrefetchEntry { span, time_us } in entries {
            let place = match span.place {
                Place::Metadata { device } => usize::from(device),
                Place::Data { file } => devices + file as usize,
            };
            // Tables are far below 2³² rows, positions below 2⁵² pages, and times below 2⁶³ units.
            columns.place.push(place as u32);
            columns.start.push(span.start as i64 - ends[place] as i64);
            ends[place] = span.end();
            columns.len.push(span.len);
            let time = (time_us / TIME_QUANTUM_US) as i64;
            columns.time.push(time - last_time);
            last_time = time;
        }
        columns
    }

    /// The entries. What they hold is yet to be held against the limits.
    pub fn into_entries(
        self,
        devices: usize,
        files: usize,
    ) -> Result<Vec<PrefetchEntry>, FormatError> {
        const NO_SPAN: FormatError = FormatError::Invalid("an entry has an impossible position");
        const NO_TIME: FormatError = FormatError::Invalid("an entry has an impossible time");
        let count = self.place.len();
        require(
            [self.start.len(), self.len.len(), self.time.len()] == [count; 3],
            "its entries have columns of different lengths",
        )?;
        let mut ends = vec![0u64; devices + files];
        let mut time = 0u64;
        let mut entries = Vec::with_capacity(count);
        for (row, &index) in self.place.iter().enumerate() {
            let end = ends.get_mut(index as usize).ok_or(FormatError::Invalid(
                "an entry is in an unknown file or device",
            ))?;
            let start = end.checked_add_signed(self.start[row]).ok_or(NO_SPAN)?;
            let len = self.len[row];
            *end = start.checked_add(len).ok_or(NO_SPAN)?;
            time = time.checked_add_signed(self.time[row]).ok_or(NO_TIME)?;
            let time_us = time.checked_mul(TIME_QUANTUM_US).ok_or(NO_TIME)?;
            // There are at most 256 devices, so that their indices fit.
            let place = if (index as usize) < devices {
                Place::Metadata {
                    device: index as u16,
                }
            } else {
                Place::Data {
                    file: index - devices as u32,
                }
            };
            entries.push(PrefetchEntry {
                span: Span { place, start, len },
                time_us,
            });
        }
        Ok(entries)
    }
}
