//! Where a probe may read: a whole drive, or pieces of files on it. Pure.

/// A part of a file, or of a device's node, that lies in one piece on the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadablePiece {
    /// Index of the open file.
    pub file: usize,
    /// Where it begins in the file, in bytes.
    pub offset: u64,
    /// Where it begins on the drive, in bytes.
    pub position: u64,
    /// Bytes.
    pub length: u64,
}

/// A read of the probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeRead {
    /// Index of the open file.
    pub file: usize,
    /// Where in the file, in bytes.
    pub offset: u64,
    /// Where on the drive, in bytes.
    pub position: u64,
}

/// Positions of reads are multiples of this, as direct I/O and what launches read are.
const ALIGNMENT: u64 = 4096;

/// Pieces of a drive, in the drive's order.
#[derive(Clone, Debug, Default)]
pub struct ReadableArea {
    pieces: Vec<ReadablePiece>,
    /// Bytes of the pieces before each, and of all.
    before: Vec<u64>,
}

impl ReadableArea {
    /// The area of these pieces. What is not aligned to 4 KiB in file and drive is left out.
    pub fn new(pieces: impl IntoIterator<Item = ReadablePiece>) -> ReadableArea {
        let mut pieces: Vec<ReadablePiece> = pieces.into_iter().collect();
        let is_aligned = |piece: &ReadablePiece| {
            piece.offset.is_multiple_of(ALIGNMENT) && piece.position.is_multiple_of(ALIGNMENT)
        };
        for piece in &mut pieces {
            piece.length -= piece.length % ALIGNMENT;
        }
        pieces.retain(|piece| is_aligned(piece) && piece.length > 0);
        pieces.sort_by_key(|piece| piece.position);
        let mut sum = 0;
        let mut before = vec![0];
        for piece in &pieces {
            sum += piece.length;
            before.push(sum);
        }
        ReadableArea { pieces, before }
    }

    /// All its bytes.
    pub fn bytes(&self) -> u64 {
        self.before.last().copied().unwrap_or(0)
    }

    /// A read of `bytes` at the share `share` (0 to 1) of the area; `None` if the piece there is too short.
    pub fn random(&self, share: f64, bytes: u64) -> Option<ProbeRead> {
        let at = ((self.bytes() as f64 * share) as u64).min(self.bytes().checked_sub(1)?);
        let index = self.before.partition_point(|&before| before <= at) - 1;
        let piece = &self.pieces[index];
        let room = piece.length.checked_sub(bytes)?;
        read_in(piece, (at - self.before[index]).min(room))
    }

    /// A read of `bytes` at, or next to, a position on the drive, at most `tolerance` bytes away; `None` if the area has
    /// nothing there.
    pub fn near(&self, position: u64, bytes: u64, tolerance: u64) -> Option<ProbeRead> {
        let behind = (self.pieces).partition_point(|piece| piece.position <= position);
        // The piece that holds the position, or the next one.
        let candidates = [behind.checked_sub(1), Some(behind)];
        candidates
            .into_iter()
            .flatten()
            .filter_map(|index| self.pieces.get(index))
            .filter_map(|piece| {
                let room = piece.length.checked_sub(bytes)?;
                let within = position.saturating_sub(piece.position).min(room);
                read_in(piece, within)
            })
            .filter(|read| read.position.abs_diff(position) <= tolerance)
            .min_by_key(|read| read.position.abs_diff(position))
    }

    /// The longest piece.
    pub fn longest(&self) -> Option<&ReadablePiece> {
        self.pieces.iter().max_by_key(|piece| piece.length)
    }
}

fn read_in(piece: &ReadablePiece, within: u64) -> Option<ProbeRead> {
    let within = within - within % ALIGNMENT;
    Some(ProbeRead {
        file: piece.file,
        offset: piece.offset + within,
        position: piece.position + within,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn piece(file: usize, offset: u64, position: u64, length: u64) -> ReadablePiece {
        ReadablePiece {
            file,
            offset,
            position,
            length,
        }
    }

    #[test]
    fn positions_are_looked_up_over_files() {
        let area = ReadableArea::new([
            piece(1, 0, 1 << 20, 1 << 16),
            piece(0, 8192, 0, 16384),
            piece(2, 100, 1 << 21, 4096),
        ]);
        assert_eq!(area.bytes(), 16384 + (1 << 16));
        let first = area.random(0.0, 4096).unwrap();
        assert_eq!((first.file, first.offset, first.position), (0, 8192, 0));
        let last = area.random(1.0, 8192).unwrap();
        assert_eq!((last.file, last.offset), (1, (1 << 16) - 8192));
        assert_eq!(
            area.random(0.0, 1 << 15),
            None,
            "the piece there is shorter"
        );
        let near = area.near((1 << 20) - 4096, 4096, 4096).unwrap();
        assert_eq!((near.file, near.offset), (1, 0));
        assert_eq!(area.near(1 << 19, 4096, 4096), None);
        assert_eq!(area.longest().unwrap().file, 1);
        let nothing = ReadableArea::new([]);
        assert_eq!(nothing.random(0.5, 4096), None);
    }

    proptest! {
        /// Every read lies in a piece, aligned, and where it says.
        #[test]
        fn reads_stay_in_their_pieces(
            lengths in prop::collection::vec((1..64u64, 0..64u64), 1..20),
            shares in prop::collection::vec(0.0..1.0f64, 50),
            pages in 1..33u64,
        ) {
            let mut position = 0;
            let pieces: Vec<ReadablePiece> = lengths.iter().enumerate().map(|(file, (length, hole))| {
                let found = piece(file, 4096 * hole, position, length * 4096);
                position += (length + hole) * 4096;
                found
            }).collect();
            let area = ReadableArea::new(pieces.clone());
            for share in shares {
                let target = (share * position as f64) as u64;
                let found = [area.random(share, pages * 4096), area.near(target, pages * 4096, 1 << 16)];
                for read in found.into_iter().flatten() {
                    let piece = &pieces[read.file];
                    prop_assert!(read.offset.is_multiple_of(4096));
                    prop_assert!(read.offset >= piece.offset);
                    prop_assert!(read.offset + pages * 4096 <= piece.offset + piece.length);
                    prop_assert_eq!(read.position - piece.position, read.offset - piece.offset);
                }
            }
        }
    }
}
