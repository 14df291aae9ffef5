//! The writer that nobody waits for: what it writes, in a process of its own.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// Bytes of each write.
const CHUNK: usize = 1 << 20;

/// Bytes of a file of [`Kind::Fsyncs`].
const SMALL: usize = 16 << 10;

/// Names that [`Kind::Fsyncs`] uses in turn.
const NAMES: u32 = 1000;

/// What a writer does, for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Writes a large new file; when that is complete, removes it and begins the next.
    Create,
    /// Writes one large file from its start to its end, again and again. The first time it grows.
    Rewrite,
    /// Truncates a large file to nothing and writes it anew.
    Truncate,
    /// Writes files of 16 KiB and syncs each.
    Fsyncs,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 4] = [Kind::Create, Kind::Rewrite, Kind::Truncate, Kind::Fsyncs];

    /// Name of the kind on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Create => "create",
            Kind::Rewrite => "rewrite",
            Kind::Truncate => "truncate",
            Kind::Fsyncs => "fsyncs",
        }
    }
}

impl std::str::FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Kind::name).join(", ");
            format!("writers are {names}")
        })
    }
}

/// The work of a writer's process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WriterJob {
    /// What it does.
    pub kind: Kind,
    /// A directory of its own, which it makes.
    pub directory: PathBuf,
    /// Bytes of a large file.
    pub bytes: u64,
}

impl WriterJob {
    /// Writes until the process is killed.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn run(&self) -> Result<()> {
        fs::create_dir_all(&self.directory)?;
        let path = self.directory.join("written-in-the-background");
        let chunk = vec![0x5a; CHUNK];
        if self.kind == Kind::Truncate {
            // What is truncated first has its blocks, but costs no writes.
            let file = open(&path, false)?;
            rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, self.bytes)
                .with_context(|| format!("cannot allocate {}", path.display()))?;
        }
        loop {
            match self.kind {
                Kind::Create => {
                    self.fill(&open(&path, true)?, &chunk)?;
                    fs::remove_file(&path)?;
                }
                Kind::Rewrite => self.fill(&open(&path, false)?, &chunk)?,
                Kind::Truncate => self.fill(&open(&path, true)?, &chunk)?,
                Kind::Fsyncs => self.sync_small(&chunk[..SMALL])?,
            }
        }
    }

    fn fill(&self, mut file: &File, chunk: &[u8]) -> Result<()> {
        let mut left = self.bytes;
        while left > 0 {
            let now = chunk.len().min(usize::try_from(left)?);
            file.write_all(&chunk[..now])
                .context("the background writer cannot write")?;
            left -= now as u64;
        }
        Ok(())
    }

    fn sync_small(&self, content: &[u8]) -> Result<()> {
        for number in 0..NAMES {
            let mut file = open(&self.directory.join(format!("small-{number}")), true)?;
            file.write_all(content)
                .and_then(|()| file.sync_all())
                .context("the background writer cannot write")?;
        }
        Ok(())
    }
}

fn open(path: &Path, truncate: bool) -> Result<File> {
    OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(truncate)
        .open(path)
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_named_as_in_records() {
        for kind in Kind::ALL {
            let json = serde_json::to_string(&kind).unwrap();
            assert_eq!(json, format!("\"{}\"", kind.name()));
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        assert!("append".parse::<Kind>().unwrap_err().contains("fsyncs"));
    }
}
