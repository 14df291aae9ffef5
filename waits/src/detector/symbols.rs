//! Addresses of the kernel's functions that the classification knows, from /proc/kallsyms.

use std::fs::File;
use std::io::{self, BufRead, BufReader};

/// The kernel's symbols.
const KALLSYMS: &str = "/proc/kallsyms";

/// Where the known functions lie. The rest of the symbols, some megabytes, is not kept.
pub(super) struct Symbols {
    /// Beginning, end and name of each, by address.
    functions: Vec<(u64, u64, &'static str)>,
}

impl Symbols {
    /// Reads them once. Functions of modules that are loaded later are not known.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read(known: &[&'static str]) -> io::Result<Self> {
        Symbols::parse(BufReader::new(File::open(KALLSYMS)?), known)
    }

    fn parse(mut text: impl BufRead, known: &[&'static str]) -> io::Result<Self> {
        let mut known = known.to_vec();
        known.sort_unstable();
        let mut addresses = Vec::new();
        let mut functions = Vec::new();
        let mut line = String::new();
        while text.read_line(&mut line)? > 0 {
            if let Some((address, name)) = function(&line) {
                addresses.push(address);
                if let Ok(index) = known.binary_search(&name) {
                    functions.push((address, 0, known[index]));
                }
            }
            line.clear();
        }
        addresses.sort_unstable();
        functions.sort_unstable();
        for (start, end, _) in &mut functions {
            let next = addresses.partition_point(|address| address <= start);
            *end = addresses.get(next).copied().unwrap_or(u64::MAX);
        }
        Ok(Symbols { functions })
    }

    /// Whether the kernel hides the addresses (kernel.kptr_restrict, or a missing capability).
    pub fn are_hidden(&self) -> bool {
        self.functions.is_empty()
    }

    /// The known functions of a stack of return addresses, in its order.
    pub fn names(&self, stack: &[u64]) -> Vec<&'static str> {
        stack.iter().filter_map(|&at| self.name(at)).collect()
    }

    /// The function that a return address is in. The call may be the function's last instruction: look at the
    /// byte before.
    fn name(&self, return_address: u64) -> Option<&'static str> {
        let at = return_address.checked_sub(1)?;
        let after = self.functions.partition_point(|&(start, _, _)| start <= at);
        let (_, end, name) = *self.functions.get(after.checked_sub(1)?)?;
        (at < end).then_some(name)
    }
}

/// Address and name of a line's function, without what compilers append (`.isra.0`, `.constprop.0`). `None` for
/// data, and where the address is hidden.
fn function(line: &str) -> Option<(u64, &str)> {
    let mut words = line.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let kind = words.next()?;
    if address == 0 || !matches!(kind, "t" | "T" | "w" | "W") {
        return None;
    }
    let name = words.next()?;
    Some((address, name.split('.').next().unwrap_or(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
ffffffff81000000 T _stext
ffffffff81000100 t folio_wait_bit_common
ffffffff81000200 T unknown_function
ffffffff81000180 t blk_mq_get_tag.constprop.0
ffffffff82000000 D blk_mq_get_tag
ffffffffc0000000 t start_this_handle.isra.0\t[jbd2]
";
    const KNOWN: [&str; 3] = [
        "start_this_handle",
        "blk_mq_get_tag",
        "folio_wait_bit_common",
    ];

    #[test]
    fn return_addresses_are_found_in_the_functions_that_they_return_to() {
        let symbols = Symbols::parse(TEXT.as_bytes(), &KNOWN).unwrap();
        let base = 0xffff_ffff_8100_0000;
        let names = symbols.names(&[
            base,
            base + 0x100, // the end of _stext
            base + 0x101,
            base + 0x180, // the end of the function, after its last call
            base + 0x181,
            base + 0x201,
            0xffff_ffff_c000_0001,
            0,
        ]);
        let expected = [
            "folio_wait_bit_common",
            "folio_wait_bit_common",
            "blk_mq_get_tag",
            "start_this_handle",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn hidden_addresses_are_noticed() {
        let text = "0000000000000000 t folio_wait_bit_common\n";
        assert!(
            Symbols::parse(text.as_bytes(), &KNOWN)
                .unwrap()
                .are_hidden()
        );
    }
}
