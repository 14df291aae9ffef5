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

/// A text, empty for `None`.
pub mod optional_text {
    use serde::{Deserializer, Serializer};

    use super::member;

    pub fn serialize<S: Serializer>(
        text: &Option<String>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        member::serialize(&text.as_deref().unwrap_or_default(), serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<String>, D::Error> {
        let text: String = member::deserialize(deserializer)?;
        Ok((!text.is_empty()).then_some(text))
    }
}
