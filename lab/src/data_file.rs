//! Lists of entries in TOML, whose mistakes are told with their line.

use std::ops::Range;

use anyhow::{Result, anyhow, bail};
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// An error in an entry, and the key at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    key: String,
    what: String,
}

impl Wrong {
    /// Something wrong at `key`, which may be in a table within the entry. `what` says what to do.
    pub fn at(key: &str, what: String) -> Self {
        let key = key.to_owned();
        Wrong { key, what }
    }

    /// The same, said of something: `of` goes before what is wrong.
    pub fn of(mut self, of: &str) -> Self {
        self.what = format!("{of}: {}", self.what);
        self
    }
}

/// Reads a file.
///
/// # Errors
/// Says in a line what is wrong, and in which line of the file.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T> {
    toml::from_str(text).map_err(|error| {
        let message = error.message().replace('\n', ", ");
        match error.span() {
            Some(span) => anyhow!("line {}: {message}", line(text, &span)),
            None => anyhow!("{message}"),
        }
    })
}

/// Asks `judge` about each entry of the list `[[list]]`, beside those before it.
///
/// # Errors
/// The first that it finds wrong, with the line of the key, or of the entry where that has no such key.
pub fn check<T>(
    text: &str,
    list: &str,
    entries: &[T],
    judge: impl Fn(&T, &[T]) -> Result<(), Wrong>,
) -> Result<()> {
    for (index, entry) in entries.iter().enumerate() {
        if let Err(wrong) = judge(entry, &entries[..index]) {
            match place(text, list, index, &wrong.key) {
                Some(span) => bail!("line {}: {}", line(text, &span), wrong.what),
                None => bail!("{}", wrong.what),
            }
        }
    }
    Ok(())
}

/// Where a key of an entry is in the file, in bytes.
fn place(text: &str, list: &str, index: usize, key: &str) -> Option<Range<usize>> {
    let document = DeTable::parse(text).ok()?.into_inner();
    let (_, all) = document.iter().find(|(name, _)| name.get_ref() == list)?;
    let entry = all.get_ref().as_array()?.get(index)?;
    find(entry, key).or_else(|| Some(entry.span()))
}

fn find(value: &Spanned<DeValue<'_>>, key: &str) -> Option<Range<usize>> {
    let table = value.get_ref().as_table()?;
    table
        .iter()
        .find_map(|(name, value)| match name.get_ref() == key {
            true => Some(name.span()),
            false => find(value, key),
        })
}

/// Number of the line in which a span begins, from 1.
fn line(text: &str, span: &Range<usize>) -> usize {
    let before = text.bytes().take(span.start);
    1 + before.filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    type File = BTreeMap<String, Vec<BTreeMap<String, toml::Value>>>;

    const TEXT: &str =
        "# two\n\n[[thing]]\na = 1\nb = { c = 2 }\n\n[[thing]]\na = 3\n[thing.b]\nc = 4\n";

    /// The complaint about the last entry, at `key`.
    fn complaint(key: &str) -> String {
        let things = read::<File>(TEXT).unwrap().remove("thing").unwrap();
        let judge = |_: &_, before: &[_]| match before {
            [] => Ok(()),
            _ => Err(Wrong::at(key, "change it".to_owned())),
        };
        check(TEXT, "thing", &things, judge)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn lines_are_those_of_keys_and_otherwise_of_entries() {
        assert_eq!(complaint("a"), "line 8: change it");
        assert_eq!(complaint("c"), "line 10: change it");
        assert_eq!(complaint("missing"), "line 7: change it");
    }

    #[test]
    fn what_is_no_toml_is_said_in_a_line() {
        let error = read::<File>("[[thing]]\na = \n").unwrap_err().to_string();
        assert!(
            error.starts_with("line 2: ") && !error.contains('\n'),
            "{error}"
        );
        let error = read::<File>("thing = 1").unwrap_err().to_string();
        assert!(error.starts_with("line 1: "), "{error}");
    }
}
