//! What a profile may hold. Writing and reading apply the same rules, so that everything written can
//! be read and nothing read can surprise whoever uses it as an index, a name or a range.

use super::FormatError;
use crate::model::{App, Device, File, Profile};
use crate::model::{Place, Span};

/// Largest `.pf` file, in bytes. The largest launch measured takes a twentieth.
pub const MAX_FILE_BYTES: usize = 2 << 20;
/// Largest body once inflated, in bytes.
pub const MAX_BODY_BYTES: usize = 8 << 20;
/// Most prefetch entries; the largest launch measured has a sixteenth.
pub const MAX_ENTRIES: usize = 1 << 18;
/// Most files.
pub const MAX_FILES: usize = 1 << 16;
/// Most devices.
pub const MAX_DEVICES: usize = 256;
/// Most sets of scheduling parameters in the history.
pub const MAX_REVISIONS: usize = 1024;
/// Longest path, in bytes (PATH_MAX of Linux, which counts the final NUL).
pub const MAX_PATH: usize = 4095;
/// Most bytes of all files' paths together; shared prefixes could otherwise multiply a small file.
pub const MAX_PATH_BYTES: usize = 8 << 20;
/// Longest name of a device or a file system, in bytes.
const MAX_NAME: usize = 64;
/// First page that no span may reach: 2⁶⁴ bytes.
const MAX_PAGE: u64 = 1 << 52;

/// Refuses a `count` of more than `limit`.
pub fn at_most(what: &'static str, count: usize, limit: usize) -> Result<(), FormatError> {
    if count > limit {
        return Err(FormatError::TooLarge { what, limit });
    }
    Ok(())
}

/// Refuses with `what` unless `holds`.
pub fn require(holds: bool, what: &'static str) -> Result<(), FormatError> {
    if holds {
        Ok(())
    } else {
        Err(FormatError::Invalid(what))
    }
}

/// Checks a whole profile.
pub fn check(profile: &Profile) -> Result<(), FormatError> {
    check_app(&profile.app)?;
    require(
        !profile.history.is_empty(),
        "it has no scheduling parameters",
    )?;
    at_most(
        "sets of scheduling parameters",
        profile.history.len(),
        MAX_REVISIONS,
    )?;
    at_most("devices", profile.devices.len(), MAX_DEVICES)?;
    at_most("files", profile.files.len(), MAX_FILES)?;
    for (what, count) in [
        ("entries", profile.entries.len()),
        ("pages mapped along", profile.fault_around.len()),
        ("reads of helpers", profile.helpers.len()),
    ] {
        at_most(what, count, MAX_ENTRIES)?;
    }
    profile.devices.iter().try_for_each(check_device)?;
    let mut path_bytes = 0;
    for file in &profile.files {
        check_file(file, profile.devices.len())?;
        path_bytes += file.path.as_ref().map_or(0, Vec::len);
    }
    at_most("bytes of paths", path_bytes, MAX_PATH_BYTES)?;
    let spans = profile.entries.iter().map(|entry| &entry.span);
    spans
        .chain(profile.helpers.iter().map(|read| &read.entry.span))
        .chain(&profile.fault_around)
        .chain(&profile.completion)
        .try_for_each(|span| check_span(span, profile))
}

fn check_app(app: &App) -> Result<(), FormatError> {
    let absolute = |path: &[u8]| path.first() == Some(&b'/') && is_path(path);
    require(
        absolute(&app.path) || is_app_name(&app.path),
        "the app has neither an absolute path nor a name",
    )?;
    require(
        app.root.as_deref().is_none_or(absolute),
        "the app's root directory is not an absolute path",
    )?;
    require(
        app.program.as_deref().is_none_or(absolute),
        "the app's launcher is not an absolute path",
    )
}

/// An app that is no file of its own: `flatpak:org.gimp.GIMP`, `java:module/Main`, `announced:mail`.
fn is_app_name(name: &[u8]) -> bool {
    let launcher = name.split(|&c| c == b':').next().unwrap_or_default();
    name.len() <= MAX_PATH
        && launcher.len() < name.len()
        && !launcher.contains(&b'/')
        && name.iter().all(u8::is_ascii_graphic)
}

fn is_path(path: &[u8]) -> bool {
    !path.is_empty() && path.len() <= MAX_PATH && !path.contains(&0)
}

/// Names end up in messages and in paths below `/sys`: they must be neither paths nor escape codes.
fn check_device(device: &Device) -> Result<(), FormatError> {
    let is_name = |name: &str| {
        name.len() <= MAX_NAME
            && !name.starts_with('.')
            && name.bytes().all(|c| c.is_ascii_graphic() && c != b'/')
    };
    require(is_name(&device.name), "a device has an impossible name")?;
    require(
        is_name(&device.fs),
        "a device's file system has an impossible name",
    )
}

fn check_file(file: &File, devices: usize) -> Result<(), FormatError> {
    require(
        usize::from(file.device) < devices,
        "a file is on an unknown device",
    )?;
    require(
        file.path.as_deref().is_none_or(is_path),
        "a file has an impossible path",
    )
}

fn check_span(span: &Span, profile: &Profile) -> Result<(), FormatError> {
    let known = match span.place {
        Place::Metadata { device } => usize::from(device) < profile.devices.len(),
        Place::Data { file } => (file as usize) < profile.files.len(),
    };
    require(known, "an entry is in an unknown file or device")?;
    require(span.len > 0, "an entry has no pages")?;
    let end = span.start.checked_add(span.len);
    require(
        end.is_some_and(|end| end <= MAX_PAGE),
        "an entry lies beyond the largest file",
    )
}
