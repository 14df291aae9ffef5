//! Which program interpreter an executable asks for. The kernel opens it by a path that appears in no system
//! call.

use object::elf::{FileHeader32, FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, FileKind};

/// The path of the ELF interpreter, from the first bytes of an executable file, which may be hostile. `None`
/// if it asks for none, or is no ELF file.
pub fn of(head: &[u8]) -> Option<Vec<u8>> {
    match FileKind::parse(head).ok()? {
        FileKind::Elf32 => in_header::<FileHeader32<Endianness>>(head),
        FileKind::Elf64 => in_header::<FileHeader64<Endianness>>(head),
        _ => None,
    }
}

fn in_header<H: FileHeader<Endian = Endianness>>(head: &[u8]) -> Option<Vec<u8>> {
    let header = H::parse(head).ok()?;
    let endian = header.endian().ok()?;
    header
        .program_headers(endian, head)
        .ok()?
        .iter()
        .filter(|segment| segment.p_type(endian) == PT_INTERP)
        .find_map(|segment| segment.interpreter(endian, head).ok().flatten())
        .map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use proptest::prelude::*;

    use super::*;

    fn own_head() -> Vec<u8> {
        let mut head = Vec::new();
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        file.take(4096).read_to_end(&mut head).unwrap();
        head
    }

    #[test]
    fn an_executable_names_its_interpreter_and_other_files_have_none() {
        let path = of(&own_head()).expect("test programs are linked dynamically");
        assert!(std::path::Path::new(std::str::from_utf8(&path).unwrap()).exists());
        assert_eq!(of(b""), None);
        assert_eq!(of(b"#!/bin/sh\n"), None);
        assert_eq!(of(&own_head()[..40]), None);
    }

    proptest! {
        #[test]
        fn any_damage_is_parsed_without_a_panic(at in 0usize..4096, value: u8, cut in 0usize..4096) {
            let mut head = own_head();
            head[at] = value;
            of(&head);
            of(&head[..cut]);
        }
    }
}
