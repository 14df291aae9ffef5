//! Learned sets on disk, so that later sessions need not learn again.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use paralfetch::model::{LogEntry, Place, Profile, Span};
use paralfetch::profile;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use super::blocks::BlockMap;
use super::learned::{LearnedApp, LearnedSet, LearningRun};

impl LearnedApp {
    /// Saves the sets to a directory, which is created if need be: for each its profile in the
    /// product's format and its launch sequence. Replaces existing files, set by set.
    ///
    /// # Errors
    /// When a file cannot be written, or a profile exceeds the format's limits.
    pub fn save(&self, dir: &Path) -> Result<()> {
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        if self.blocks.is_none() {
            // It would not fit the new sets.
            remove(&dir.join(BLOCKS))?;
        }
        for how in LearningRun::ALL {
            // A set exists if its profile does, so the profile is written last and removed first.
            let profile = dir.join(format!("{how}.pf"));
            let Some(set) = self.get(how) else {
                if how == LearningRun::Dynamic {
                    // It would not fit a new exact set.
                    remove(&profile)?;
                }
                continue;
            };
            remove(&profile)?;
            write(&dir.join(format!("{how}.json")), &to_json(&Kept::of(set))?)?;
            let bytes = profile::encode(&set.profile)
                .with_context(|| format!("cannot save the learned set `{how}`"))?;
            write(&profile, &bytes)?;
        }
        match &self.blocks {
            Some(blocks) => write(&dir.join(BLOCKS), &to_json(blocks)?),
            None => Ok(()),
        }
    }

    /// Reads back what [`LearnedApp::save`] has kept; what it has not is `None`. Profiles come back with
    /// their times rounded to [`profile::TIME_QUANTUM_US`]; launch sequences are exact.
    ///
    /// # Errors
    /// When a file that is there cannot be read or contradicts itself.
    pub fn load(dir: &Path) -> Result<LearnedApp> {
        let mut learned = LearnedApp::default();
        for how in LearningRun::ALL {
            *learned.slot(how) = load_set(dir, how).with_context(|| {
                format!("the learned set `{how}` cannot be used; remove it to learn it again")
            })?;
        }
        learned.blocks = read(&dir.join(BLOCKS))?
            .map(|bytes| from_json::<BlockMap>(&bytes))
            .transpose()
            .and_then(|map| map.map(checked_map).transpose())
            .with_context(|| format!("cannot use {}", dir.join(BLOCKS).display()))?;
        Ok(learned)
    }
}

/// Name of the file that holds the map of blocks.
const BLOCKS: &str = "blocks.json";

/// A launch sequence as it is kept.
#[derive(Serialize, Deserialize)]
struct Kept {
    /// As [`LearnedSet::duration`], in microseconds.
    duration_us: u64,
    /// As [`LearnedSet::window`], in microseconds.
    window_us: Option<u64>,
    log: Vec<Row>,
    unread: Vec<Pages>,
}

/// A log entry: what, then index of the device, disk position in sectors, time in microseconds.
#[derive(Serialize, Deserialize)]
struct Row(Pages, u16, u64, u64);

/// A span: index of the file, or that of the device as a negative number, counted from −1; first
/// page; number of pages.
#[derive(Serialize, Deserialize)]
struct Pages(i64, u64, u64);

impl Kept {
    fn of(set: &LearnedSet) -> Kept {
        let row = |entry: &LogEntry| {
            let pages = Pages::of(&entry.span);
            Row(pages, entry.device, entry.lba, entry.time_us)
        };
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Kept {
            duration_us: us(set.duration),
            window_us: set.window.map(us),
            log: set.log.iter().map(row).collect(),
            unread: set.unread.iter().map(Pages::of).collect(),
        }
    }
}

impl Pages {
    fn of(span: &Span) -> Pages {
        let place = match span.place {
            Place::Data { file } => i64::from(file),
            Place::Metadata { device } => -1 - i64::from(device),
        };
        Pages(place, span.start, span.len)
    }

    /// The span, by the tables of `profile`.
    fn span(&self, profile: &Profile) -> Result<Span> {
        let &Pages(place, start, len) = self;
        let place = match u32::try_from(place) {
            Ok(file) => Place::Data { file },
            Err(_) => Place::Metadata {
                device: u16::try_from(-1 - place).context("an entry on an impossible device")?,
            },
        };
        let known = match place {
            Place::Data { file } => (file as usize) < profile.files.len(),
            Place::Metadata { device } => usize::from(device) < profile.devices.len(),
        };
        ensure!(known, "an entry in an unknown file or device");
        let end = start.checked_add(len);
        ensure!(
            len > 0 && end.is_some_and(|end| end < MAX_PAGE),
            "an entry of impossible pages"
        );
        Ok(Span { place, start, len })
    }
}

/// First page that no span may reach: the largest file position is 2⁶³ bytes.
const MAX_PAGE: u64 = 1 << 51;

fn load_set(dir: &Path, how: LearningRun) -> Result<Option<LearnedSet>> {
    let Some(bytes) = read(&dir.join(format!("{how}.pf")))? else {
        return Ok(None);
    };
    let profile = profile::decode(&bytes)?;
    let file = dir.join(format!("{how}.json"));
    let bytes = read(&file)?.with_context(|| format!("{} is missing", file.display()))?;
    let kept: Kept = from_json(&bytes)?;
    let mut log = Vec::with_capacity(kept.log.len());
    for Row(pages, device, lba, time_us) in kept.log {
        ensure!(
            usize::from(device) < profile.devices.len(),
            "an entry on an unknown device"
        );
        ensure!(lba >> 55 == 0, "an entry at an impossible disk position");
        log.push(LogEntry {
            span: pages.span(&profile)?,
            device,
            lba,
            time_us,
        });
    }
    let unread = kept.unread.iter().map(|pages| pages.span(&profile));
    let unread = unread.collect::<Result<_>>()?;
    Ok(Some(LearnedSet {
        profile,
        log,
        unread,
        duration: Duration::from_micros(kept.duration_us),
        window: kept.window_us.map(Duration::from_micros),
    }))
}

fn checked_map(map: BlockMap) -> Result<BlockMap> {
    let known = |path: u32| (path as usize) < map.paths.len();
    ensure!(
        map.blocks.iter().all(|block| known(block.path)),
        "a block of an unknown path"
    );
    ensure!(map.blocks.is_sorted(), "blocks out of order");
    Ok(map)
}

fn to_json(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value).context("cannot serialise a learned set")
}

fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).context("damaged JSON")
}

/// Writes by renaming, so that there never is half a file.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let written = NamedTempFile::new_in(dir).and_then(|mut file| {
        file.write_all(bytes)?;
        file.persist(path).map_err(|error| error.error)
    });
    written.with_context(|| format!("cannot write {}", path.display()))?;
    Ok(())
}

fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}
