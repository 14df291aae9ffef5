//! Profiles for people and for programs.

use serde_json::{Value, json};

use crate::cli::coverage;
use crate::cli::format::{date, mib, text_of};
use crate::drive::KnownDrive;
use crate::model::{
    App, File, Infill, Operation, OperationKind, PAGE_SIZE, Params, Place, PrefetchEntry, Profile,
    ReadOrder, Span,
};
use crate::schedule::formula;

/// What the profile is of, what its drives cost, and its totals; between them what it covers of each file, or its
/// entries as the paper's pfviewer prints them, here with the file's path. Paths are cut where they do not fit into
/// `columns`.
pub fn lines(
    profile: &Profile,
    drives: &[KnownDrive],
    entries: bool,
    columns: Option<usize>,
) -> Vec<String> {
    let blank = vec![String::new()];
    let parts = [
        heading(profile),
        drives.iter().map(drive_line).collect(),
        blank.clone(),
        match entries {
            true => entry_table(profile),
            false => coverage::lines(profile, columns),
        },
        blank,
        totals(profile),
    ];
    parts.concat()
}

fn heading(profile: &Profile) -> Vec<String> {
    let mut lines = vec![
        format!("app       {}", app_name(&profile.app)),
        format!(
            "learned   {}, {}, {} log entries, ended by {}",
            date(profile.created),
            word(&profile.learned),
            profile.log_entries,
            word(&profile.ended)
        ),
        format!(
            "cached    reads by {}, page faults by {}",
            profile.hooks.reads, profile.hooks.faults
        ),
        format!("schedule  {}", schedule_text(profile)),
    ];
    lines.extend(profile.devices.iter().flat_map(|device| {
        [
            format!(
                "device    {:#08x} {} ({}, {})",
                kernel_dev(device.dev),
                device.name,
                device.fs,
                word(&device.class)
            ),
            format!("          UUID {}", uuid(&device.fs_uuid)),
        ]
    }));
    lines
}

/// A drive in words.
pub fn drive_line(drive: &KnownDrive) -> String {
    let when = drive.measured.map(|when| format!(" ({})", date(when)));
    format!(
        "drive     {}{}: {}",
        drive.name,
        when.unwrap_or_default(),
        drive.describe()
    )
}

/// A drive for programs.
pub fn drive_json(drive: &KnownDrive) -> Value {
    json!({
        // The kernel's name of it.
        "name": drive.name,
        // When it was measured, in seconds since the epoch; null: the costs are those of its class.
        "measured": drive.measured,
        // What reads from it cost: `DriveCosts`.
        "costs": drive.costs,
        // What follows: `DriveClass`.
        "class": formula::class(&drive.costs),
        // All of it in words.
        "words": drive.describe(),
    })
}

fn entry_table(profile: &Profile) -> Vec<String> {
    let mut lines = vec![
        "start and length: 4 KiB blocks and bytes for metadata (inode 0), pages for data"
            .to_owned(),
        format!(
            "{:<10} {:>12} {:>12} {:>10}  {}",
            "dev", "inode", "start", "length", "path"
        ),
    ];
    lines.extend(profile.entries.iter().map(|entry| {
        let row = TableRow::of(profile, &entry.span);
        format!(
            "{:<10} {:>12} {:>12} {:>10}  {}",
            format!("{:#08x}", row.dev),
            row.ino,
            row.start,
            row.length,
            row.path.unwrap_or_default()
        )
    }));
    lines
}

fn totals(profile: &Profile) -> Vec<String> {
    let totals = Totals::of(profile);
    let kind = |name, (entries, pages): (usize, u64)| {
        format!(
            "  {name:<9} {entries:>7} entries {:>10}",
            mib(pages * PAGE_SIZE)
        )
    };
    let mut lines = vec![
        format!(
            "{} entries in {} files, of which {} are stale",
            profile.entries.len(),
            profile.scheduled_files(),
            profile.obsolete
        ),
        kind("data", totals.data),
        kind("metadata", totals.metadata),
    ];
    if !profile.operations.is_empty() {
        lines.push(format!(
            "{} paths are looked up ahead",
            profile.operations.len()
        ));
    }
    if !profile.fault_around.is_empty() {
        let pages: u64 = profile.fault_around.iter().map(|span| span.len).sum();
        lines.push(format!(
            "{pages} pages of these were mapped along with others and need not have been touched"
        ));
    }
    let mut chance = (profile.helpers.iter())
        .filter(|read| !read.recurs)
        .peekable();
    if chance.peek().is_some() {
        let pages: u64 = chance.map(|read| read.entry.span.len).sum();
        lines.push(format!(
            "{pages} pages beside these were read by processes that were started meanwhile"
        ));
    }
    lines
}

/// Everything in the profile, as JSON.
pub fn json(profile: &Profile, drives: &[KnownDrive]) -> Value {
    let totals = Totals::of(profile);
    json!({
        // Which app it is.
        "app": {
            // Whose profile it is.
            "uid": profile.app.uid,
            // Its path, or `launcher:name`.
            "path": text_of(&profile.app.path),
            // The directory that it is chrooted into, or null.
            "root": profile.app.root.as_deref().map(text_of),
            // Device of its file, as st_dev; 0: not known.
            "dev": profile.app.dev,
            // Inode of its file; 0: not known.
            "inode": profile.app.ino,
        },
        // When the last launch was learned, in seconds since the epoch.
        "created": profile.created,
        // How: `Learned`.
        "learned": profile.learned,
        // What ended the learned launch: `Ended`.
        "ended": profile.ended,
        // How uses of cached pages were traced: `Hooks`.
        "hooks": profile.hooks,
        // Reads of the launch sequence that the schedule was made from.
        "log_entries": profile.log_entries,
        // Files found gone, replaced or truncated since.
        "obsolete": profile.obsolete,
        // Scheduling parameters in force: `Params`.
        "params": params(profile),
        // The parameters that it has had, oldest first: `Revision`.
        "history": profile.history,
        // The devices that it is read from.
        "devices": profile.devices.iter().map(|device| json!({
            // Major and minor number as the kernel packs them: `major << 20 | minor`.
            "dev": kernel_dev(device.dev),
            // Its name when the profile was made.
            "name": device.name,
            // Type of its file system, such as `ext4`.
            "fs": device.fs,
            // UUID of the file system; of btrfs with the number of the subvolume in it, of an image without one what tells it apart.
            "uuid": uuid(&device.fs_uuid),
            // Class of the drive: `DriveClass`.
            "class": device.class,
        })).collect::<Vec<_>>(),
        // Drives of the devices, as far as they are known. Empty if the service gave the profile: only root may read
        // what was measured.
        "drives": drives.iter().map(drive_json).collect::<Vec<_>>(),
        // Files with `device` (index in `devices`), `inode`, `generation`, `size` in bytes, `mtime_ns` (may be
        // negative) when the profile was made, and `path` from the file system's own root; null: not known, or the
        // user could not list it.
        "files": profile.files.iter().map(file_json).collect::<Vec<_>>(),
        // The schedule in its order: entries.
        "entries": profile.entries.iter().map(|entry| entry_json(profile, entry)).collect::<Vec<_>>(),
        // What is asked of file systems ahead of the launch, in its order, where their metadata are no blocks.
        "operations": profile.operations.iter().map(|operation| operation_json(profile, operation)).collect::<Vec<_>>(),
        // The completion pages, spans in the order of their use: a launch is complete when it has used half of them.
        "completion": profile.completion.iter().map(|span| span_json(profile, span)).collect::<Vec<_>>(),
        // Pages that faults on other pages mapped, and that need not have been touched: spans.
        "fault_around": profile.fault_around.iter().map(|span| span_json(profile, span)).collect::<Vec<_>>(),
        // What processes outside of the launch tree read meanwhile: entries.
        "helpers": profile.helpers.iter().map(|read| {
            let mut read_json = entry_json(profile, &read.entry);
            // Whether it occurred in more than one launch: then it is scheduled, too.
            read_json["recurs"] = json!(read.recurs);
            read_json
        }).collect::<Vec<_>>(),
        // Sums of the schedule.
        "totals": {
            // Entries of metadata.
            "metadata_entries": totals.metadata.0,
            // Their pages of 4 KiB.
            "metadata_pages": totals.metadata.1,
            // Entries of data.
            "data_entries": totals.data.0,
            // Their pages of 4 KiB.
            "data_pages": totals.data.1,
            // Files of which data are read.
            "files": profile.scheduled_files(),
        },
    })
}

/// One line of `list`, with a column for the user before the app.
pub fn list_line(profile: &Profile, user: &str) -> String {
    let totals = Totals::of(profile);
    format!(
        "{}  {:<8} {:>6} entries {:>10}  {user}{}",
        date(profile.created),
        word(&profile.learned),
        profile.entries.len(),
        mib((totals.metadata.1 + totals.data.1) * PAGE_SIZE),
        app_name(&profile.app),
    )
}

/// One element of `list --json`.
pub fn list_json(profile: &Profile) -> Value {
    let totals = Totals::of(profile);
    json!({
        // Whose profile it is.
        "uid": profile.app.uid,
        // The app's path, or `launcher:name`.
        "path": text_of(&profile.app.path),
        // The directory that it is chrooted into, or null.
        "root": profile.app.root.as_deref().map(text_of),
        // When the last launch was learned, in seconds since the epoch.
        "created": profile.created,
        // How: `Learned`.
        "learned": profile.learned,
        // Prefetch entries.
        "entries": profile.entries.len(),
        // What they read, in pages of 4 KiB.
        "pages": totals.metadata.1 + totals.data.1,
        // Files of which they read data.
        "files": profile.scheduled_files(),
    })
}

/// Path of the app, and the root that it is chrooted into.
pub fn app_name(app: &App) -> String {
    let path = text_of(&app.path);
    match &app.root {
        Some(root) => format!("{path} (in {})", text_of(root)),
        None => path,
    }
}

/// How the profile is scheduled, in words.
fn schedule_text(profile: &Profile) -> String {
    let params = params(profile);
    match (params.order, params.infill) {
        (ReadOrder::Access, _) => params_text(&params),
        (ReadOrder::Disk, Some(infill)) => format!(
            "one sweep over the disk, metadata first, infill up to {} pages",
            infill.hole_pages
        ),
        (ReadOrder::Disk, None) => "one sweep over the disk, metadata first, no infill".to_owned(),
    }
}

/// Scheduling parameters in words.
fn params_text(params: &Params) -> String {
    let infill = match params.infill {
        Some(infill) if infill.distance >= Infill::ANY_DISTANCE => {
            format!("infill up to {} pages anywhere", infill.hole_pages)
        }
        Some(infill) => format!(
            "infill up to {} pages within I/O distance {}",
            infill.hole_pages, infill.distance
        ),
        None => "no infill".to_owned(),
    };
    format!(
        "range merge within I/O distance {}, {infill}, metadata shift {} KiB",
        params.merge_distance,
        params.shift_bytes / 1024
    )
}

fn params(profile: &Profile) -> Params {
    profile.history[profile.history.len() - 1].params
}

/// Entries and pages of each kind.
struct Totals {
    metadata: (usize, u64),
    data: (usize, u64),
}

impl Totals {
    fn of(profile: &Profile) -> Self {
        let mut totals = Totals {
            metadata: (0, 0),
            data: (0, 0),
        };
        for entry in &profile.entries {
            let kind = if entry.span.place.is_metadata() {
                &mut totals.metadata
            } else {
                &mut totals.data
            };
            kind.0 += 1;
            kind.1 += entry.span.len;
        }
        totals
    }
}

/// An entry in the columns of pfviewer: for metadata, inode 0, start in blocks and length in bytes;
/// for data, both in pages.
struct TableRow {
    dev: u32,
    ino: u64,
    start: u64,
    length: u64,
    path: Option<String>,
}

impl TableRow {
    fn of(profile: &Profile, span: &Span) -> Self {
        match span.place {
            Place::Metadata { device } => TableRow {
                dev: kernel_dev(profile.devices[usize::from(device)].dev),
                ino: 0,
                start: span.start,
                length: span.bytes(),
                path: None,
            },
            Place::Data { file } => {
                let file = &profile.files[file as usize];
                TableRow {
                    dev: kernel_dev(profile.devices[usize::from(file.device)].dev),
                    ino: file.ino,
                    start: span.start,
                    length: span.len,
                    path: file.path.as_deref().map(text_of),
                }
            }
        }
    }
}

fn entry_json(profile: &Profile, entry: &PrefetchEntry) -> Value {
    let mut value = span_json(profile, &entry.span);
    // When a page of it was first used, in microseconds after execve.
    value["time_us"] = json!(entry.time_us);
    value
}

fn operation_json(profile: &Profile, operation: &Operation) -> Value {
    json!({
        // `look-up` or `list`, of a directory.
        "kind": match operation.kind {
            OperationKind::LookUp => "look-up",
            OperationKind::List => "list",
        },
        // Device, packed as in `devices`.
        "dev": kernel_dev(profile.devices[usize::from(operation.device)].dev),
        // Path from the file system's own root. It need not exist.
        "path": text_of(&operation.path),
        // When it was first used, in microseconds after execve.
        "time_us": operation.time_us,
    })
}

fn span_json(profile: &Profile, span: &Span) -> Value {
    let row = TableRow::of(profile, span);
    json!({
        // `data` or `metadata`.
        "kind": if span.place.is_metadata() { "metadata" } else { "data" },
        // Device, packed as in `devices`.
        "dev": row.dev,
        // Inode; 0 for metadata.
        "inode": row.ino,
        // First page of 4 KiB, of the file or, for metadata, of the device.
        "start": span.start,
        // How many.
        "pages": span.len,
        // Path from the file system's own root; null for metadata, and where it is not known.
        "path": row.path,
    })
}

fn file_json(file: &File) -> Value {
    json!({
        "device": file.device,
        "inode": file.ino,
        "generation": file.generation,
        "size": file.size,
        "mtime_ns": file.mtime_ns,
        "path": file.path.as_deref().map(text_of),
    })
}

/// Major and minor number as the kernel packs them, which is how pfviewer prints them.
fn kernel_dev(dev: u64) -> u32 {
    rustix::fs::major(dev) << 20 | rustix::fs::minor(dev)
}

fn uuid(bytes: &[u8; 16]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ]
    .join("-")
}

/// The name that an enum has in JSON.
fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        other => format!("{other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::DriveClass;
    use crate::profile::generate::sample;

    #[test]
    fn entries_are_listed_if_asked_for_and_files_drawn_otherwise() {
        let profile = sample("/opt/app");
        let drawn = lines(&profile, &[], false, Some(80)).join("\n");
        assert!(drawn.contains("[██ ████           ]"), "{drawn}");
        let listed = lines(&profile, &[], true, Some(80)).join("\n");
        assert!(
            listed.contains("  /opt/app\n") && !listed.contains('█'),
            "{listed}"
        );
        for text in [drawn, listed] {
            assert!(text.contains("3 entries in 1 files"), "{text}");
        }
    }

    #[test]
    fn a_profile_that_is_one_sweep_says_so() {
        let mut profile = sample("/bin/true");
        assert!(schedule_text(&profile).starts_with("range merge"));
        let disk = |exact| Params::for_device(DriveClass::Rotational, exact);
        for (exact, end) in [(true, "infill up to 4 pages"), (false, "no infill")] {
            profile.history[0].params = disk(exact);
            let text = schedule_text(&profile);
            assert!(
                text.starts_with("one sweep") && text.ends_with(end),
                "{text}"
            );
        }
    }
}
