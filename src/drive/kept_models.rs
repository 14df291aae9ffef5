//! The models of drives that were measured, in one file of the state directory: JSON, versioned, bounded, replaced as a
//! whole. Losing it costs a probe.

use std::fmt::Display;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::DriveIdentity;
use crate::fs::atomic_write;
use crate::fs::root_owned::{self, NotRootOwned};
use crate::model::DriveModel;

/// The file's name.
const FILE: &str = "drives.json";

/// The version of the format. Models of another one are measured again.
const VERSION: u32 = 1;

/// Most drives; the one measured first makes way.
const MOST_DRIVES: usize = 64;

/// Most identities of a drive.
const MOST_IDENTITIES: usize = 16;

/// Largest file.
const MOST_BYTES: usize = 1 << 20;

/// Why kept models cannot be read or written: one line that names the file.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct KeptModelsError(String);

/// A drive's model, as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptModel {
    /// What the drive is known by; each of them suffices.
    pub identities: Vec<DriveIdentity>,
    /// When it was measured, in seconds since the epoch.
    pub measured: u64,
    /// The model.
    pub model: DriveModel,
}

/// All models that are kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeptModels {
    drives: Vec<KeptModel>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptFile {
    version: u32,
    drives: Vec<KeptModel>,
}

impl KeptModels {
    /// Reads a file's content.
    ///
    /// # Errors
    /// What is wrong with it, as the end of a sentence.
    pub fn parse(bytes: &[u8]) -> Result<KeptModels, String> {
        if bytes.len() > MOST_BYTES {
            return Err(format!("it has more than {MOST_BYTES} bytes"));
        }
        let file: KeptFile = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if file.version != VERSION {
            return Err(format!("its version is {}, not {VERSION}", file.version));
        }
        if file.drives.len() > MOST_DRIVES {
            return Err(format!("it has more than {MOST_DRIVES} drives"));
        }
        for kept in &file.drives {
            if !(1..=MOST_IDENTITIES).contains(&kept.identities.len()) {
                return Err("a drive has no identity, or too many".to_owned());
            }
            let is_clean = |identity: &DriveIdentity| {
                DriveIdentity::new(identity.as_str()).as_ref() == Some(identity)
            };
            if !kept.identities.iter().all(is_clean) {
                return Err("an identity is not printable".to_owned());
            }
            if !kept.model.is_sound() {
                return Err("a model is no drive's".to_owned());
            }
        }
        Ok(KeptModels {
            drives: file.drives,
        })
    }

    /// The file's content. [`KeptModels::parse`] gives the models again, but for the last digit of a number.
    pub fn to_json(&self) -> serde_json::Result<String> {
        let file = KeptFile {
            version: VERSION,
            drives: self.drives.clone(),
        };
        Ok(serde_json::to_string_pretty(&file)? + "\n")
    }

    /// Those of a state directory; none if nothing was measured yet.
    ///
    /// # Errors
    /// If the file cannot be read, is damaged, or another user could have made or changed it.
    pub fn load(state_dir: &Path) -> Result<KeptModels, KeptModelsError> {
        let path = state_dir.join(FILE);
        let bytes = match root_owned::read(&path, MOST_BYTES) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(KeptModels::default()),
            Err(NotRootOwned::Untrusted(why)) => return Err(failed("use", &path, &why)),
            Err(NotRootOwned::Io(error)) => return Err(failed("read", &path, &error)),
        };
        KeptModels::parse(&bytes).map_err(|why| failed("use", &path, &why))
    }

    /// Writes them in place of those that the state directory has, which must exist.
    ///
    /// # Errors
    /// If the file cannot be written; the old one is kept then.
    pub fn save(&self, state_dir: &Path) -> Result<(), KeptModelsError> {
        let path = state_dir.join(FILE);
        let text = self
            .to_json()
            .map_err(|error| failed("write", &path, &error))?;
        atomic_write::new_file(state_dir)
            .and_then(|file| atomic_write::put(file, text.as_bytes(), &path))
            // The kind alone: the temporary file's name would tell a user nothing.
            .map_err(|error| failed("write", &path, &error.kind()))
    }

    /// All of them, the one measured last at the end.
    pub fn drives(&self) -> &[KeptModel] {
        &self.drives
    }

    /// The model of the drive that one of these identities names; the one measured last.
    pub fn find(&self, identities: &[DriveIdentity]) -> Option<&KeptModel> {
        let is_it = |kept: &&KeptModel| shares_identity(kept, identities);
        self.drives.iter().rev().find(is_it)
    }

    /// Keeps a model in place of the one that its drive had. One without an identity, or that no drive can have, is
    /// not kept; says whether it was.
    pub fn keep(&mut self, mut kept: KeptModel) -> bool {
        kept.identities.truncate(MOST_IDENTITIES);
        if kept.identities.is_empty() || !kept.model.is_sound() {
            return false;
        }
        self.drives
            .retain(|old| !shares_identity(old, &kept.identities));
        self.drives.push(kept);
        let surplus = self.drives.len().saturating_sub(MOST_DRIVES);
        self.drives.drain(..surplus);
        true
    }
}

fn shares_identity(kept: &KeptModel, identities: &[DriveIdentity]) -> bool {
    kept.identities.iter().any(|own| identities.contains(own))
}

fn failed(what: &str, path: &Path, why: &dyn Display) -> KeptModelsError {
    KeptModelsError(format!(
        "cannot {what} the models of drives in {}: {why}",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::model::DriveClass;

    fn named(name: &str) -> DriveIdentity {
        DriveIdentity::new(name).unwrap()
    }

    fn kept(name: &str, measured: u64) -> KeptModel {
        KeptModel {
            identities: vec![named(name)],
            measured,
            model: DriveModel::guess(DriveClass::Rotational),
        }
    }

    #[test]
    fn models_are_kept_by_identity_and_the_first_makes_way() {
        let dir = tempfile::tempdir().unwrap();
        let mut models = KeptModels::load(dir.path()).unwrap();
        assert_eq!(models, KeptModels::default());
        for number in 0..=MOST_DRIVES {
            assert!(models.keep(kept(&number.to_string(), 1)));
        }
        assert!(models.keep(kept("7", 2)));
        models.save(dir.path()).unwrap();
        let read = KeptModels::load(dir.path()).unwrap();
        assert_eq!(read, models);
        assert_eq!(read.drives.len(), MOST_DRIVES);
        assert_eq!(read.find(&[named("0")]), None);
        assert_eq!(read.find(&[named("x"), named("7")]), Some(&kept("7", 2)));
        assert_eq!(read.find(&[]), None);
    }

    #[test]
    fn what_no_drive_is_is_not_kept() {
        let mut models = KeptModels::default();
        let mut nameless = kept("a", 1);
        nameless.identities.clear();
        assert!(!models.keep(nameless));
        let mut unsound = kept("a", 1);
        unsound.model.queue.clear();
        assert!(!models.keep(unsound));
        assert_eq!(models, KeptModels::default());
    }

    #[test]
    fn damage_is_named() {
        let mut models = KeptModels::default();
        models.keep(kept("drive", 1));
        let good = models.to_json().unwrap();
        assert_eq!(KeptModels::parse(good.as_bytes()), Ok(models));
        for (from, to, why) in [
            ("\"version\": 1", "\"version\": 2", "its version is 2"),
            ("\"drive\"", "\"dri\\u001bve\"", "not printable"),
            ("\"drive\"", "", "no identity"),
            (
                "\"request_us\": 130.0",
                "\"request_us\": -1.0",
                "no drive's",
            ),
            ("\"measured\"", "\"measure\"", "unknown field"),
            ("{", "", " line "),
        ] {
            let bad = good.replacen(from, to, 1);
            let error = KeptModels::parse(bad.as_bytes()).unwrap_err();
            assert!(error.contains(why), "{to}: {error}");
        }
        let long = vec![b' '; MOST_BYTES + 1];
        assert!(KeptModels::parse(&long).unwrap_err().contains("more than"));
    }

    #[test]
    fn others_files_are_not_believed_and_errors_name_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        fs::write(&path, "no JSON").unwrap();
        let error = KeptModels::load(dir.path()).unwrap_err().to_string();
        assert!(error.contains("drives.json: "), "{error}");
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        let error = KeptModels::load(dir.path()).unwrap_err().to_string();
        assert!(error.ends_with("others may write it"), "{error}");
        let nowhere = dir.path().join("nowhere");
        assert!(KeptModels::default().save(&nowhere).is_err());
    }
}
