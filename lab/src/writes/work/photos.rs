//! Scenario B: a burst of photos (QASIO §3). The camera writes each photo and syncs it, and adds it to a
//! database; another thread makes thumbnails, which it writes a KiB at a time, so that a page that is
//! being written back is changed again.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use rusqlite::Connection;

use super::calls::{close, create, write};
use super::{ALL, Prepared};
use crate::noise::noise;
use crate::writes::latencies::Stopwatch;

/// Shots of a burst: as many as the paper's phone takes.
const SHOTS: u32 = 30;

/// Sizes of photos, in bytes, in turn.
const PHOTOS: [usize; 3] = [2 << 20, 3 << 20, 4 << 20];

/// Writes of 1 KiB of a thumbnail.
const THUMBNAIL: usize = 24;

/// A camera.
pub(super) struct Burst {
    directory: PathBuf,
    database: Connection,
    photo: Vec<u8>,
}

impl Burst {
    /// With an empty album in `directory`.
    pub(super) fn new(directory: &Path) -> Result<Self> {
        let database = Connection::open(directory.join("album.db"))?;
        database.execute_batch(
            "CREATE TABLE photo(id INTEGER PRIMARY KEY, path TEXT UNIQUE, bytes INTEGER, taken TEXT);",
        )?;
        Ok(Burst {
            directory: directory.to_owned(),
            database,
            photo: noise(PHOTOS[PHOTOS.len() - 1], 7),
        })
    }

    fn shoot(&self, number: u32, watch: &mut Stopwatch) -> Result<()> {
        let path = self.directory.join(format!("photo-{number}.jpg"));
        let bytes = PHOTOS[number as usize % PHOTOS.len()];
        let file = watch.time("creat", || create(&path))?;
        watch.time("write", || write(&file, &self.photo[..bytes]))?;
        watch.time("fsync", || file.sync_all().context("cannot sync"))?;
        watch.time("close", || close(file))?;
        watch.time("database", || {
            let values = (path.to_string_lossy(), bytes as i64);
            let insert = "INSERT INTO photo(path, bytes, taken) VALUES (?1, ?2, datetime())";
            self.database.execute(insert, values)?;
            Ok(())
        })
    }
}

impl Prepared for Burst {
    fn run(&mut self, watch: &mut Stopwatch) -> Result<()> {
        let (shots, taken) = channel();
        let (directory, beside) = (self.directory.clone(), watch.beside());
        let maker = thread::Builder::new()
            .name("thumbnails".to_owned())
            .spawn(move || thumbnails(&directory, &taken, beside))?;
        let mut done = Ok(());
        for number in 0..SHOTS {
            if number > 0 && watch.is_over() {
                break;
            }
            let begun = Instant::now();
            done = self.shoot(number, watch);
            // The maker has gone if it failed: it says why below.
            if done.is_err() || shots.send(number).is_err() {
                break;
            }
            watch.note(ALL, begun.elapsed());
        }
        drop(shots);
        let made = maker
            .join()
            .map_err(|_| anyhow!("the maker of thumbnails panicked"))?;
        watch.add(made?);
        done
    }
}

/// Makes a thumbnail of each shot, until there are no more.
fn thumbnails(directory: &Path, taken: &Receiver<u32>, mut watch: Stopwatch) -> Result<Stopwatch> {
    let bytes = noise(1 << 10, 8);
    for number in taken {
        let path = directory.join(format!("thumbnail-{number}.jpg"));
        let file = watch.time("thumbnail creat", || create(&path))?;
        for _ in 0..THUMBNAIL {
            watch.time("thumbnail write", || write(&file, &bytes))?;
        }
        watch.time("thumbnail close", || close(file))?;
    }
    Ok(watch)
}
