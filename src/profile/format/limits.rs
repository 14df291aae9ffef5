//! What a profile may hold. Writing and reading apply the same rules, so that everything written can
//! be read, and its indices, names and ranges can be used unchecked.

use super::FormatError;
use crate::model::{
    App, Device, File, MOST_COMPLETION_PAGES, MOST_LEARNED_LAUNCHES, Operation, Place, Profile,
    Span,
};

/// Largest `.pf` file, in bytes. The largest launch measured takes a twentieth.
pub const MAX_FILE_BYTES: usize = 2 << 20;
/// Largest body once inflated, in bytes.
pub const MAX_BODY_BYTES: usize = 8 << 20;
/// Most prefetch entries; the largest launch measured has a sixteenth.
pub const MAX_ENTRIES: usize = 1 << 18;
/// Most files.
pub const MAX_FILES: usize = 1 << 16;
/// Most operations: eight times as many as are learned of a launch.
pub const MAX_OPERATIONS: usize = 1 << 16;
/// Most devices.
pub const MAX_DEVICES: usize = 256;
/// Most sets of scheduling parameters in the history.
pub const MAX_REVISIONS: usize = 1024;
/// Longest path, in bytes (PATH_MAX of Linux, which counts the final NUL).
pub const MAX_PATH: usize = 4095;
/// Most bytes of the paths of all files together, and as many of those of all operations; shared prefixes could otherwise
/// multiply a small file.
pub const MAX_PATH_BYTES: usize = 8 << 20;
/// Longest name of a device or a file system, in bytes.
const MAX_NAME: usize = 64;
/// First page that no span may reach: 2⁶⁴ bytes.
const MAX_PAGE: u64 = 1 << 52;

/// Refuses a `count` of more than `limit`.
pub fn at_most(what: &'static str, count: usize, limit: usize) -> Result<(), FormatError> {
    require(count <= limit, FormatError::TooLarge { what, limit })
}

/// Refuses with `error` unless the rule `holds`.
pub fn require(holds: bool, error: FormatError) -> Result<(), FormatError> {
    holds.then_some(()).ok_or(error)
}

/// Checks a whole profile.
pub fn check(profile: &Profile) -> Result<(), FormatError> {
    let invalid = FormatError::Invalid;
    let path_bytes = profile.files.iter().flat_map(|file| &file.path);
    let asked_bytes = profile.operations.iter().map(|it| it.path.len());
    for (what, count, limit) in [
        ("revisions", profile.history.len(), MAX_REVISIONS),
        ("devices", profile.devices.len(), MAX_DEVICES),
        ("files", profile.files.len(), MAX_FILES),
        ("entries", profile.entries.len(), MAX_ENTRIES),
        ("operations", profile.operations.len(), MAX_OPERATIONS),
        ("bytes of paths", asked_bytes.sum(), MAX_PATH_BYTES),
        (
            "fault-around pages",
            profile.fault_around.len(),
            MAX_ENTRIES,
        ),
        ("unused pages", profile.unused.len(), MAX_ENTRIES),
        ("times", profile.learned_at.len(), MOST_LEARNED_LAUNCHES),
        (
            "completion pages",
            profile.completion.len(),
            MOST_COMPLETION_PAGES,
        ),
        ("reads of helpers", profile.helpers.len(), MAX_ENTRIES),
        (
            "bytes of paths",
            path_bytes.map(Vec::len).sum(),
            MAX_PATH_BYTES,
        ),
    ] {
        at_most(what, count, limit)?;
    }
    require(is_app(&profile.app), invalid("its app"))?;
    let has_params = !profile.history.is_empty();
    require(has_params, invalid("its scheduling parameters"))?;
    let devices = profile.devices.iter().all(is_device);
    require(devices, invalid("its device table"))?;
    let is_file = |file: &File| {
        usize::from(file.device) < profile.devices.len() && file.path.as_deref().is_none_or(is_path)
    };
    let files = profile.files.iter().all(is_file);
    require(files, invalid("its file table"))?;
    let is_operation =
        |it: &Operation| usize::from(it.device) < profile.devices.len() && is_path(&it.path);
    let operations = profile.operations.iter().all(is_operation);
    require(operations, invalid("its operations"))?;
    let spans = profile.entries.iter().map(|entry| &entry.span);
    let spans = spans
        .chain(profile.helpers.iter().map(|read| &read.entry.span))
        .chain(&profile.fault_around)
        .chain(profile.unused.iter().map(|unused| &unused.span))
        .chain(&profile.completion)
        .all(|span| is_span(span, profile));
    require(spans, invalid("its entries"))
}

fn is_app(app: &App) -> bool {
    let absolute = |path: &[u8]| path.first() == Some(&b'/') && is_path(path);
    (absolute(&app.path) || is_app_name(&app.path))
        && app.root.as_deref().is_none_or(absolute)
        && app.program.as_deref().is_none_or(absolute)
}

/// An app that is no file of its own: `flatpak:org.gimp.GIMP`, `java:module/Main`, `announced:mail`.
pub fn is_app_name(name: &[u8]) -> bool {
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
fn is_device(device: &Device) -> bool {
    let is_name = |name: &str| {
        name.len() <= MAX_NAME
            && !name.starts_with('.')
            && name.bytes().all(|c| c.is_ascii_graphic() && c != b'/')
    };
    is_name(&device.name) && is_name(&device.fs)
}

fn is_span(span: &Span, profile: &Profile) -> bool {
    let known = match span.place {
        Place::Metadata { device } => usize::from(device) < profile.devices.len(),
        Place::Data { file } => (file as usize) < profile.files.len(),
    };
    let end = span.start.checked_add(span.len);
    known && span.len > 0 && end.is_some_and(|end| end <= MAX_PAGE)
}
