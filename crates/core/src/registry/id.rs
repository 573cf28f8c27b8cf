//! The id of a cause in text and in JSON.

use core::fmt;
use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Id;

/// A name that belongs to no cause of this version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownCause(pub String);

impl fmt::Display for UnknownCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not the id of a known cause", self.0)
    }
}

impl core::error::Error for UnknownCause {}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl AsRef<str> for Id {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

/// The schema is a plain string: with a list of the ids, each new cause would change the schema.
impl JsonSchema for Id {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Cause".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_is_read_as_it_is_written() {
        for &id in Id::ALL {
            assert_eq!(id.cause().id, id);
            assert_eq!(id.as_str().parse(), Ok(id));
            let json = serde_json::to_string(&id).expect("a string");
            assert_eq!(json, format!("\"{id}\""));
            assert_eq!(serde_json::from_str::<Id>(&json).ok(), Some(id));
        }
        let unknown = serde_json::from_str::<Id>("\"gremlins\"").expect_err("no such cause");
        assert!(unknown.to_string().contains("`gremlins`"), "{unknown}");
    }
}
