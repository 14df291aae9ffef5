//! Metadata shift (paper §3.2, Algorithm 1).
//!
//! A data block can be asked for only when the metadata that says where it lies has been read. With
//! metadata right before its data, the drive's queue runs empty at every such pair. Letting a
//! bounded amount of later metadata pass ahead of the data keeps the queue filled.

use std::collections::VecDeque;

use crate::model::{LogEntry, Span};

/// Moves metadata forward past data: a data entry waits until at least `shift_bytes` bytes of
/// later metadata have gone before it, or until the sequence ends.
///
/// `log` is in sequence order. Metadata keeps its order among itself, and so does data; no data
/// entry overtakes a metadata entry that stood before it. Less than `shift_bytes` bytes of metadata
/// pass a data entry before the metadata entry that releases it. With `shift_bytes` 0 nothing
/// moves.
pub fn metadata_shift(log: &[LogEntry], shift_bytes: u64) -> Vec<LogEntry> {
    shift(log, |entry| entry.span, shift_bytes)
}

/// [`metadata_shift`] of anything that has a span.
pub(super) fn shift<T: Copy>(
    sequence: &[T],
    span: impl Fn(&T) -> Span,
    shift_bytes: u64,
) -> Vec<T> {
    let mut shifted = Vec::with_capacity(sequence.len());
    // Data entries with the amount of metadata, in bytes, at which each may go. `out_meta` never
    // falls, so the amounts are in order and only the front can be due.
    let mut waiting: VecDeque<(u64, T)> = VecDeque::new();
    let mut out_meta: u64 = 0;
    for &entry in sequence {
        let span = span(&entry);
        if span.place.is_metadata() {
            shifted.push(entry);
            out_meta = out_meta.saturating_add(span.bytes());
        } else {
            waiting.push_back((out_meta.saturating_add(shift_bytes), entry));
        }
        // Algorithm 1 looks only after a metadata entry. Looking after a data entry too makes a
        // difference for a shift of 0 alone: the entry is due at once and must not wait.
        let due = waiting.partition_point(|&(expire, _)| expire <= out_meta);
        shifted.extend(waiting.drain(..due).map(|(_, entry)| entry));
    }
    shifted.extend(waiting.into_iter().map(|(_, entry)| entry));
    shifted
}

#[cfg(test)]
mod tests;
