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

use super::limits::{
    MAX_ENTRIES, MAX_FILES, MAX_OPERATIONS, MAX_PATH, MAX_PATH_BYTES, at_most, require,
};
use super::{FormatError, TIME_QUANTUM_US};
use crate::model::{File, Operation, OperationKind, Place, PrefetchEntry, Span};

const NS_PER_S: i64 = 1_000_000_000;

const NO_TABLE: FormatError = FormatError::Invalid("its file table");
const NO_ENTRIES: FormatError = FormatError::Invalid("its entries");
const NO_OPERATIONS: FormatError = FormatError::Invalid("its operations");

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

/// Paths, of which each begins as the one before it in part; all columns but `suffixes` have one element a path.
#[derive(Default, Serialize, Deserialize)]
struct PathColumns<const MAX: usize> {
    /// 0 for no path; else 1 + the bytes that the path shares with the start of the one before.
    shared: Column<u32, MAX>,
    /// Bytes of the path after those shared.
    suffix_len: Column<u32, MAX>,
    /// The bytes after those shared, of all paths.
    suffixes: Column<u8, MAX_PATH_BYTES>,
}

impl<const MAX: usize> PathColumns<MAX> {
    /// The columns of paths that satisfy the limits.
    fn new<'a>(paths: impl Iterator<Item = Option<&'a [u8]>>) -> Self {
        let mut columns = PathColumns::default();
        let mut last: &[u8] = &[];
        for path in paths {
            // Paths are at most MAX_PATH bytes long.
            let shared = |path: &[u8]| path.iter().zip(last).take_while(|(a, b)| a == b).count();
            let mark = path.map_or(0, |path| shared(path) as u32 + 1);
            let path = path.unwrap_or_default();
            let suffix = &path[mark.saturating_sub(1) as usize..];
            columns.shared.0.push(mark);
            columns.suffix_len.0.push(suffix.len() as u32);
            columns.suffixes.0.extend(suffix);
            last = path;
        }
        columns
    }

    fn len(&self) -> usize {
        self.shared.0.len()
    }

    /// The paths. What cannot be right is the given error.
    fn paths(&self, error: FormatError) -> Result<Vec<Option<Vec<u8>>>, FormatError> {
        require(self.suffix_len.0.len() == self.len(), error.clone())?;
        let mut paths = Vec::with_capacity(self.len());
        let mut path: Vec<u8> = Vec::new();
        let mut suffixes: &[u8] = &self.suffixes.0;
        let mut total = 0;
        for (&shared, &suffix_len) in self.shared.0.iter().zip(&self.suffix_len.0) {
            let shared_len = shared.saturating_sub(1) as usize;
            let suffix;
            (suffix, suffixes) = suffixes
                .split_at_checked(suffix_len as usize)
                .ok_or(error.clone())?;
            require(shared_len <= path.len(), error.clone())?;
            require(shared_len + suffix.len() <= MAX_PATH, error.clone())?;
            path.truncate(shared_len);
            path.extend(suffix);
            total += path.len();
            at_most("bytes of paths", total, MAX_PATH_BYTES)?;
            require(shared > 0 || path.is_empty(), error.clone())?;
            paths.push((shared > 0).then(|| path.clone()));
        }
        require(suffixes.is_empty(), error)?;
        Ok(paths)
    }
}

/// The file table, in the order of paths; all columns have one element a file.
#[derive(Default, Serialize, Deserialize)]
pub struct FileColumns {
    /// Index in the table.
    index: Differences<MAX_FILES>,
    paths: PathColumns<MAX_FILES>,
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
        FileColumns {
            index: Differences::of(order.iter().map(|&index| index as i64)),
            paths: PathColumns::new(files().map(|file| file.path.as_deref())),
            device: files().map(|file| file.device).collect(),
            ino: Differences::of(files().map(|file| file.ino as i64)),
            generation: files().map(|file| file.generation).collect(),
            size: files().map(|file| file.size).collect(),
            mtime_s: Differences::of(files().map(|file| file.mtime_ns.div_euclid(NS_PER_S))),
            mtime_ns: files()
                .map(|file| file.mtime_ns.rem_euclid(NS_PER_S) as u32)
                .collect(),
        }
    }

    /// Number of files.
    pub fn len(&self) -> usize {
        self.index.0.len()
    }

    /// The table. Its contents are yet to be held against the limits.
    pub fn into_files(self) -> Result<Vec<File>, FormatError> {
        let count = self.len();
        let lengths = [
            self.paths.len(),
            self.device.0.len(),
            self.ino.0.len(),
            self.generation.0.len(),
            self.size.0.len(),
            self.mtime_s.0.len(),
            self.mtime_ns.0.len(),
        ];
        require(lengths == [count; 7], NO_TABLE)?;
        let mut files: Vec<Option<File>> = vec![None; count];
        let deltas = self
            .index
            .sums()
            .zip(self.ino.sums())
            .zip(self.mtime_s.sums());
        let paths = self.paths.paths(NO_TABLE)?;
        for (row, (path, ((index, ino), s))) in paths.into_iter().zip(deltas).enumerate() {
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

/// Operations in their order; all columns have one element an operation.
#[derive(Default, Serialize, Deserialize)]
pub struct OperationColumns {
    device: Column<u16, MAX_OPERATIONS>,
    paths: PathColumns<MAX_OPERATIONS>,
    /// Whether it lists a directory.
    lists: Column<bool, MAX_OPERATIONS>,
    /// Time of first use in units of [`TIME_QUANTUM_US`].
    time: Differences<MAX_OPERATIONS>,
}

impl OperationColumns {
    /// The columns of operations that satisfy the limits.
    pub fn new(operations: &[Operation]) -> Self {
        let is_list = |operation: &Operation| operation.kind == OperationKind::List;
        let times = operations.iter().map(|it| it.time_us / TIME_QUANTUM_US);
        OperationColumns {
            device: operations.iter().map(|it| it.device).collect(),
            paths: PathColumns::new(operations.iter().map(|it| Some(it.path.as_slice()))),
            lists: operations.iter().map(is_list).collect(),
            time: Differences::of(times.map(|time| time as i64)),
        }
    }

    /// The operations. Their contents are yet to be held against the limits.
    pub fn into_operations(self) -> Result<Vec<Operation>, FormatError> {
        let lengths = [self.device.0.len(), self.lists.0.len(), self.time.0.len()];
        require(lengths == [self.paths.len(); 3], NO_OPERATIONS)?;
        let paths = self.paths.paths(NO_OPERATIONS)?.into_iter();
        let rows = paths.zip(self.time.sums()).zip(&self.device.0);
        rows.zip(&self.lists.0)
            .map(|(((path, time), &device), &is_list)| {
                let time_us = (time as u64).checked_mul(TIME_QUANTUM_US);
                Ok(Operation {
                    device,
                    path: path.ok_or(NO_OPERATIONS)?,
                    kind: match is_list {
                        true => OperationKind::List,
                        false => OperationKind::LookUp,
                    },
                    time_us: time_us.ok_or(NO_OPERATIONS)?,
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::generate::sample;

    #[test]
    fn a_column_has_its_bound_and_says_so() {
        let read = |text| serde_json::from_str::<Column<u8, 2>>(text);
        assert_eq!(read("[1, 2]").unwrap().0, [1, 2]);
        let why = read("[1, 2, 3]").err().unwrap().to_string();
        assert!(
            why.starts_with("invalid length 3, expected at most 2 elements"),
            "{why}"
        );
    }

    #[test]
    fn a_second_has_so_many_nanoseconds() {
        let read = |mtime_ns: u32| {
            let mut columns = FileColumns::new(&sample("/bin/true").files);
            columns.mtime_ns.0[0] = mtime_ns;
            columns.into_files()
        };
        assert!(read(999_999_999).is_ok());
        assert_eq!(read(1_000_000_000), Err(NO_TABLE));
    }

    /// Columns of paths, each by what it shares with the one before, and its own end.
    fn paths(of: &[(u32, &[u8])]) -> PathColumns<MAX_FILES> {
        PathColumns {
            shared: of.iter().map(|(shared, _)| *shared).collect(),
            suffix_len: of.iter().map(|(_, end)| end.len() as u32).collect(),
            suffixes: of.iter().flat_map(|(_, end)| end.iter().copied()).collect(),
        }
    }

    #[test]
    fn what_is_no_path_has_no_bytes_and_what_is_shared_is_there() {
        let read = |of: &[(u32, &[u8])]| paths(of).paths(NO_TABLE);
        let found = read(&[(1, b"/a/b"), (4, b"c"), (0, b""), (1, b"/d")]);
        let expected: [Option<&[u8]>; 4] = [Some(b"/a/b"), Some(b"/a/c"), None, Some(b"/d")];
        let expected = expected.map(|path| path.map(<[u8]>::to_vec));
        assert_eq!(found, Ok(expected.to_vec()));
        assert_eq!(read(&[(0, b"/a")]), Err(NO_TABLE));
        assert_eq!(read(&[(1, b"/a"), (4, b"b")]), Err(NO_TABLE));
    }

    #[test]
    fn paths_are_bounded_one_by_one_and_together() {
        let long = vec![b'a'; MAX_PATH];
        let read = |of: &[(u32, &[u8])]| paths(of).paths(NO_TABLE);
        let all_shared = MAX_PATH as u32 + 1;
        assert!(read(&[(1, &long), (all_shared, b"")]).is_ok());
        assert_eq!(read(&[(1, &long), (all_shared, b"b")]), Err(NO_TABLE));
        let mut many: Vec<(u32, &[u8])> = vec![(all_shared, b""); MAX_PATH_BYTES / MAX_PATH];
        many[0] = (1, &long);
        assert!(read(&many).is_ok());
        many.push((all_shared, b""));
        assert!(matches!(read(&many), Err(FormatError::TooLarge { .. })));
    }
}
