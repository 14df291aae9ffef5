//! Making a profile that travels of a launch sequence.
//!
//! It names what everybody may read and the administrator alone may change, as packages and images bring it, and nothing
//! below a home. Blocks of metadata, which another machine has elsewhere, become the look-ups that read them
//! ([`super::named_blocks`]).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs::File as OpenFile;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::SystemTime;

use rustix::fs::OFlags;

use super::lookups::FilePaths;
use super::named_blocks::{NamedBlocks, name_blocks};
use super::probe::LiveProbe;
use crate::fs::elf::build_id;
use crate::fs::handle::CachedFile;
use crate::fs::mounts::{MountTable, OpenMount};
use crate::fs::present::present_devices;
use crate::fs::public_tree::PublicTree;
use crate::fs::safe_open;
use crate::model::{DriveClass, File, PAGE_SIZE, Place, Profile, is_person};
use crate::profile::{FileVersion, PortableFile, PortableProfile, PortableRead, is_plain_path};

/// Most bytes that are read of /etc/passwd.
const MOST_PASSWD: u64 = 1 << 20;

/// Directories of which homes are known to be in, whatever /etc/passwd says.
const HOMES: [&str; 2] = ["/home", "/root"];

/// A profile that travels, and what it lacks of the one that it was made of.
#[derive(Debug)]
pub struct ExportedProfile {
    /// The profile.
    pub profile: PortableProfile,
    /// Files that are left out, and the bytes that are read of them.
    pub left_out: (u64, u64),
    /// Pages of metadata of which it is not known what reads them.
    pub unnamed: u64,
}

/// Makes a profile that travels of a launch sequence in the form of a profile.
///
/// # Errors
/// If nothing of it can travel, or the mount table or the app's root directory cannot be read.
pub fn export(sequence: &Profile) -> Result<ExportedProfile, String> {
    let mounts =
        MountTable::read().map_err(|error| format!("cannot read the mount table: {error}"))?;
    let root = Path::new(OsStr::from_bytes(
        sequence.app.root.as_deref().unwrap_or(b"/"),
    ));
    let tree = PublicTree::open(root, &mounts)
        .map_err(|error| format!("cannot open {}: {error}", root.display()))?;
    let devices = present_devices(sequence, &mounts);
    let devices: Vec<Option<OpenMount>> = devices
        .iter()
        .map(|presence| mounts.open_root(presence.dev()?).ok())
        .collect();
    let source = ExportSource {
        mounts: &mounts,
        root,
        homes: home_directories(&tree),
        tree: &tree,
        devices: &devices,
    };
    let mut exported = source.profile(sequence)?;
    let is_late = || false;
    let class = |_| DriveClass::CommandQueuing;
    let mut probe = LiveProbe::new(&mounts, &class, SystemTime::now(), &is_late);
    let (read, ancestors) = source.read_by_files(sequence, &exported, &mut probe);
    let named = name_blocks(
        NamedBlocks {
            tree: &tree,
            wanted: source.metadata(sequence),
            known: read,
            is_left_out: &|path| source.is_in_home(path),
        },
        ancestors,
        &mut probe,
    );
    exported.profile.look_ups = named.look_ups;
    exported.profile.listings = named.listings;
    Ok(ExportedProfile {
        profile: exported.profile,
        left_out: exported.left_out,
        unnamed: named.unnamed,
    })
}

/// Where a profile is exported from.
struct ExportSource<'a> {
    mounts: &'a MountTable,
    root: &'a Path,
    tree: &'a PublicTree<'a>,
    homes: Vec<String>,
    /// In the order of the profile's devices.
    devices: &'a [Option<OpenMount>],
}

/// The part of an exported profile that its data make.
struct ExportedData {
    profile: PortableProfile,
    /// For each of the portable profile's files, its index in the launch sequence's table.
    files: Vec<u32>,
    left_out: (u64, u64),
}

impl ExportSource<'_> {
    fn profile(&self, sequence: &Profile) -> Result<ExportedData, String> {
        let text = |path: &[u8]| {
            String::from_utf8(path.to_vec()).map_err(|_| "the app's path is not UTF-8".to_owned())
        };
        let app = text(&sequence.app.path)?;
        let program = sequence.app.program.as_deref().map(text).transpose()?;
        for own in program.iter().chain([&app]) {
            if self.is_in_home(own) {
                return Err(format!(
                    "{own} lies in a home: what is a user's does not travel"
                ));
            }
        }
        let mut profile = PortableProfile::new(app, program, sequence.ended);
        let mut numbers: HashMap<u32, Option<u32>> = HashMap::new();
        let mut files = Vec::new();
        let mut left_out = (0, 0);
        for entry in &sequence.entries {
            let Place::Data { file } = entry.span.place else {
                continue;
            };
            let number = *numbers.entry(file).or_insert_with(|| {
                let known = self.file(&sequence.files[file as usize]);
                left_out.0 += u64::from(known.is_none());
                profile.files.push(known?);
                files.push(file);
                u32::try_from(files.len() - 1).ok()
            });
            let Some(number) = number else {
                left_out.1 += entry.span.bytes();
                continue;
            };
            let end = profile.files[number as usize].size.div_ceil(PAGE_SIZE);
            let pages = entry.span.end().min(end).saturating_sub(entry.span.start);
            if pages > 0 {
                profile.reads.push(PortableRead {
                    time_us: entry.time_us,
                    file: number,
                    start: entry.span.start,
                    pages,
                });
            }
        }
        if profile.reads.is_empty() {
            let what =
                "it reads no file that everybody may read and the administrator alone may change";
            return Err(what.to_owned());
        }
        let travelling = sequence
            .completion
            .iter()
            .filter_map(|page| match page.place {
                Place::Data { file } => Some(((*numbers.get(&file)?)?, page.start)),
                Place::Metadata { .. } => None,
            });
        profile.completion = travelling.collect();
        Ok(ExportedData {
            profile,
            files,
            left_out,
        })
    }

    /// The file as others may know it; `None` if it does not travel.
    fn file(&self, file: &File) -> Option<PortableFile> {
        let mount = &self.devices[usize::from(file.device)].as_ref()?.mount;
        self.mounts.of_device(mount.dev).find_map(|mount| {
            let inside = Path::new(OsStr::from_bytes(file.path.as_deref()?));
            let inside = inside.strip_prefix(OsStr::from_bytes(&mount.root)).ok()?;
            let path = mount.mount_point.join(inside);
            let path = format!("/{}", path.strip_prefix(self.root).ok()?.to_str()?);
            if !is_plain_path(&path) || self.is_in_home(&path) {
                return None;
            }
            let found = self.tree.find(&path).ok()?;
            let found = CachedFile::open(&found.fd).ok().filter(|opened| {
                (found.node.dev, opened.ino, opened.size) == (mount.dev, file.ino, file.size)
            })?;
            Some(PortableFile {
                path,
                size: found.size,
                version: file_version(&found),
            })
        })
    }

    fn is_in_home(&self, path: &str) -> bool {
        let is_in = |home: &String| {
            path.strip_prefix(home.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.homes.iter().any(is_in)
    }

    /// The pages of metadata in a launch sequence by device (`st_dev`), each with the time of its access in microseconds.
    fn metadata(&self, sequence: &Profile) -> BTreeMap<(u64, u64), u64> {
        let mut pages = BTreeMap::new();
        for entry in &sequence.entries {
            if let Place::Metadata { device } = entry.span.place
                && let Some(open) = &self.devices[usize::from(device)]
            {
                for page in entry.span.pages() {
                    let time = pages.entry((open.mount.dev, page)).or_insert(entry.time_us);
                    *time = entry.time_us.min(*time);
                }
            }
        }
        pages
    }

    /// The pages of metadata that opening and reading the exported files needs, and the directories that lead to them.
    fn read_by_files(
        &self,
        sequence: &Profile,
        exported: &ExportedData,
        probe: &mut LiveProbe<'_>,
    ) -> (BTreeSet<(u64, u64)>, BTreeSet<String>) {
        let mut paths = FilePaths::new(self.mounts, sequence.app.uid);
        let mut pages_of: HashMap<u32, Vec<_>> = HashMap::new();
        for entry in &sequence.entries {
            if let Place::Data { file } = entry.span.place {
                pages_of.entry(file).or_default().push(entry.span.pages());
            }
        }
        let (mut read, mut directories) = (BTreeSet::new(), BTreeSet::from(["/".to_owned()]));
        for (&index, known) in exported.files.iter().zip(&exported.profile.files) {
            let file = &sequence.files[index as usize];
            let Some(mount) = &self.devices[usize::from(file.device)] else {
                continue;
            };
            let dev = mount.mount.dev;
            let path = file.path.as_deref().unwrap_or_default();
            let mut metadata = paths.metadata(mount, path, probe);
            let dependencies = probe.dependencies_of(file.inode(dev));
            let data = pages_of.get(&index).into_iter().flatten();
            metadata.extend(data.flat_map(|pages| dependencies.of(pages)));
            read.extend(metadata.into_iter().flatten().map(|page| (dev, page)));
            let ends = known.path.match_indices('/').skip(1);
            directories.extend(ends.map(|(end, _)| known.path[..end].to_owned()));
        }
        (read, directories)
    }
}

/// What tells this file from others of its size: its build ID, if it has one.
pub(super) fn file_version(file: &CachedFile) -> FileVersion {
    match build_id(&file.fd) {
        Some(id) => FileVersion::BuildId(id),
        None => FileVersion::ModifiedNs(file.mtime_ns),
    }
}

/// The homes of people and of root below this root directory.
fn home_directories(tree: &PublicTree<'_>) -> Vec<String> {
    let read = || {
        let found = tree.find("/etc/passwd").ok()?;
        let (fd, _) = safe_open::regular(&found.fd, OFlags::empty()).ok()??;
        let mut text = Vec::new();
        let file = OpenFile::from(fd);
        file.take(MOST_PASSWD).read_to_end(&mut text).ok()?;
        Some(homes_in(&String::from_utf8_lossy(&text)))
    };
    let mut homes = HOMES.map(str::to_owned).to_vec();
    homes.extend(read().unwrap_or_default());
    homes
}

/// The homes of people and of root in the text of /etc/passwd.
fn homes_in(passwd: &str) -> Vec<String> {
    let home = |line: &str| {
        let mut fields = line.split(':').skip(2);
        let uid: u32 = fields.next()?.parse().ok()?;
        let home = fields.nth(2)?.trim_end_matches('/');
        ((uid == 0 || is_person(uid)) && home.starts_with('/')).then(|| home.to_owned())
    };
    passwd.lines().filter_map(home).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homes_are_those_of_people_and_of_root() {
        let passwd = "root:x:0:0:root:/root:/bin/bash\n\
            daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n\
            nobody:x:65534:65534::/nonexistent:/bin/false\n\
            alice:x:1000:1000:A,,,:/srv/alice/:/bin/sh\n\
            odd:x:1001:1001::/:/bin/sh\n\
            damaged:x:1002\n";
        assert_eq!(homes_in(passwd), ["/root", "/srv/alice"]);
    }
}
