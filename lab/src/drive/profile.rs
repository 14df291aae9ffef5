//! What a drive is like: figures from data sheets and papers, read from TOML.

use std::fmt::Display;

use anyhow::{Context, Result};
use paralfetch::model::DriveClass;
use serde::{Deserialize, Serialize};

use crate::data_file::{self, Wrong};

/// The profiles that are shipped.
const BUILT_IN: &str = include_str!("../../drives.toml");

/// One drive: how it behaves if it is emulated, and what it claims.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveProfile {
    /// Short name, such as `qlc-sata`: letters, digits and hyphens.
    pub name: String,
    /// One line that describes it to users.
    pub title: String,
    /// Requests that the kernel may queue for it (`queue/nr_requests`); the kernel takes 4 to 128 for a
    /// loop device. Left as it is when absent.
    pub nr_requests: Option<u32>,
    /// The link between the host and the medium. Absent: not emulated.
    pub bus: Option<Bus>,
    /// The medium, if it is flash.
    pub flash: Option<Flash>,
    /// The medium, if it is a disk with heads.
    pub heads: Option<Heads>,
    /// The figures that `lab check-drive` expects. Absent for the host's own drive.
    pub claims: Option<Claims>,
}

/// The drive's controller and its link to the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bus {
    /// Commands that the drive works on at a time; 1 is no command queuing.
    pub queue_depth: u32,
    /// Time that the controller spends on each command, one after another, in µs.
    pub command_us: f64,
    /// Rate of the link, in MB (10⁶ bytes) a second.
    pub interface_mb_s: f64,
}

/// Flash behind a controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flash {
    /// Channels that work independently; each does one thing at a time.
    pub channels: u32,
    /// Bytes that are sensed or programmed at once, a power of two.
    pub page_bytes: u64,
    /// Sensing a page (tR), in µs.
    pub read_us: f64,
    /// Programming a page (tPROG), in µs.
    pub program_us: f64,
    /// Rate between flash and controller on each channel, in MB/s.
    pub channel_mb_s: f64,
    /// Bytes in sequence on one channel before the next one's turn; a multiple of the page.
    pub stripe_bytes: u64,
    /// The map from logical to physical addresses, if it does not fit into the controller.
    pub map: Option<Map>,
}

/// The address map of a drive without DRAM: what is not cached costs a page read of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Map {
    /// Bytes of the drive that one page of the map covers.
    pub segment_bytes: u64,
    /// Pages of the map that the controller holds; the least recently used one makes way.
    pub cached_segments: u32,
}

/// A disk with heads. It spans the emulated drive, whatever its size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Heads {
    /// Revolutions a minute.
    pub rpm: f64,
    /// Seek time averaged over pairs of random positions, in ms.
    pub average_seek_ms: f64,
    /// Seek to the next track, in ms.
    pub track_seek_ms: f64,
    /// Rate at which a track passes the head, in MB/s.
    pub track_mb_s: f64,
    /// What the drive reads on by itself into its buffer after a read, in bytes.
    pub lookahead_bytes: u64,
}

/// What fio should measure on the drive. Reads; random ones over the whole drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claims {
    /// 4 KiB random at depth 1, requests a second.
    pub random_4k_depth_1: f64,
    /// 4 KiB random at depth 8, requests a second.
    pub random_4k_depth_8: f64,
    /// 4 KiB random at depth 32, requests a second.
    pub random_4k_depth_32: f64,
    /// 128 KiB random at depth 1, MB/s.
    pub random_128k_mb_s: f64,
    /// 128 KiB sequential at depth 8, MB/s.
    pub sequential_mb_s: f64,
}

/// The file as a whole.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    drive: Vec<DriveProfile>,
}

impl DriveProfile {
    /// Whether the drive is emulated; otherwise the image's own drive answers.
    pub fn is_emulated(&self) -> bool {
        self.bus.is_some()
    }

    /// The class that software should see.
    pub fn class(&self) -> DriveClass {
        match &self.bus {
            _ if self.heads.is_some() => DriveClass::Rotational,
            Some(bus) if bus.queue_depth == 1 => DriveClass::NoCommandQueuing,
            _ => DriveClass::CommandQueuing,
        }
    }

    /// Rejects what no drive can be, so that models need not care.
    fn validate(&self) -> Result<(), Wrong> {
        let name_is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        ensure(
            !self.name.is_empty() && self.name.chars().all(name_is_plain),
            "name",
            "its name must be of letters, digits and hyphens",
        )?;
        if let Some(requests) = self.nr_requests {
            number("nr_requests", u64::from(requests), 4, 128)?;
        }
        match (&self.bus, &self.flash, &self.heads) {
            (None, None, None) => {}
            (Some(_), Some(_), None) | (Some(_), None, Some(_)) => ensure(
                self.claims.is_some(),
                "bus",
                "an emulated drive must say in 'claims' what it is held against",
            )?,
            _ => {
                let what =
                    "an emulated drive has 'bus' and either 'flash' or 'heads', another none";
                ensure(false, "", what)?;
            }
        }
        if let Some(bus) = &self.bus {
            number("queue_depth", u64::from(bus.queue_depth), 1, 1024)?;
            number("command_us", bus.command_us, 0.0, 1e6)?;
            number("interface_mb_s", bus.interface_mb_s, 0.1, 1e5)?;
        }
        if let Some(flash) = &self.flash {
            flash.validate()?;
        }
        if let Some(heads) = &self.heads {
            heads.validate()?;
        }
        self.claims.as_ref().map_or(Ok(()), Claims::validate)
    }
}

impl Flash {
    fn validate(&self) -> Result<(), Wrong> {
        number("channels", u64::from(self.channels), 1, 1024)?;
        number("page_bytes", self.page_bytes, 512, 1 << 20)?;
        ensure(
            self.page_bytes.is_power_of_two(),
            "page_bytes",
            "'page_bytes' must be a power of two",
        )?;
        number("read_us", self.read_us, 0.0, 1e6)?;
        number("program_us", self.program_us, 0.0, 1e6)?;
        number("channel_mb_s", self.channel_mb_s, 0.1, 1e5)?;
        number("stripe_bytes", self.stripe_bytes, self.page_bytes, 1 << 30)?;
        ensure(
            self.stripe_bytes.is_multiple_of(self.page_bytes),
            "stripe_bytes",
            "'stripe_bytes' must be a multiple of 'page_bytes'",
        )?;
        if let Some(map) = &self.map {
            number("segment_bytes", map.segment_bytes, self.page_bytes, 1 << 40)?;
            number(
                "cached_segments",
                u64::from(map.cached_segments),
                1,
                1 << 20,
            )?;
        }
        Ok(())
    }
}

impl Heads {
    fn validate(&self) -> Result<(), Wrong> {
        number("rpm", self.rpm, 60.0, 1e5)?;
        number("average_seek_ms", self.average_seek_ms, 0.0, 1e3)?;
        number("track_seek_ms", self.track_seek_ms, 0.0, 1e3)?;
        ensure(
            self.track_seek_ms <= self.average_seek_ms,
            "track_seek_ms",
            "'track_seek_ms' must not be above 'average_seek_ms'",
        )?;
        number("track_mb_s", self.track_mb_s, 0.1, 1e5)?;
        number("lookahead_bytes", self.lookahead_bytes, 0, 1 << 30)
    }
}

impl Claims {
    fn validate(&self) -> Result<(), Wrong> {
        number("random_4k_depth_1", self.random_4k_depth_1, 1.0, 1e8)?;
        number("random_4k_depth_8", self.random_4k_depth_8, 1.0, 1e8)?;
        number("random_4k_depth_32", self.random_4k_depth_32, 1.0, 1e8)?;
        number("random_128k_mb_s", self.random_128k_mb_s, 0.01, 1e6)?;
        number("sequential_mb_s", self.sequential_mb_s, 0.01, 1e6)
    }
}

/// Rejects a number outside `least..=most`, and NaN.
fn number<N: PartialOrd + Display>(key: &str, value: N, least: N, most: N) -> Result<(), Wrong> {
    let what = format!("'{key}' is {value}; it must be between {least} and {most}");
    ensure((least..=most).contains(&value), key, &what)
}

fn ensure(holds: bool, key: &str, what: &str) -> Result<(), Wrong> {
    if holds {
        return Ok(());
    }
    Err(Wrong::at(key, what.to_owned()))
}

/// Drive profiles from TOML, in the order of the file.
///
/// # Errors
/// What no drive can be, and two drives of one name; names the line, the drive and the key.
pub fn parse(text: &str) -> Result<Vec<DriveProfile>> {
    let File { drive: drives } = data_file::read(text)
        .context("these are no drive profiles as lab/drives.toml describes them")?;
    data_file::check(text, "drive", &drives, |drive, before| {
        let checked = drive.validate().and_then(|()| {
            let alone = before.iter().all(|other| other.name != drive.name);
            ensure(alone, "name", "it is there twice: give one another name")
        });
        checked.map_err(|wrong| wrong.of(&format!("drive profile '{}'", drive.name)))
    })?;
    Ok(drives)
}

/// The shipped profiles: `nvme`, `qlc-sata`, `microsd`, `ufs`, `hdd`.
pub fn built_in() -> Result<Vec<DriveProfile>> {
    parse(BUILT_IN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CARD: &str = r#"
        [[drive]]
        name = "card"
        title = "A card"
        bus = { queue_depth = 1, command_us = 100.0, interface_mb_s = 90.0 }
        flash = { channels = 1, page_bytes = 16384, read_us = 60.0, program_us = 900.0, channel_mb_s = 50.0, stripe_bytes = 16384 }
        claims = { random_4k_depth_1 = 1000, random_4k_depth_8 = 1000, random_4k_depth_32 = 1000, random_128k_mb_s = 20, sequential_mb_s = 30 }
    "#;

    #[test]
    fn shipped_profiles_are_sound() {
        let drives = built_in().unwrap();
        let names: Vec<&str> = drives.iter().map(|drive| &*drive.name).collect();
        assert_eq!(names, ["nvme", "qlc-sata", "microsd", "ufs", "hdd"]);
        let classes: Vec<DriveClass> = drives.iter().map(DriveProfile::class).collect();
        assert_eq!(
            classes,
            [
                DriveClass::CommandQueuing,
                DriveClass::CommandQueuing,
                DriveClass::NoCommandQueuing,
                DriveClass::CommandQueuing,
                DriveClass::Rotational
            ]
        );
        assert!(!drives[0].is_emulated() && drives[1..].iter().all(DriveProfile::is_emulated));
    }

    #[test]
    fn bad_input_is_named() {
        assert_eq!(parse(CARD).unwrap().len(), 1);
        for (from, to, line, complaint) in [
            (
                "queue_depth = 1",
                "queue_depth = 0",
                5,
                "'queue_depth' is 0",
            ),
            ("command_us = 100.0", "command_us = nan", 5, "'command_us'"),
            ("channels = 1", "channels = 0", 6, "'channels'"),
            ("page_bytes = 16384", "page_bytes = 5000", 6, "power of two"),
            (
                "stripe_bytes = 16384",
                "stripe_bytes = 16385",
                6,
                "multiple",
            ),
            ("read_us = 60.0", "read_us = -1.0", 6, "'read_us'"),
            ("read_us", "reed_us", 6, "reed_us"),
            ("name = \"card\"", "name = \"a/b\"", 3, "hyphens"),
            ("bus =", "#", 2, "'flash' or 'heads'"),
            ("claims =", "#", 5, "'claims'"),
        ] {
            let error = parse(&CARD.replacen(from, to, 1)).unwrap_err();
            let text = format!("{error:#}");
            assert!(text.contains(complaint), "{to}: {text}");
            assert!(text.contains(&format!("line {line}: ")), "{to}: {text}");
        }
        let twice = format!("{CARD}{CARD}");
        let error = parse(&twice).unwrap_err().to_string();
        assert!(
            error.contains("line 10: drive profile 'card': it is there twice"),
            "{error}"
        );
    }
}
