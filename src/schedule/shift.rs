//! Metadata shift (paper §3.2, Algorithm 1).
//!
//! A data block can be asked for only when the metadata that says where it lies has been read. With
//! metadata right before its data, the drive's queue runs empty at every such pair. Letting a
//! bounded amount of later metadata pass ahead of the data keeps the queue filled.

use std::collections::{HashMap, VecDeque};

use crate::model::{DeviceParams, DriveClass, LogEntry, Params, ReadOrder, Span};

/// Moves metadata forward past data: a data entry waits until at least `shift_bytes` bytes of
/// later metadata have gone before it, or until the sequence ends.
///
/// `log` is in sequence order. Metadata keeps its order among itself, and so does data; no data
/// entry overtakes a metadata entry that stood before it. Less than `shift_bytes` bytes of metadata
/// pass a data entry before the metadata entry that releases it. With `shift_bytes` 0 nothing
/// moves.
pub fn metadata_shift(log: &[LogEntry], shift_bytes: u64) -> Vec<LogEntry> {
    let params = DeviceParams::uniform(Params {
        merge_distance: 0,
        shift_bytes,
        infill: None,
        order: ReadOrder::Access,
    });
    shift(log, |entry| entry.span, |_| params.class(0), &params)
}

/// [`metadata_shift`] of anything that has a span, on drives of several classes: the data of each class wait for
/// metadata of that class, as its parameters say.
pub(super) fn shift<T: Copy>(
    sequence: &[T],
    span: impl Fn(&T) -> Span,
    class: impl Fn(&T) -> DriveClass,
    params: &DeviceParams,
) -> Vec<T> {
    let mut shifted = Vec::with_capacity(sequence.len());
    let mut classes: HashMap<DriveClass, ShiftedClass<T>> = HashMap::new();
    for (position, &entry) in sequence.iter().enumerate() {
        let (span, class) = (span(&entry), class(&entry));
        let of_class = classes.entry(class).or_insert_with(|| ShiftedClass {
            shift_bytes: params.of(class).shift_bytes,
            out_meta: 0,
            waiting: VecDeque::new(),
        });
        if span.place.is_metadata() {
            shifted.push(entry);
            of_class.out_meta = of_class.out_meta.saturating_add(span.bytes());
        } else {
            of_class.wait(position, entry);
        }
        // Algorithm 1 looks only after a metadata entry. Looking after a data entry too makes a
        // difference for a shift of 0 alone: the entry is due at once and must not wait.
        shifted.extend(of_class.take_due());
    }
    let waiting = classes.into_values().flat_map(|class| class.waiting);
    let mut rest: Vec<WaitingData<T>> = waiting.collect();
    rest.sort_unstable_by_key(|data| data.position);
    shifted.extend(rest.into_iter().map(|data| data.entry));
    shifted
}

/// A data entry that waits for metadata.
struct WaitingData<T> {
    /// Amount of metadata, in bytes, at which it may go.
    expire: u64,
    /// In the sequence.
    position: usize,
    entry: T,
}

/// The entries of the drives of one class.
struct ShiftedClass<T> {
    shift_bytes: u64,
    /// Bytes of metadata that have gone.
    out_meta: u64,
    /// `out_meta` never falls, so the amounts are in order and only the front can be due.
    waiting: VecDeque<WaitingData<T>>,
}

impl<T: Copy> ShiftedClass<T> {
    fn wait(&mut self, position: usize, entry: T) {
        self.waiting.push_back(WaitingData {
            expire: self.out_meta.saturating_add(self.shift_bytes),
            position,
            entry,
        });
    }

    fn take_due(&mut self) -> impl Iterator<Item = T> {
        let out_meta = self.out_meta;
        let due = self.waiting.partition_point(|data| data.expire <= out_meta);
        self.waiting.drain(..due).map(|data| data.entry)
    }
}

#[cfg(test)]
mod tests;
