//! Profiles that were learned elsewhere, for the first launches of apps that are not learned here yet.
//!
//! Packages and images put texts ([`PortableProfile`]) into a directory of their own, `paralfetch import` into one below the
//! state directory. Of each, this machine's profile is made once, and kept in a store of its own as that of an app of every
//! user. Such a seed is prefetched while a user's first launches are learned, and learning goes on as if there were none.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use rustix::fs::{FileType, Mode, fstat, openat};

use super::cached_profile::{CachedProfile, CachedProfiles};
use super::clock::now_s;
use super::marks::Marks;
use super::registry::{Added, EVERY_USER, Record};
use crate::apps::Rules;
use crate::drive::Sysfs;
use crate::fs::atomic_write;
use crate::fs::local_path::LocalFile;
use crate::fs::mounts::MountTable;
use crate::fs::node::O_LOOKUP;
use crate::fs::root_owned::{self, NotRootOwned, objection};
use crate::fs::safe_open::own_path;
use crate::learn::{ImportPlace, ProfileFit, import};
use crate::model::{AppKey, Profile, shown};
use crate::profile::{MAX_PORTABLE_BYTES, PortableProfile, Store, portable_name};

/// Where packages and images put their texts.
pub const SHIPPED_DIR: &str = "/usr/share/paralfetch/profiles";

/// Directories below the state directory: of imported texts, and of the profiles that were made of texts.
const IMPORTED: &str = "imported";
const SEEDS: &str = "seeds";

/// Most texts of a directory that are used.
const MOST_TEXTS: usize = 256;

/// What a text's name ends with.
const SUFFIX: &str = ".json";

/// Where texts are found, and profiles made of them kept.
#[derive(Clone, Debug)]
pub struct SeedPlaces {
    /// [`SHIPPED_DIR`], or another for tests.
    pub shipped_dir: PathBuf,
    /// The service's.
    pub state_dir: PathBuf,
    /// What kinds of drives there are.
    pub sysfs: Sysfs,
}

/// A text in its place.
struct SeedText {
    path: PathBuf,
    profile: PortableProfile,
    /// When it was put there, in seconds since the epoch.
    placed_s: u64,
}

/// The seeds as the event loop takes them.
pub struct FoundSeeds {
    /// By app, of [`EVERY_USER`].
    pub profiles: CachedProfiles,
    /// What recognises their apps.
    pub records: Vec<Record>,
    /// What cannot be used, a line each.
    pub warnings: Vec<String>,
}

/// Which search for seeds is under way: one at a time, so that a drive that does not answer holds up one thread.
#[derive(Default)]
pub struct SeedSearch {
    /// Dead once the search has ended, also by a panic.
    under_way: Weak<()>,
    /// What is to be sought after that: `again`, as [`SeedPlaces::update`] has it.
    wanted: Option<bool>,
}

impl SeedSearch {
    /// A search may begin, and lasts until what is returned is dropped. `None`: it comes after the one that is under way.
    pub fn begin(&mut self, again: bool) -> Option<Arc<()>> {
        if self.under_way.strong_count() > 0 {
            self.wanted = Some(again || self.wanted == Some(true));
            return None;
        }
        let alive = Arc::new(());
        self.under_way = Arc::downgrade(&alive);
        Some(alive)
    }

    /// A search has ended. Returns what is to be sought next.
    pub fn ended(&mut self) -> Option<bool> {
        self.wanted.take()
    }
}

impl SeedPlaces {
    /// Makes the profiles of texts that are new, or of all of them `again`, removes those whose texts are gone, and loads
    /// all that there are. Asks drives about each file of a profile that is made.
    pub fn update(&self, again: bool, rules: &Rules) -> FoundSeeds {
        let mut warnings = Vec::new();
        if let Err(why) = self.make(again, &mut warnings) {
            warnings.push(why);
        }
        let (profiles, records) = self.load(rules, &mut warnings).unwrap_or_else(|why| {
            warnings.push(why);
            Default::default()
        });
        FoundSeeds {
            profiles,
            records,
            warnings,
        }
    }

    /// The seeds that were made before, and what recognises their apps.
    fn load(
        &self,
        rules: &Rules,
        warnings: &mut Vec<String>,
    ) -> Result<(CachedProfiles, Vec<Record>), String> {
        let Some(store) = self.store()? else {
            return Ok(Default::default());
        };
        let mounts =
            MountTable::read().map_err(|error| format!("cannot read the mount table: {error}"))?;
        let loaded = CachedProfile::load_all(&store, &mounts);
        let (profiles, unusable) = loaded.map_err(|error| error.to_string())?;
        warnings.extend(unusable);
        let record = |profile: &CachedProfile| {
            let key = profile.app.user_app()?;
            let marks = Marks::of_profile(&profile.app, rules, &mounts)?;
            let name = key.id.rsplit('/').next().unwrap_or(&key.id).to_owned();
            Some(Record::new(key, name, Added::Imported, marks))
        };
        let records = profiles.values().filter_map(record).collect();
        Ok((profiles, records))
    }

    /// The store of the seeds, if any was made.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn store(&self) -> Result<Option<Store>, String> {
        let dir = self.state_dir.join(SEEDS);
        match dir.try_exists() {
            Ok(false) => Ok(None),
            _ => Store::open(&dir)
                .map(Some)
                .map_err(|error| error.to_string()),
        }
    }

    /// The seed of an app, whoever launches it; `None` if there is none that can be used.
    pub fn profile(&self, app: AppKey<'_>) -> Option<Profile> {
        let store = self.store().ok()??;
        let uid = EVERY_USER;
        store.load(AppKey { uid, ..app }).ok().flatten()
    }

    fn make(&self, again: bool, warnings: &mut Vec<String>) -> Result<(), String> {
        let imported = self.texts(&self.state_dir.join(IMPORTED), warnings);
        let shipped = self.texts(&self.shipped_dir, warnings);
        // The texts of a directory that cannot be read may be there all the same.
        let are_all = imported.is_some() && shipped.is_some();
        let texts: Vec<SeedText> = [imported, shipped]
            .into_iter()
            .flatten()
            .flatten()
            .collect();
        if texts.is_empty() && self.store()?.is_none() {
            return Ok(());
        }
        let store = self.create_store()?;
        let stored = store.list().map_err(|error| error.to_string())?;
        let stored = stored.into_iter().filter_map(|stored| stored.profile.ok());
        // What was imported for an image has no text here.
        let stored = stored.filter(|profile| profile.app.root.is_none());
        let mut stored: BTreeMap<Vec<u8>, Profile> =
            stored.map(|profile| (profile.app.id(), profile)).collect();
        let mut used = BTreeSet::new();
        for text in texts {
            // The administrator's come first.
            if !used.insert(text.profile.app.clone()) {
                continue;
            }
            let before = stored.remove(text.profile.app.as_bytes());
            let is_made = before
                .as_ref()
                .is_some_and(|made| made.created == text.placed_s);
            if is_made && !again {
                continue;
            }
            match import(&text.profile, &self.place(None), text.placed_s) {
                Ok((profile, fit)) => {
                    tracing::info!(app = text.profile.app, "imported: {}", fit.line());
                    store.save(&profile).map_err(|error| error.to_string())?;
                }
                Err(why) => {
                    warnings.push(not_used(&text.path, &why));
                    stored.extend(before.map(|before| (before.app.id(), before)));
                }
            }
        }
        for profile in stored.into_values().filter(|_| are_all) {
            store
                .remove(profile.app.key())
                .map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn place(&self, root: Option<&Path>) -> ImportPlace {
        ImportPlace {
            root: root.map(Path::to_path_buf),
            sysfs: self.sysfs.clone(),
            state_dir: self.state_dir.clone(),
        }
    }

    fn create_store(&self) -> Result<Store, String> {
        Store::create(&self.state_dir)
            .and_then(|_| Store::create(&self.state_dir.join(SEEDS)))
            .map_err(|error| error.to_string())
    }

    /// Installs a text for all users, or for an image's app if `root` is its root directory. Says how much fits.
    ///
    /// # Errors
    /// If too little fits, or it cannot be written.
    pub fn install(
        &self,
        portable: &PortableProfile,
        root: Option<&Path>,
    ) -> Result<ProfileFit, String> {
        let place = self.place(root);
        let (mut profile, fit) = import(portable, &place, now_s())?;
        let store = self.create_store()?;
        if root.is_none() {
            let text = portable.to_text().map_err(|error| error.to_string())?;
            profile.created = self
                .place_text(&portable.app, text.as_bytes())
                .map_err(|error| {
                    format!("cannot write below {}: {error}", self.state_dir.display())
                })?;
        }
        store.save(&profile).map_err(|error| error.to_string())?;
        Ok(fit)
    }

    /// Returns when the text was put in place, in seconds since the epoch.
    fn place_text(&self, app: &str, text: &[u8]) -> io::Result<u64> {
        let dir = self.state_dir.join(IMPORTED);
        Store::create(&dir).map_err(io::Error::other)?;
        let path = dir.join(portable_name(app));
        atomic_write::put(atomic_write::new_file(&dir)?, text, &path)?;
        Ok(fs::metadata(path)?.ctime().unsigned_abs())
    }

    /// Removes the text of an app that was imported, and its seed. False if there was none.
    ///
    /// # Errors
    /// If they cannot be removed.
    pub fn remove(&self, seed: &Profile) -> Result<bool, String> {
        let name = portable_name(&String::from_utf8_lossy(&seed.app.path));
        let path = self.state_dir.join(IMPORTED).join(name);
        let is_imported = seed.app.root.is_some() || path.exists();
        if is_imported && seed.app.root.is_none() {
            fs::remove_file(&path)
                .map_err(|error| format!("cannot remove {}: {error}", path.display()))?;
        }
        let store = self.store()?.filter(|_| is_imported);
        let removed = store.map(|store| store.remove(seed.app.key()));
        removed.transpose().map_err(|error| error.to_string())?;
        Ok(is_imported)
    }

    /// The texts of a directory, in the order of their names. What is not to be trusted or is no such text is left out, with
    /// a warning. `None`, with a warning, if the directory itself cannot be read or trusted.
    fn texts(&self, dir: &Path, warnings: &mut Vec<String>) -> Option<Vec<SeedText>> {
        let names = match names(dir) {
            Ok(Some(names)) => names,
            Ok(None) => return Some(Vec::new()),
            Err(why) => {
                warnings.push(format!(
                    "the profiles in {} are not looked at: {why}",
                    dir.display()
                ));
                return None;
            }
        };
        if names.len() > MOST_TEXTS {
            let dir = dir.display();
            warnings.push(format!(
                "of the profiles in {dir} the first {MOST_TEXTS} are used"
            ));
        }
        let mut texts = Vec::new();
        for path in names
            .into_iter()
            .take(MOST_TEXTS)
            .map(|name| dir.join(name))
        {
            match read(&path) {
                Ok(Some(text)) => texts.push(text),
                Ok(None) => {}
                Err(why) => warnings.push(not_used(&path, &why)),
            }
        }
        Some(texts)
    }
}

/// The line on a text of which no profile is made.
fn not_used(path: &Path, why: &str) -> String {
    let line = format!("the profile {} is not used: {why}", path.display());
    line.chars().map(shown).collect()
}

/// The names of the texts in a directory that the administrator alone may change; `None` if there is no such directory.
fn names(dir: &Path) -> Result<Option<Vec<OsString>>, String> {
    let mounts = MountTable::read().map_err(|error| error.to_string())?;
    let found = match LocalFile::find_trusted(dir, &mounts) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let stat = fstat(&found.fd).map_err(|error| error.to_string())?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return Err("it is no directory".to_owned());
    }
    if let Some(why) = objection(&stat) {
        return Err(why.to_owned());
    }
    let dir = openat(&found.fd, ".", O_LOOKUP, Mode::empty()).map_err(|error| error.to_string())?;
    let entries = fs::read_dir(own_path(&dir)).map_err(|error| error.to_string())?;
    let names = entries.map(|entry| entry.map(|entry| entry.file_name()));
    let names: io::Result<Vec<OsString>> = names.collect();
    let mut names = names.map_err(|error| error.to_string())?;
    names.retain(|name| {
        let name = name.as_encoded_bytes();
        name.ends_with(SUFFIX.as_bytes()) && !name.starts_with(b".")
    });
    names.sort();
    Ok(Some(names))
}

/// The text in a file that the administrator alone may change; `None` if it is gone.
fn read(path: &Path) -> Result<Option<SeedText>, String> {
    let bytes = root_owned::read(path, MAX_PORTABLE_BYTES).map_err(|error| match error {
        NotRootOwned::Untrusted(why) => why.to_owned(),
        NotRootOwned::Io(error) => error.to_string(),
    })?;
    let Some(bytes) = bytes else {
        return Ok(None);
    };
    let placed = fs::symlink_metadata(path).map_err(|error| error.to_string())?;
    Ok(Some(SeedText {
        profile: PortableProfile::parse(&bytes).map_err(|error| error.to_string())?,
        path: path.to_owned(),
        placed_s: placed.ctime().unsigned_abs(),
    }))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use tempfile::TempDir;

    use super::*;
    use crate::model::Ended;
    use crate::profile::generate::sample;

    /// Places in a directory that nobody else may change, as far as its parents allow it.
    fn places() -> (TempDir, SeedPlaces) {
        let dir = tempfile::tempdir().unwrap();
        let places = SeedPlaces {
            shipped_dir: dir.path().join("shipped"),
            state_dir: dir.path().join("state"),
            sysfs: Sysfs::default(),
        };
        fs::create_dir(&places.shipped_dir).unwrap();
        fs::set_permissions(&places.shipped_dir, Permissions::from_mode(0o755)).unwrap();
        (dir, places)
    }

    fn text(app: &str) -> String {
        let profile = PortableProfile::new(app.to_owned(), None, Ended::Quiet);
        profile.to_text().unwrap()
    }

    #[test]
    fn texts_that_others_could_have_put_there_are_left_out_with_a_line_each() {
        let (_dir, places) = places();
        let at = |name: &str| places.shipped_dir.join(name);
        for (name, text) in [
            ("a.json", text("/usr/bin/a")),
            ("b.json", "{}".to_owned()),
            ("c.json", text("/usr/bin/c")),
            ("other", text("/usr/bin/other")),
            (".hidden.json", text("/usr/bin/hidden")),
        ] {
            fs::write(at(name), text).unwrap();
            fs::set_permissions(at(name), Permissions::from_mode(0o644)).unwrap();
        }
        fs::set_permissions(at("c.json"), Permissions::from_mode(0o666)).unwrap();
        symlink("a.json", at("d.json")).unwrap();
        let mut warnings = Vec::new();
        let found = places.texts(&places.shipped_dir, &mut warnings).unwrap();
        let apps: Vec<&str> = found.iter().map(|text| text.profile.app.as_str()).collect();
        assert_eq!(apps, ["/usr/bin/a"]);
        let expected = [
            ("b.json", "no portable profile"),
            ("c.json", "others may write it"),
            ("d.json", "a symbolic link"),
        ];
        assert_eq!(warnings.len(), expected.len(), "{warnings:?}");
        for (line, (name, why)) in warnings.iter().zip(expected) {
            assert!(line.contains(name) && line.contains(why), "{line}");
        }
        fs::set_permissions(&places.shipped_dir, Permissions::from_mode(0o777)).unwrap();
        assert!(places.texts(&places.shipped_dir, &mut warnings).is_none());
        assert_eq!(warnings.len(), expected.len() + 1);
    }

    #[test]
    fn searches_come_one_after_the_other() {
        let mut search = SeedSearch::default();
        let first = search.begin(false).unwrap();
        assert!(search.begin(true).is_none() && search.begin(false).is_none());
        drop(first);
        assert_eq!(search.ended(), Some(true), "one for both");
        let second = search.begin(true).unwrap();
        assert_eq!(search.ended(), None);
        drop(second);
        assert!(search.begin(false).is_some());
    }

    #[test]
    fn what_was_made_goes_with_its_text_and_stays_where_texts_cannot_be_read() {
        let (_dir, places) = places();
        let store = places.create_store().unwrap();
        let seed = sample("/usr/bin/a");
        store.save(&seed).unwrap();
        let is_there = || store.load(seed.app.key()).unwrap().is_some();
        let mode = |mode| {
            let permissions = Permissions::from_mode(mode);
            fs::set_permissions(&places.shipped_dir, permissions).unwrap();
        };
        mode(0o777);
        let found = places.update(false, &Rules::builtin());
        assert!(found.warnings[0].contains("not looked at"));
        assert!(is_there());
        mode(0o755);
        places.update(false, &Rules::builtin());
        assert!(!is_there());
    }

    #[test]
    fn without_texts_nothing_is_made() {
        let (_dir, places) = places();
        let found = places.update(true, &Rules::builtin());
        assert!(found.profiles.is_empty() && found.records.is_empty() && found.warnings.is_empty());
        assert!(!places.state_dir.exists());
    }

    #[test]
    fn of_a_text_that_does_not_fit_no_profile_is_made_and_that_is_said() {
        let (_dir, places) = places();
        fs::write(places.shipped_dir.join("a.json"), text("/usr/bin/a")).unwrap();
        let found = places.update(false, &Rules::builtin());
        assert!(found.profiles.is_empty());
        assert!(
            found.warnings[0].contains("0 of 0 files fit"),
            "{:?}",
            found.warnings
        );
    }
}
