//! Plain data as dictionaries `a{sv}` on the bus and objects in JSON: how serde writes their members.

/// A member of a dictionary: a variant on the bus, itself in JSON.
pub mod member {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use zbus::zvariant::{Type, as_value};

    pub fn serialize<T, S>(value: &T, serializer: S) -> Result<S::Ok, S::Error>
    where
        T: Serialize + Type,
        S: Serializer,
    {
        if serializer.is_human_readable() {
            value.serialize(serializer)
        } else {
            as_value::serialize(value, serializer)
        }
    }

    pub fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
    where
        T: Deserialize<'de> + Type + 'de,
        D: Deserializer<'de>,
    {
        if deserializer.is_human_readable() {
            T::deserialize(deserializer)
        } else {
            as_value::deserialize(deserializer)
        }
    }
}

/// A member that is missing for `None`.
pub mod optional {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use zbus::zvariant::Type;

    use super::member;

    pub fn serialize<T, S>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error>
    where
        T: Serialize + Type,
        S: Serializer,
    {
        match value {
            Some(value) => member::serialize(value, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub fn deserialize<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        T: Deserialize<'de> + Type + 'de,
        D: Deserializer<'de>,
    {
        member::deserialize(deserializer).map(Some)
    }
}

/// The word for a value without fields, on the bus and in JSON: its name as serde writes it. A text is its own
/// word.
pub fn word(value: impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

/// The value that a word stands for, if there is one.
pub fn of_word<T: serde::de::DeserializeOwned>(word: &str) -> Option<T> {
    use serde::de::{IntoDeserializer, value};
    let word: value::StrDeserializer<'_, value::Error> = word.into_deserializer();
    T::deserialize(word).ok()
}

/// A word, empty for `None`.
pub mod optional_word {
    use serde::de::{DeserializeOwned, Error};
    use serde::{Deserializer, Serialize, Serializer};

    use super::{member, of_word, word};

    pub fn serialize<T: Serialize, S: Serializer>(
        value: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let word = value.as_ref().map_or(String::new(), word);
        member::serialize(&word, serializer)
    }

    pub fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<T>, D::Error> {
        let word: String = member::deserialize(deserializer)?;
        let value = of_word(&word);
        if value.is_none() && !word.is_empty() {
            return Err(D::Error::custom(format!("unknown: {word}")));
        }
        Ok(value.filter(|_| !word.is_empty()))
    }
}
