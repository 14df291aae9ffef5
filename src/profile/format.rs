//! The `.pf` file, which is versioned, checksummed and bounded.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 8 | magic | [`MAGIC`] |
//! | 2 | version | [`VERSION`]; any other is refused |
//! | 4 | packed length | bytes of the body in the file |
//! | 4 | body length | bytes of the body once inflated |
//! | 4 | CRC-32 | of everything before it, then of the packed body |
//! | … | body | deflated |
//!
//! Numbers are little-endian. The body is one [`Body`] in postcard's encoding (variable-length
//! integers), followed by the path of the app's launcher if it has one. Tables are stored as columns of
//! differences, which are small and alike, so that deflate has something to work with. A change of `Body`
//! or of any type in it is a new version.
//!
//! Reading trusts nothing: lengths are checked against hard limits before anything is allocated, and the
//! profile satisfies every rule in [`limits`], the same that writing demands.

mod columns;
pub(super) mod limits;

use columns::{Column, EntryColumns, FileColumns, OperationColumns};
use limits::{MAX_BODY_BYTES, MAX_DEVICES, MAX_ENTRIES, MAX_REVISIONS};
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress, inflate_flags};
use serde::{Deserialize, Serialize};

use crate::model::{App, Device, Ended, HelperRead, Hooks, Learned, PrefetchEntry, Profile};
use crate::model::{MOST_COMPLETION_PAGES, MOST_LEARNED_LAUNCHES, Revision, Span, UnusedPages};

pub use limits::{MAX_FILE_BYTES, MAX_PATH};

/// The first byte is no ASCII and the last is a line feed, so that a file that went through a
/// conversion of character sets or line ends is told apart at once.
const MAGIC: [u8; 8] = *b"\x89paralf\n";

/// Version of the format that this program reads and writes.
const VERSION: u16 = 7;

const HEADER_BYTES: usize = 22;

/// Deflate's level, of 0 to 10. Profiles are written rarely and read at every launch; reading takes
/// the same time at every level.
const DEFLATE_LEVEL: u8 = 9;

/// Times of first access are kept in units of 100 µs, rounded down: about the time of one read from
/// the fastest drives.
pub const TIME_QUANTUM_US: u64 = 100;

const CONTENTS: FormatError = FormatError::Invalid("the length or the structure of its contents");

/// Why bytes are not a profile, or why a profile cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The magic is missing.
    #[error("not a Paralfetch profile")]
    NotAProfile,
    /// The file has the format of another version of the program.
    #[error(
        "its format is {0}, and this program reads format {VERSION}: the app is to be learned again, which the service does \
         at its next launch"
    )]
    Version(u16),
    /// The file ends early.
    #[error("the profile is cut short")]
    Truncated,
    /// The contents are not those that were written.
    #[error("the profile is damaged: wrong checksum")]
    Checksum,
    /// A table or the whole exceeds a limit of the format.
    #[error("the profile has too many {what}; the limit is {limit}")]
    TooLarge { what: &'static str, limit: usize },
    /// The named part contradicts itself or the others.
    #[error("the profile is invalid: {0} cannot be right")]
    Invalid(&'static str),
}

/// A [`Profile`] as it is serialised, with its large tables as columns.
#[derive(Serialize, Deserialize)]
struct Body {
    /// User, path, root directory, device and inode number of the [`App`]; its launcher follows the body.
    app: (u32, Vec<u8>, Option<Vec<u8>>, u64, u64),
    created: u64,
    learned: Learned,
    ended: Ended,
    hooks: Hooks,
    history: Column<Revision, MAX_REVISIONS>,
    devices: Column<Device, MAX_DEVICES>,
    files: FileColumns,
    entries: EntryColumns,
    operations: OperationColumns,
    completion: Column<Span, MOST_COMPLETION_PAGES>,
    fault_around: EntryColumns,
    unused: EntryColumns,
    used_s: Column<u64, MAX_ENTRIES>,
    learned_at: Column<u64, MOST_LEARNED_LAUNCHES>,
    helpers: EntryColumns,
    recurs: Column<bool, MAX_ENTRIES>,
    log_entries: u32,
    obsolete: u32,
}

impl Body {
    /// The body of a profile that satisfies the limits.
    fn new(profile: &Profile) -> Self {
        let (devices, files) = (profile.devices.len(), profile.files.len());
        let columns = |entries: &[PrefetchEntry]| EntryColumns::new(entries, devices, files);
        let at_once = |&span: &Span| PrefetchEntry { span, time_us: 0 };
        let fault_around: Vec<_> = profile.fault_around.iter().map(at_once).collect();
        let unused: Vec<_> = profile.unused.iter().map(|it| at_once(&it.span)).collect();
        let helpers: Vec<_> = profile.helpers.iter().map(|read| read.entry).collect();
        let app = profile.app.clone();
        Body {
            app: (app.uid, app.path, app.root, app.dev, app.ino),
            created: profile.created,
            learned: profile.learned,
            ended: profile.ended,
            hooks: profile.hooks,
            history: Column(profile.history.clone()),
            devices: Column(profile.devices.clone()),
            files: FileColumns::new(&profile.files),
            entries: columns(&profile.entries),
            operations: OperationColumns::new(&profile.operations),
            completion: Column(profile.completion.clone()),
            fault_around: columns(&fault_around),
            unused: columns(&unused),
            used_s: profile.unused.iter().map(|it| it.used_s).collect(),
            learned_at: Column(profile.learned_at.clone()),
            helpers: columns(&helpers),
            recurs: profile.helpers.iter().map(|read| read.recurs).collect(),
            log_entries: profile.log_entries,
            obsolete: profile.obsolete,
        }
    }

    /// The profile. Its contents are yet to be held against the limits.
    fn into_profile(self, program: Option<Vec<u8>>) -> Result<Profile, FormatError> {
        let (devices, files) = (self.devices.0.len(), self.files.len());
        let fault_around = self.fault_around.into_entries(devices, files)?;
        let unused = self.unused.into_entries(devices, files)?;
        let helpers = self.helpers.into_entries(devices, files)?;
        let (flags, used_s) = (self.recurs.0, self.used_s.0);
        limits::require(
            helpers.len() == flags.len() && unused.len() == used_s.len(),
            FormatError::Invalid("its entries"),
        )?;
        let unused = unused.iter().map(|entry| entry.span).zip(used_s);
        let helpers = helpers.into_iter().zip(flags);
        let (uid, path, root, dev, ino) = self.app;
        Ok(Profile {
            app: App {
                uid,
                path,
                root,
                program,
                dev,
                ino,
            },
            created: self.created,
            learned: self.learned,
            ended: self.ended,
            hooks: self.hooks,
            entries: self.entries.into_entries(devices, files)?,
            operations: self.operations.into_operations()?,
            files: self.files.into_files()?,
            history: self.history.0,
            devices: self.devices.0,
            completion: self.completion.0,
            fault_around: fault_around.iter().map(|entry| entry.span).collect(),
            unused: unused
                .map(|(span, used_s)| UnusedPages { span, used_s })
                .collect(),
            learned_at: self.learned_at.0,
            helpers: helpers
                .map(|(entry, recurs)| HelperRead { entry, recurs })
                .collect(),
            log_entries: self.log_entries,
            obsolete: self.obsolete,
        })
    }
}

/// The bytes of a `.pf` file. Times are rounded down to [`TIME_QUANTUM_US`].
///
/// # Errors
/// [`FormatError::TooLarge`] and [`FormatError::Invalid`] for a profile that could not be read back:
/// one with an index outside its table, an empty or endless span, no scheduling parameters, or more
/// of anything than the format allows.
pub fn encode(profile: &Profile) -> Result<Vec<u8>, FormatError> {
    limits::check(profile)?;
    let body = contents(profile).map_err(|_| CONTENTS)?;
    limits::at_most("bytes of contents", body.len(), MAX_BODY_BYTES)?;
    let file = seal(&body);
    limits::at_most("bytes in its file", file.len(), MAX_FILE_BYTES)?;
    Ok(file)
}

/// The body of the file.
fn contents(profile: &Profile) -> postcard::Result<Vec<u8>> {
    let mut body = postcard::to_allocvec(&Body::new(profile))?;
    if let Some(program) = &profile.app.program {
        body = postcard::to_extend(program, body)?;
    }
    Ok(body)
}

/// The profile in the bytes of a `.pf` file.
///
/// # Errors
/// Any damage, a foreign version and contents against the rules are errors; see [`FormatError`].
pub fn decode(bytes: &[u8]) -> Result<Profile, FormatError> {
    let body = unseal(bytes)?;
    let (body, rest): (Body, &[u8]) = postcard::take_from_bytes(&body).map_err(|_| CONTENTS)?;
    let (program, rest) = match rest {
        [] => (None, rest),
        _ => postcard::take_from_bytes(rest)
            .map(|(program, rest)| (Some(program), rest))
            .map_err(|_| CONTENTS)?,
    };
    limits::require(rest.is_empty(), CONTENTS)?;
    let profile = body.into_profile(program)?;
    limits::check(&profile)?;
    Ok(profile)
}

/// Wraps a body, whatever it holds, into a file with the right header and checksum. Public so that
/// tests and fuzzing reach the parser of the body.
#[doc(hidden)]
pub fn seal(body: &[u8]) -> Vec<u8> {
    let packed = miniz_oxide::deflate::compress_to_vec(body, DEFLATE_LEVEL);
    // A length beyond the field is far beyond the limits, which `unseal` holds against it.
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes();
    let mut file = Vec::with_capacity(HEADER_BYTES + packed.len());
    file.extend(MAGIC);
    file.extend(VERSION.to_le_bytes());
    file.extend(length(&packed));
    file.extend(length(body));
    file.extend(checksum(&file, &packed).to_le_bytes());
    file.extend(packed);
    file
}

/// Checks the header and the checksum, and inflates the body.
fn unseal(bytes: &[u8]) -> Result<Vec<u8>, FormatError> {
    // An empty file is what a crash leaves on file systems that allocate late.
    limits::require(!MAGIC.starts_with(bytes), FormatError::Truncated)?;
    limits::require(bytes.starts_with(&MAGIC), FormatError::NotAProfile)?;
    let version = u16::from_le_bytes(field(bytes, 8)?);
    limits::require(version == VERSION, FormatError::Version(version))?;
    let packed_bytes = u32::from_le_bytes(field(bytes, 10)?) as usize;
    let body_bytes = u32::from_le_bytes(field(bytes, 14)?) as usize;
    let crc = u32::from_le_bytes(field(bytes, 18)?);
    limits::at_most("bytes in its file", bytes.len(), MAX_FILE_BYTES)?;
    limits::at_most("bytes of contents", body_bytes, MAX_BODY_BYTES)?;
    let (header, packed) = bytes.split_at(HEADER_BYTES);
    limits::require(packed.len() >= packed_bytes, FormatError::Truncated)?;
    limits::require(packed.len() == packed_bytes, CONTENTS)?;
    let sum = checksum(&header[..18], packed);
    limits::require(sum == crc, FormatError::Checksum)?;
    inflate(packed, body_bytes)
}

/// The `N` bytes at `at`.
fn field<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], FormatError> {
    bytes
        .get(at..at + N)
        .and_then(|field| field.try_into().ok())
        .ok_or(FormatError::Truncated)
}

fn checksum(header: &[u8], packed: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(header);
    hasher.update(packed);
    hasher.finalize()
}

/// Inflates exactly `packed` to exactly `body_bytes` bytes, at most [`MAX_BODY_BYTES`].
fn inflate(packed: &[u8], body_bytes: usize) -> Result<Vec<u8>, FormatError> {
    // Deflate spends at least 2 bits on 258 bytes: no small file can ask for a large buffer.
    let possible = body_bytes <= packed.len().saturating_mul(258 * 4);
    limits::require(possible, CONTENTS)?;
    let mut body = vec![0; body_bytes];
    let flags = inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
    let mut state = Box::<DecompressorOxide>::default();
    let inflated = decompress(&mut state, packed, &mut body, 0, flags);
    let whole = (TINFLStatus::Done, packed.len(), body_bytes);
    limits::require(inflated == whole, CONTENTS)?;
    Ok(body)
}

#[cfg(test)]
mod tests;
