//! Files in TOML, whose mistakes are told with their line.

use anyhow::{Result, anyhow};
use serde::de::DeserializeOwned;

/// Reads a file.
///
/// # Errors
/// Says in a line what is wrong, and in which line of the file.
pub fn parse_toml<T: DeserializeOwned>(text: &str) -> Result<T> {
    toml::from_str(text).map_err(|error| {
        let message = error.message().replace('\n', ", ");
        match error.span() {
            Some(span) => {
                let before = text.bytes().take(span.start);
                let line = 1 + before.filter(|byte| *byte == b'\n').count();
                anyhow!("line {line}: {message}")
            }
            None => anyhow!("{message}"),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn what_is_no_toml_is_said_in_a_line() {
        type File = BTreeMap<String, Vec<BTreeMap<String, toml::Value>>>;
        let complaint = |text| parse_toml::<File>(text).unwrap_err().to_string();
        let error = complaint("[[thing]]\na = \n");
        assert!(
            error.starts_with("line 2: ") && !error.contains('\n'),
            "{error}"
        );
        let error = complaint("thing = 1");
        assert!(error.starts_with("line 1: "), "{error}");
    }
}
