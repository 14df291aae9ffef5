//! What was learned of an app, and how it is kept between sessions.

use std::fmt;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use paralfetch::learn;
use paralfetch::model::{Learned, Profile};
use paralfetch::model::{LogEntry, Place, Span};
use paralfetch::profile;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use super::blocks::BlockMap;

/// Which learning run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum How {
    /// With the drive's readahead off: the pages that the launch touched.
    Exact,
    /// With the usual readahead: the pages that the drive read.
    AsRead,
    /// The same a second time, for what the two have in common.
    AsReadAgain,
    /// Exact, with the schedule that the service has arrived at since.
    Dynamic,
}

impl How {
    /// All of them.
    pub const ALL: [How; 4] = [How::Exact, How::AsRead, How::AsReadAgain, How::Dynamic];

    /// Name in records and of the files that it is kept in.
    pub fn name(self) -> &'static str {
        match self {
            How::Exact => "exact",
            How::AsRead => "as-read",
            How::AsReadAgain => "as-read-again",
            How::Dynamic => "dynamic",
        }
    }

    /// How the product calls it.
    pub fn learned(self) -> Learned {
        match self {
            How::Exact | How::Dynamic => Learned::Exact,
            How::AsRead | How::AsReadAgain => Learned::AsRead,
        }
    }
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What one learning run taught.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lesson {
    /// The profile that the product would keep.
    pub profile: Profile,
    /// The launch sequence; its places are by the profile's tables.
    pub log: Vec<LogEntry>,
    /// Pages of the log that the drive did not read, as [`learn::Lesson::unread`].
    pub unread: Vec<Span>,
    /// From execve to the end of the launch.
    pub duration: Duration,
    /// From the start of the app to its main window, if that came while it was being learned.
    pub window: Option<Duration>,
}

impl From<learn::LearnedProfile> for Lesson {
    fn from(lesson: learn::LearnedProfile) -> Self {
        Lesson {
            profile: lesson.profile,
            log: lesson.log,
            unread: lesson.unread,
            duration: lesson.summary.duration,
            window: None,
        }
    }
}

/// The lessons of one app on one drive; scenarios need some of them ([`super::Method::needs`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lessons {
    /// Learned exactly.
    pub exact: Option<Lesson>,
    /// Learned as read.
    pub as_read: Option<Lesson>,
    /// Learned as read a second time.
    pub as_read_again: Option<Lesson>,
    /// Learned exactly, and tuned by the service.
    pub dynamic: Option<Lesson>,
    /// By which paths the metadata blocks that the two have in common can be read.
    pub blocks: Option<BlockMap>,
}

impl Lessons {
    /// The lesson of that learning run, if there was one.
    pub fn get(&self, how: How) -> Option<&Lesson> {
        match how {
            How::Exact => self.exact.as_ref(),
            How::AsRead => self.as_read.as_ref(),
            How::AsReadAgain => self.as_read_again.as_ref(),
            How::Dynamic => self.dynamic.as_ref(),
        }
    }

    /// Sets the lesson of that learning run. What was made of the old one goes with it: the map of blocks,
    /// or the tuned schedule.
    pub fn set(&mut self, how: How, lesson: Lesson) {
        match how {
            How::Exact => self.dynamic = None,
            How::AsRead | How::AsReadAgain => self.blocks = None,
            How::Dynamic => {}
        }
        *self.slot(how) = Some(lesson);
    }

    fn slot(&mut self, how: How) -> &mut Option<Lesson> {
        match how {
            How::Exact => &mut self.exact,
            How::AsRead => &mut self.as_read,
            How::AsReadAgain => &mut self.as_read_again,
            How::Dynamic => &mut self.dynamic,
        }
    }

    /// Keeps the lessons in a directory, which is made: for each a profile in the product's format
    /// and its launch sequence. What is there already is replaced, lesson by lesson.
    ///
    /// # Errors
    /// When a file cannot be written, or a profile exceeds the format's limits.
    pub fn save(&self, dir: &Path) -> Result<()> {
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        if self.blocks.is_none() {
            // It would not fit to new lessons.
            remove(&dir.join(BLOCKS))?;
        }
        for how in How::ALL {
            // A lesson is there if its profile is, so this comes last and goes first.
            let profile = dir.join(format!("{how}.pf"));
            let Some(lesson) = self.get(how) else {
                if how == How::Dynamic {
                    // It would not fit to a new exact one.
                    remove(&profile)?;
                }
                continue;
            };
            remove(&profile)?;
            write(
                &dir.join(format!("{how}.json")),
                &to_json(&Kept::of(lesson))?,
            )?;
            let bytes = profile::encode(&lesson.profile)
                .with_context(|| format!("cannot keep the lesson `{how}`"))?;
            write(&profile, &bytes)?;
        }
        match &self.blocks {
            Some(blocks) => write(&dir.join(BLOCKS), &to_json(blocks)?),
            None => Ok(()),
        }
    }

    /// Reads back what [`Lessons::save`] has kept; what it has not is `None`. Profiles come back with
    /// their times rounded to [`profile::TIME_QUANTUM_US`]; launch sequences are exact.
    ///
    /// # Errors
    /// When a file that is there cannot be read or contradicts itself.
    pub fn load(dir: &Path) -> Result<Lessons> {
        let mut lessons = Lessons::default();
        for how in How::ALL {
            *lessons.slot(how) = load_lesson(dir, how).with_context(|| {
                format!("the lesson `{how}` cannot be used; remove it to learn it again")
            })?;
        }
        lessons.blocks = read(&dir.join(BLOCKS))?
            .map(|bytes| from_json::<BlockMap>(&bytes))
            .transpose()
            .and_then(|map| map.map(checked_map).transpose())
            .with_context(|| format!("cannot use {}", dir.join(BLOCKS).display()))?;
        Ok(lessons)
    }
}

/// Name of the file that holds the map of blocks.
const BLOCKS: &str = "blocks.json";

/// A launch sequence as it is kept.
#[derive(Serialize, Deserialize)]
struct Kept {
    /// As [`Lesson::duration`], in microseconds.
    duration_us: u64,
    /// As [`Lesson::window`], in microseconds.
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
    fn of(lesson: &Lesson) -> Kept {
        let row = |entry: &LogEntry| {
            let pages = Pages::of(&entry.span);
            Row(pages, entry.device, entry.lba, entry.time_us)
        };
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Kept {
            duration_us: us(lesson.duration),
            window_us: lesson.window.map(us),
            log: lesson.log.iter().map(row).collect(),
            unread: lesson.unread.iter().map(Pages::of).collect(),
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

fn load_lesson(dir: &Path, how: How) -> Result<Option<Lesson>> {
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
    Ok(Some(Lesson {
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
    serde_json::to_vec(value).context("cannot serialise a lesson")
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
