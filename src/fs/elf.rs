//! What the ELF file of a program or library says (elf(5)): its build ID, a note that names this very build (`ld --build-id`),
//! and its interpreter, the loader that the kernel executes in its place.
//!
//! The file may be anything: at most a page of headers and a few pages of segments are read, and no number in it is believed.

use std::os::fd::AsFd;

use rustix::io::{Errno, pread};

/// Most bytes that are read of the headers, of a segment of notes, and of the interpreter's path (the kernel's `PATH_MAX`).
const HEADER_BYTES: usize = 4096;
const MOST_NOTES: u64 = 16 << 10;
const LONGEST_PATH: u64 = 4096;

/// Most segments of a kind that are read. Linkers make up to three of notes.
const MOST_SEGMENTS: usize = 8;

/// Size of a segment's header (`Elf64_Phdr`), in bytes. The kernel takes no other.
const SEGMENT_HEADER: u16 = 56;

const PT_INTERP: u32 = 3;
const PT_NOTE: u32 = 4;
const NT_GNU_BUILD_ID: u32 = 3;

/// Longest build ID, in bytes.
const LONGEST: usize = 64;

/// The build ID of an open file in hexadecimal digits; `None` if it has none, or cannot be read.
pub fn build_id(file: impl AsFd) -> Option<String> {
    let headers = read_at(&file, 0, HEADER_BYTES).ok()?;
    segments(&headers, PT_NOTE, MOST_NOTES)
        .into_iter()
        .find_map(|(offset, len)| {
            let notes = read_at(&file, offset, len as usize).ok()?;
            id_in(&notes)
        })
}

/// The path of the interpreter of an open program; `None` if it has none, as a library or a static program, or cannot be read.
pub fn interpreter(file: impl AsFd) -> Option<Vec<u8>> {
    let headers = read_at(&file, 0, HEADER_BYTES).ok()?;
    // The kernel takes the first one.
    let (offset, len) = *segments(&headers, PT_INTERP, LONGEST_PATH).first()?;
    let mut path = read_at(&file, offset, len as usize).ok()?;
    path.truncate(path.iter().position(|&byte| byte == 0)?);
    Some(path)
}

fn read_at(file: impl AsFd, offset: u64, len: usize) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; len];
    let read = pread(file, bytes.as_mut_slice(), offset)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Position and length of the segments of a kind that have at most so many bytes, by the first bytes of a 64-bit file in this
/// machine's byte order.
fn segments(headers: &[u8], kind: u32, most: u64) -> Vec<(u64, u64)> {
    const HEAD: [u8; 6] = [
        0x7f,
        b'E',
        b'L',
        b'F',
        2,
        if cfg!(target_endian = "little") { 1 } else { 2 },
    ];
    if !headers.starts_with(&HEAD) {
        return Vec::new();
    }
    let table = || {
        let (start, size, count) = (long(headers, 32)?, short(headers, 54)?, short(headers, 56)?);
        if size != SEGMENT_HEADER {
            return None;
        }
        let segment = move |index: u16| {
            let at = (u64::from(index) * u64::from(size)).checked_add(start)?;
            let header = headers.get(usize::try_from(at).ok()?..)?;
            let (offset, len) = (long(header, 8)?, long(header, 32)?);
            (word(header, 0)? == kind && len <= most).then_some((offset, len))
        };
        let segments = (0..count).filter_map(segment);
        Some(segments.take(MOST_SEGMENTS).collect())
    };
    table().unwrap_or_default()
}

/// The build ID among notes.
fn id_in(mut notes: &[u8]) -> Option<String> {
    loop {
        let (name_len, len) = (word(notes, 0)? as usize, word(notes, 4)? as usize);
        let kind = word(notes, 8)?;
        let own = notes.get(12..)?;
        let content = own.get(padded(name_len)?..)?;
        if kind == NT_GNU_BUILD_ID && own.starts_with(b"GNU\0") && name_len == 4 {
            let id = content.get(..len)?;
            let is_id = (1..=LONGEST).contains(&id.len());
            return is_id.then(|| id.iter().map(|byte| format!("{byte:02x}")).collect());
        }
        notes = content.get(padded(len)?..)?;
    }
}

/// Names and contents of notes end at multiples of four.
fn padded(len: usize) -> Option<usize> {
    len.checked_next_multiple_of(4)
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    field(bytes, at).map(u16::from_ne_bytes)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    field(bytes, at).map(u32::from_ne_bytes)
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    field(bytes, at).map(u64::from_ne_bytes)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    /// A file with one segment of notes, of which the second is the build ID.
    fn elf() -> Vec<u8> {
        let mut notes = Vec::new();
        for (kind, name, content) in [
            (1_u32, &b"Linux\0"[..], &b"abc"[..]),
            (3, b"GNU\0", &[0xab, 0, 0x1f]),
        ] {
            for number in [name.len() as u32, content.len() as u32, kind] {
                notes.extend(number.to_ne_bytes());
            }
            for part in [name, content] {
                notes.extend(part);
                notes.resize(notes.len().next_multiple_of(4), 0);
            }
        }
        let mut file = b"\x7fELF\x02".to_vec();
        file.push(if cfg!(target_endian = "little") { 1 } else { 2 });
        file.resize(64 + 56, 0);
        file[32..40].copy_from_slice(&64_u64.to_ne_bytes());
        file[54..56].copy_from_slice(&56_u16.to_ne_bytes());
        file[56..58].copy_from_slice(&1_u16.to_ne_bytes());
        file[64..68].copy_from_slice(&PT_NOTE.to_ne_bytes());
        file[72..80].copy_from_slice(&120_u64.to_ne_bytes());
        file[96..104].copy_from_slice(&(notes.len() as u64).to_ne_bytes());
        file.extend(notes);
        file
    }

    /// A program with this for its interpreter's path.
    pub(crate) fn program(interpreter: &[u8]) -> Vec<u8> {
        let mut file = elf();
        file[64..68].copy_from_slice(&PT_INTERP.to_ne_bytes());
        file[96..104].copy_from_slice(&(interpreter.len() as u64).to_ne_bytes());
        file.truncate(120);
        file.extend(interpreter);
        file
    }

    fn id_of(bytes: &[u8]) -> Option<String> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        build_id(&file)
    }

    fn interpreter_of(bytes: &[u8]) -> Option<Vec<u8>> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        interpreter(&file)
    }

    #[test]
    fn the_interpreter_is_that_of_the_first_segment_of_its_kind() {
        let own = std::fs::File::open("/proc/self/exe").unwrap();
        let found = interpreter(&own).unwrap();
        assert!(found.starts_with(b"/") && found.windows(3).any(|part| part == b"ld-"));
        assert_eq!(interpreter_of(&elf()), None, "notes alone");
        assert_eq!(interpreter_of(&program(b"/ld\0more\0")).unwrap(), b"/ld");
        assert_eq!(interpreter_of(&program(b"/ld")), None, "no end");
    }

    #[test]
    fn the_build_id_is_found_behind_other_notes() {
        assert_eq!(id_of(&elf()).as_deref(), Some("ab001f"));
        assert_eq!(id_of(b"#!/bin/sh\n"), None);
        assert_eq!(id_of(b""), None);
    }

    /// One header that counts as all of them, or a table of nothing but notes, would have a file read for minutes.
    #[test]
    fn few_segments_are_read_whatever_the_headers_claim() {
        let mut file = elf();
        file[54..58].copy_from_slice(&[0, 0, 0xff, 0xff]);
        assert_eq!(segments(&file, PT_NOTE, MOST_NOTES), []);
        let mut file = elf();
        file[56..58].copy_from_slice(&0xffff_u16.to_ne_bytes());
        let header = file[64..120].to_vec();
        file.truncate(64);
        file.extend(header.repeat(70));
        assert_eq!(segments(&file, PT_NOTE, MOST_NOTES).len(), MOST_SEGMENTS);
    }

    proptest! {
        #[test]
        fn damaged_files_are_taken_or_refused(at in 0_usize..160, to: u8, cut in 0_usize..170) {
            let mut file = elf();
            let len = file.len();
            file[at % len] = to;
            file.truncate(cut);
            let notes = segments(&file, PT_NOTE, MOST_NOTES);
            prop_assert!(notes.iter().all(|(_, len)| *len <= MOST_NOTES));
            let _ = id_of(&file);
            let _ = id_in(&file);
            // As the kernel would read it, the one segment is the interpreter's path.
            if let Some(kind) = file.get_mut(64..68) {
                kind.copy_from_slice(&PT_INTERP.to_ne_bytes());
            }
            let path = interpreter_of(&file);
            prop_assert!(path.is_none_or(|path| path.len() < LONGEST_PATH as usize && !path.contains(&0)));
        }
    }
}
