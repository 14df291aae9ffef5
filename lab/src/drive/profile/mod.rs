//! What a drive is like: figures from data sheets and papers, read from TOML.

mod claims;
mod flash;

use std::fmt::Display;

use anyhow::{Context, Result, bail, ensure};
use paralfetch::model::DriveClass;
use serde::{Deserialize, Serialize};

use crate::data_file::parse_toml;

pub use claims::Claims;
pub use flash::{Blocks, Buffer, Flash, Slc};

/// The profiles that are shipped.
const BUILT_IN: &str = include_str!("../../../drives.toml");

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
    /// Requests that an I/O scheduler may hold for it (`nr_requests` under one), 4 to 1024. Absent: twice
    /// `nr_requests`, as the kernel gives a drive of that depth.
    pub scheduler_requests: Option<u32>,
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

    /// The length of an I/O scheduler's queue for it; `None`: as the kernel has it.
    pub fn queued_requests(&self) -> Option<u32> {
        self.scheduler_requests
            .or(self.nr_requests.map(|requests| 2 * requests))
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
    fn validate(&self) -> Result<()> {
        let name_is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        ensure!(
            !self.name.is_empty() && self.name.chars().all(name_is_plain),
            "its name must be of letters, digits and hyphens"
        );
        if let Some(requests) = self.nr_requests {
            number("nr_requests", u64::from(requests), 4, 128)?;
        }
        if let Some(requests) = self.scheduler_requests {
            number("scheduler_requests", u64::from(requests), 4, 1024)?;
        }
        match (&self.bus, &self.flash, &self.heads) {
            (None, None, None) => {}
            (Some(_), Some(_), None) | (Some(_), None, Some(_)) => ensure!(
                self.claims.is_some(),
                "an emulated drive must say in 'claims' what it is held against"
            ),
            _ => bail!("an emulated drive has 'bus' and either 'flash' or 'heads', another none"),
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
        let has_slc = self.flash.as_ref().is_some_and(|flash| flash.slc.is_some());
        self.claims
            .as_ref()
            .map_or(Ok(()), |claims| claims.validate(has_slc))
    }
}

impl Heads {
    fn validate(&self) -> Result<()> {
        number("rpm", self.rpm, 60.0, 1e5)?;
        number("average_seek_ms", self.average_seek_ms, 0.0, 1e3)?;
        number("track_seek_ms", self.track_seek_ms, 0.0, 1e3)?;
        ensure!(
            self.track_seek_ms <= self.average_seek_ms,
            "'track_seek_ms' must not be above 'average_seek_ms'"
        );
        number("track_mb_s", self.track_mb_s, 0.1, 1e5)?;
        number("lookahead_bytes", self.lookahead_bytes, 0, 1 << 30)
    }
}

/// Rejects a number outside `least..=most`, and NaN.
fn number<N: PartialOrd + Display + Copy>(key: &str, value: N, least: N, most: N) -> Result<()> {
    ensure!(
        (least..=most).contains(&value),
        "'{key}' is {value}; it must be between {least} and {most}"
    );
    Ok(())
}

/// Drive profiles from TOML, in the order of the file.
///
/// # Errors
/// What no drive can be, and two drives of one name; names the drive and the key, or the line of what is no TOML.
pub fn parse(text: &str) -> Result<Vec<DriveProfile>> {
    let File { drive: drives } = parse_toml(text)
        .context("these are no drive profiles as lab/drives.toml describes them")?;
    for (index, drive) in drives.iter().enumerate() {
        let of = || format!("drive profile '{}'", drive.name);
        drive.validate().with_context(of)?;
        let alone = drives[..index].iter().all(|other| other.name != drive.name);
        ensure!(alone, "{}: it is there twice: give one another name", of());
    }
    Ok(drives)
}

/// The shipped profiles: `nvme`, `qlc-sata`, `emmc`, `microsd`, `ufs`, `hdd`.
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
        claims = { random_4k_depth_1 = 1000, random_4k_depth_8 = 1000, random_4k_depth_32 = 1000, random_128k_mb_s = 20, sequential_mb_s = 30, write_4k_depth_1 = 700, write_4k_depth_32 = 700, write_sequential_mb_s = 15 }
    "#;

    /// What a card may have besides.
    const WRITE_SIDE: &str = r#"
        [drive.flash]
        channels = 1
        page_bytes = 16384
        read_us = 60.0
        program_us = 900.0
        channel_mb_s = 50.0
        stripe_bytes = 16384
        write_us = 1.0
        discard_us = 100.0
        buffer = { bytes = 65536, answer_us = 5.0 }
        slc = { bytes = 67108864, program_us = 200.0, idle_ms = 100.0 }
        blocks = { bytes = 4194304, erase_us = 3000.0, spare_percent = 7.0 }
    "#;

    #[test]
    fn shipped_profiles_are_sound() {
        let drives = built_in().unwrap();
        let names: Vec<&str> = drives.iter().map(|drive| &*drive.name).collect();
        assert_eq!(
            names,
            [
                "nvme",
                "qlc-sata",
                "emmc",
                "microsd",
                "ufs",
                "hdd",
                "sata-ide",
                "usb-stick",
                "nvme-dramless"
            ]
        );
        let classes: Vec<DriveClass> = drives.iter().map(DriveProfile::class).collect();
        assert_eq!(
            classes,
            [
                DriveClass::CommandQueuing,
                DriveClass::CommandQueuing,
                DriveClass::NoCommandQueuing,
                DriveClass::NoCommandQueuing,
                DriveClass::CommandQueuing,
                DriveClass::Rotational,
                DriveClass::NoCommandQueuing,
                DriveClass::NoCommandQueuing,
                DriveClass::CommandQueuing,
            ]
        );
        assert!(!drives[0].is_emulated() && drives[1..].iter().all(DriveProfile::is_emulated));
    }

    #[test]
    fn bad_input_is_named() {
        assert_eq!(parse(CARD).unwrap().len(), 1);
        for (from, to, complaint) in [
            ("queue_depth = 1", "queue_depth = 0", "'queue_depth' is 0"),
            ("command_us = 100.0", "command_us = nan", "'command_us'"),
            ("channels = 1", "channels = 0", "'channels'"),
            ("page_bytes = 16384", "page_bytes = 5000", "power of two"),
            ("stripe_bytes = 16384", "stripe_bytes = 16385", "multiple"),
            ("read_us = 60.0", "read_us = -1.0", "'read_us'"),
            ("read_us", "reed_us", "reed_us"),
            ("name = \"card\"", "name = \"a/b\"", "hyphens"),
            ("bus =", "#", "'flash' or 'heads'"),
            ("claims =", "#", "'claims'"),
            (
                "write_4k_depth_1 = 700",
                "write_4k_depth_1 = 0",
                "'write_4k_depth_1'",
            ),
        ] {
            let error = parse(&CARD.replacen(from, to, 1)).unwrap_err();
            let text = format!("{error:#}");
            assert!(text.contains(complaint), "{to}: {text}");
        }
        let text = format!(
            "{:#}",
            parse(&CARD.replace("read_us", "reed_us")).unwrap_err()
        );
        assert!(text.contains("line 6: "), "{text}");
        let full = CARD.replace("flash = {", "# {") + WRITE_SIDE;
        let sustained = "write_sequential_mb_s = 15";
        let full = full.replace(
            sustained,
            &format!("{sustained}, write_sustained_mb_s = 12"),
        );
        assert_eq!(parse(&full).unwrap().len(), 1);
        for (from, to, complaint) in [
            ("bytes = 65536", "bytes = 16384", "'buffer.bytes'"),
            ("bytes = 67108864", "bytes = 1", "'slc.bytes'"),
            ("idle_ms = 100.0", "idle_ms = -1.0", "'slc.idle_ms'"),
            ("bytes = 4194304", "bytes = 4096", "'blocks.bytes'"),
            ("bytes = 4194304", "bytes = 5000000", "multiple"),
            (
                "spare_percent = 7.0",
                "spare_percent = 0.5",
                "'blocks.spare_percent'",
            ),
            (", write_sustained_mb_s = 12", "", "'write_sustained_mb_s'"),
        ] {
            let error = parse(&full.replacen(from, to, 1)).unwrap_err();
            let text = format!("{error:#}");
            assert!(text.contains(complaint), "{to}: {text}");
        }
        let twice = format!("{CARD}{CARD}");
        let error = parse(&twice).unwrap_err().to_string();
        assert!(
            error.contains("drive profile 'card': it is there twice"),
            "{error}"
        );
    }
}
