//! What the ELF file of a program or library says (elf(5)): its build ID, a note that names this very build (`ld --build-id`),
//! its interpreter, the loader that the kernel executes in its place, and the libraries that the loader maps for it.
//!
//! The file may be anything: at most a page of headers, a few pages of segments and the names of some libraries are read, and
//! no number in it is believed.

use std::os::fd::AsFd;

use rustix::io::{Errno, pread};

/// Most bytes that are read of the headers, of a segment of notes, and of the interpreter's path (the kernel's `PATH_MAX`).
const HEADER_BYTES: usize = 4096;
const MOST_NOTES: u64 = 16 << 10;
const LONGEST_PATH: u64 = 4096;

/// Most bytes that are read of a dynamic section, and most libraries that a file may need. Large programs have sections of a
/// few KiB, and need some dozens.
const MOST_DYNAMIC: u64 = 16 << 10;
const MOST_NEEDED: usize = 256;

/// Longest name of a file, with the zero behind it (the kernel's `NAME_MAX`), in bytes.
const LONGEST_NAME: usize = 256;

/// Most segments of a kind that are read. Linkers make up to three of notes.
const MOST_SEGMENTS: usize = 8;

/// Size of a segment's header (`Elf64_Phdr`), in bytes. The kernel takes no other.
const SEGMENT_HEADER: u16 = 56;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const PT_NOTE: u32 = 4;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const NT_GNU_BUILD_ID: u32 = 3;

/// Longest build ID, in bytes.
const LONGEST: usize = 64;

/// The build ID of an open file in hexadecimal digits; `None` if it has none, or cannot be read.
pub fn build_id(file: impl AsFd) -> Option<String> {
    let headers = read_at(&file, 0, HEADER_BYTES).ok()?;
    segments(&headers, PT_NOTE, MOST_NOTES)
        .into_iter()
        .find_map(|notes| id_in(&notes.read(&file)?))
}

/// The path of the interpreter of an open program; `None` if it has none, as a library or a static program, or cannot be read.
pub fn interpreter(file: impl AsFd) -> Option<Vec<u8>> {
    let headers = read_at(&file, 0, HEADER_BYTES).ok()?;
    // The kernel takes the first one.
    let path = segments(&headers, PT_INTERP, LONGEST_PATH)
        .first()?
        .read(&file)?;
    until_zero(path)
}

/// The names of the libraries that an open program or library needs, in their order (`DT_NEEDED`); none if it says of none, or
/// cannot be read.
pub fn needed_libraries(file: impl AsFd) -> Vec<Vec<u8>> {
    let needed = || {
        let headers = read_at(&file, 0, HEADER_BYTES).ok()?;
        let dynamic = segments(&headers, PT_DYNAMIC, MOST_DYNAMIC)
            .first()?
            .read(&file)?;
        let strings = tagged(&dynamic, DT_STRTAB).next()?;
        // It is told by its place in memory.
        let loaded = segments(&headers, PT_LOAD, u64::MAX).into_iter();
        let start = loaded
            .filter_map(|segment| segment.place_of(strings))
            .next()?;
        let name = |at: u64| {
            let name = read_at(&file, start.checked_add(at)?, LONGEST_NAME).ok()?;
            until_zero(name).filter(|name| !name.is_empty())
        };
        let names = tagged(&dynamic, DT_NEEDED).take(MOST_NEEDED);
        Some(names.filter_map(name).collect())
    };
    needed().unwrap_or_default()
}

/// The values with this tag in a dynamic section (`Elf64_Dyn`).
fn tagged(dynamic: &[u8], tag: u64) -> impl Iterator<Item = u64> {
    let entries = dynamic.chunks_exact(16);
    entries.filter_map(move |entry| (long(entry, 0)? == tag).then(|| long(entry, 8))?)
}

/// The bytes before the first zero; `None` if there is no zero.
fn until_zero(mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    bytes.truncate(bytes.iter().position(|&byte| byte == 0)?);
    Some(bytes)
}

/// A part of a file that is of use when it is executed, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    /// In the file.
    offset: u64,
    /// In memory, before it is placed anywhere.
    address: u64,
    /// In the file.
    len: u64,
}

impl Segment {
    /// The whole of it, or what the file has of that.
    fn read(&self, file: impl AsFd) -> Option<Vec<u8>> {
        read_at(file, self.offset, usize::try_from(self.len).ok()?).ok()
    }

    /// Where in the file the byte of this address lies.
    fn place_of(&self, address: u64) -> Option<u64> {
        let at = address
            .checked_sub(self.address)
            .filter(|&at| at < self.len)?;
        self.offset.checked_add(at)
    }
}

fn read_at(file: impl AsFd, offset: u64, len: usize) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; len];
    let read = pread(file, bytes.as_mut_slice(), offset)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// The segments of a kind that have at most so many bytes, by the first bytes of a 64-bit file in this machine's byte order.
fn segments(headers: &[u8], kind: u32, most: u64) -> Vec<Segment> {
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
            let segment = Segment {
                offset: long(header, 8)?,
                address: long(header, 16)?,
                len: long(header, 32)?,
            };
            (word(header, 0)? == kind && segment.len <= most).then_some(segment)
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

    /// Where [`program`] says that its first byte lies in memory.
    const LOADED_AT: u64 = 0x40_0000;

    /// A program with this for its interpreter's path, if it is not empty, that needs these libraries.
    pub(crate) fn program(interpreter: &[u8], needed: &[&str]) -> Vec<u8> {
        let headers = 64 + 3 * 56;
        let dynamic = headers + interpreter.len();
        let strings = dynamic + 16 * (needed.len() + 2);
        let mut names = vec![0];
        let mut entries = Vec::new();
        for name in needed {
            entries.extend([DT_NEEDED, names.len() as u64]);
            names.extend(name.as_bytes());
            names.push(0);
        }
        entries.extend([DT_STRTAB, LOADED_AT + strings as u64, 0, 0]);
        let segments = [
            (PT_LOAD, 0, strings + names.len()),
            (PT_DYNAMIC, dynamic, strings - dynamic),
            (PT_INTERP, headers, interpreter.len()),
        ];
        let segments = &segments[..2 + usize::from(!interpreter.is_empty())];
        let mut file = elf();
        file.truncate(64);
        file[56..58].copy_from_slice(&(segments.len() as u16).to_ne_bytes());
        for &(kind, offset, len) in segments {
            let (offset, len) = (offset as u64, len as u64);
            file.extend(kind.to_ne_bytes());
            file.extend(0_u32.to_ne_bytes());
            for number in [offset, LOADED_AT + offset, 0, len, len, 0] {
                file.extend(number.to_ne_bytes());
            }
        }
        file.resize(headers, 0);
        file.extend(interpreter);
        file.extend(entries.into_iter().flat_map(u64::to_ne_bytes));
        file.extend(names);
        file
    }

    fn libraries_of(bytes: &[u8]) -> Vec<String> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        let names = needed_libraries(&file).into_iter();
        names.map(|name| String::from_utf8(name).unwrap()).collect()
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
        assert_eq!(
            interpreter_of(&program(b"/ld\0more\0", &[])).unwrap(),
            b"/ld"
        );
        assert_eq!(interpreter_of(&program(b"/ld", &[])), None, "no end");
    }

    #[test]
    fn libraries_are_needed_by_their_names() {
        let own = std::fs::File::open("/proc/self/exe").unwrap();
        let found = needed_libraries(&own);
        assert!(
            found.iter().any(|name| name.starts_with(b"libc.")),
            "{found:?}"
        );
        let two = program(b"/ld\0", &["liba.so.1", "libb.so"]);
        assert_eq!(libraries_of(&two), ["liba.so.1", "libb.so"]);
        assert_eq!(libraries_of(&program(b"", &[])), [""; 0]);
        // Names that lie in no segment.
        let mut elsewhere = two.clone();
        elsewhere[80..88].copy_from_slice(&(LOADED_AT * 2).to_ne_bytes());
        assert_eq!(libraries_of(&elsewhere), [""; 0]);
        // The last one has no end, so that it is none.
        assert_eq!(libraries_of(&two[..two.len() - 1]), ["liba.so.1"]);
        assert_eq!(libraries_of(&elf()), [""; 0]);
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
            prop_assert!(notes.iter().all(|notes| notes.len <= MOST_NOTES));
            let _ = id_of(&file);
            let _ = id_in(&file);
            // As the kernel would read it, the one segment is the interpreter's path.
            if let Some(kind) = file.get_mut(64..68) {
                kind.copy_from_slice(&PT_INTERP.to_ne_bytes());
            }
            let path = interpreter_of(&file);
            prop_assert!(path.is_none_or(|path| path.len() < LONGEST_PATH as usize && !path.contains(&0)));
        }

        #[test]
        fn of_a_damaged_file_a_library_is_a_name_or_none(at in 64_usize..330, to: u8, cut in 0_usize..340) {
            let mut file = program(b"/ld\0", &["liba.so.1", "libb.so"]);
            let len = file.len();
            file[at % len] = to;
            file.truncate(cut);
            let mut open = tempfile::tempfile().unwrap();
            open.write_all(&file).unwrap();
            for name in needed_libraries(&open) {
                prop_assert!(!name.is_empty() && name.len() < LONGEST_NAME && !name.contains(&0));
            }
        }
    }
}
