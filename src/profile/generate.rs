//! Profiles for tests.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::model::DriveClass;
use crate::model::{App, Device, Ended, File, HelperRead, Learned, Profile, Revision};
use crate::model::{HookKind, Hooks};
use crate::model::{Infill, Params, Place, PrefetchEntry, Span};

/// A small valid profile of the app at `path`.
pub fn sample(path: &str) -> Profile {
    let span = |place, start, len| Span { place, start, len };
    let metadata = Place::Metadata { device: 0 };
    let data = Place::Data { file: 0 };
    Profile {
        app: App {
            path: path.into(),
            root: None,
            program: None,
            dev: 0x802,
            ino: 1234,
        },
        created: 1_700_000_000,
        learned: Learned::Exact,
        ended: Ended::Exit,
        hooks: Hooks {
            reads: HookKind::Tracepoint,
            faults: HookKind::Fentry,
        },
        history: vec![Revision {
            time: 1_700_000_001,
            params: Params::for_device(DriveClass::CommandQueuing, true),
        }],
        devices: vec![Device {
            dev: 0x802,
            name: "sda2".into(),
            fs: "ext4".into(),
            fs_uuid: *b"0123456789abcdef",
            class: DriveClass::CommandQueuing,
        }],
        files: vec![File {
            device: 0,
            ino: 1234,
            generation: 0xdead_beef,
            size: 70_000,
            mtime_ns: 1_600_000_000_123_456_789,
            path: Some(path.into()),
        }],
        entries: vec![
            PrefetchEntry {
                span: span(metadata, 9_000, 1),
                time_us: 300,
            },
            PrefetchEntry {
                span: span(data, 3, 4),
                time_us: 1_200,
            },
            PrefetchEntry {
                span: span(data, 0, 2),
                time_us: 500,
            },
        ],
        fault_around: vec![span(data, 4, 2)],
        helpers: vec![HelperRead {
            entry: PrefetchEntry {
                span: span(data, 12, 3),
                time_us: 700,
            },
            recurs: true,
        }],
        completion: Some(span(data, 6, 1)),
        log_entries: 5,
        obsolete: 0,
    }
}

fn params() -> impl Strategy<Value = Params> {
    let infill = (any::<u64>(), any::<u64>()).prop_map(|(hole_pages, distance)| Infill {
        hole_pages,
        distance,
    });
    (any::<u64>(), any::<u64>(), option::of(infill)).prop_map(
        |(merge_distance, shift_bytes, infill)| Params {
            merge_distance,
            shift_bytes,
            infill,
        },
    )
}

fn path() -> impl Strategy<Value = Vec<u8>> {
    let directory = select(vec!["/", "/usr/lib/x86_64-linux-gnu/", "/usr/share/"]);
    (directory, vec(1..=255u8, 0..12))
        .prop_map(|(directory, name)| [directory.as_bytes(), &name].concat())
}

fn device() -> impl Strategy<Value = Device> {
    use DriveClass::{CommandQueuing, NoCommandQueuing, Rotational};
    (
        any::<u64>(),
        "[a-z][a-z0-9!.-]{0,20}",
        select(vec!["ext4", "btrfs", "squashfs"]),
        any::<[u8; 16]>(),
        select(vec![CommandQueuing, NoCommandQueuing, Rotational]),
    )
        .prop_map(|(dev, name, fs, fs_uuid, class)| Device {
            dev,
            name,
            fs: fs.into(),
            fs_uuid,
            class,
        })
}

fn file(devices: usize) -> impl Strategy<Value = File> {
    (
        0..devices as u16,
        prop_oneof![any::<u64>(), 1..5_000_000u64],
        any::<u32>(),
        any::<u64>(),
        prop_oneof![any::<i64>(), Just(i64::MIN), Just(i64::MAX)],
        option::weighted(0.9, path()),
    )
        .prop_map(|(device, ino, generation, size, mtime_ns, path)| File {
            device,
            ino,
            generation,
            size,
            mtime_ns,
            path,
        })
}

fn span(devices: usize, files: usize) -> impl Strategy<Value = Span> {
    let start = prop_oneof![4 => 0..2_000u64, 1 => 0..(1u64 << 52) - 8];
    (any::<prop::sample::Index>(), start, 1..=8u64).prop_map(move |(index, start, len)| {
        let index = index.index(devices + files);
        let place = if index < devices {
            Place::Metadata {
                device: index as u16,
            }
        } else {
            Place::Data {
                file: (index - devices) as u32,
            }
        };
        Span { place, start, len }
    })
}

fn entry(devices: usize, files: usize) -> impl Strategy<Value = PrefetchEntry> {
    let time_us = prop_oneof![0..2_000_000u64, any::<u64>()];
    (span(devices, files), time_us).prop_map(|(span, time_us)| PrefetchEntry { span, time_us })
}

fn hooks() -> impl Strategy<Value = Hooks> {
    let means = || {
        select(vec![
            HookKind::Tracepoint,
            HookKind::Fentry,
            HookKind::NoFunction,
            HookKind::Refused,
        ])
    };
    (means(), means()).prop_map(|(reads, faults)| Hooks { reads, faults })
}

/// Any valid profile of moderate size, times not rounded.
pub fn profile() -> impl Strategy<Value = Profile> {
    (1..4usize, 0..20usize).prop_flat_map(|(devices, files)| {
        let inode = (any::<u64>(), any::<u64>());
        let app = (path(), option::of(path()), option::of(path()), inode);
        let head = (
            app,
            any::<u64>(),
            select(vec![Learned::Exact, Learned::AsRead, Learned::Live]),
            select(vec![Ended::Exit, Ended::Quiet, Ended::Timeout]),
            hooks(),
            vec((any::<u64>(), params()), 1..4),
            any::<(u32, u32)>(),
        );
        let tables = (
            vec(device(), devices),
            vec(file(devices), files),
            vec(entry(devices, files), 0..60),
            option::of(span(devices, files)),
            vec(span(devices, files), 0..20),
            vec((entry(devices, files), any::<bool>()), 0..20),
        );
        (head, tables).prop_map(|(head, tables)| {
            let (devices, files, entries, completion, fault_around, helpers) = tables;
            let (app, created, learned, ended, hooks, history, counts) = head;
            let (path, root, program, (dev, ino)) = app;
            Profile {
                app: App {
                    path,
                    root,
                    program,
                    dev,
                    ino,
                },
                created,
                learned,
                ended,
                hooks,
                history: history
                    .into_iter()
                    .map(|(time, params)| Revision { time, params })
                    .collect(),
                devices,
                files,
                entries,
                fault_around,
                helpers: helpers
                    .into_iter()
                    .map(|(entry, recurs)| HelperRead { entry, recurs })
                    .collect(),
                completion,
                log_entries: counts.0,
                obsolete: counts.1,
            }
        })
    })
}

/// What exact learning of a large app on Debian looks like: about `entries` short scattered spans
/// over `count` files and their metadata, read in an order that comes back to the same files again
/// and again.
pub fn realistic(entries: usize, count: usize) -> Profile {
    const DIRECTORIES: [&str; 6] = [
        "/usr/lib/x86_64-linux-gnu/lib",
        "/usr/lib/x86_64-linux-gnu/gtk-3.0/3.0.0/immodules/im-",
        "/usr/lib/libreoffice/program/lib",
        "/usr/lib/libreoffice/share/config/images_",
        "/usr/share/fonts/truetype/",
        "/usr/share/icons/hicolor/48x48/apps/",
    ];
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    // xorshift64: the same profile on every run.
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut profile = sample("/usr/lib/libreoffice/program/soffice.bin");
    profile.files.clear();
    profile.entries.clear();
    profile.fault_around.clear();
    profile.helpers.clear();
    for number in 0..count as u64 {
        let mut path = DIRECTORIES[random(6) as usize].to_owned();
        for _ in 0..4 + random(8) {
            path.push(char::from(b'a' + random(26) as u8));
        }
        path += &format!(".so.{}.{}.{number}", random(3), random(30));
        // Files of one package: neighbouring inodes, one time of modification in whole seconds.
        let package = random(90);
        profile.files.push(File {
            device: 0,
            ino: 400_000 + package * 3_000 + random(200),
            generation: random(1 << 32) as u32,
            size: 4_000 + random(8_000_000),
            mtime_ns: (1_650_000_000 + package as i64 * 100_003) * 1_000_000_000,
            path: Some(path.into()),
        });
    }
    let mut next = vec![0; count];
    let (mut time_us, mut block, mut seen) = (0, 5_000_000, 0);
    while profile.entries.len() < entries {
        time_us += random(250);
        if random(16) == 0 {
            block = block + random(9_000) - 3_000;
            let place = Place::Metadata { device: 0 };
            let span = Span {
                place,
                start: block,
                len: 1,
            };
            profile.entries.push(PrefetchEntry { span, time_us });
        }
        // A launch opens file after file, and comes back to any of those it has open.
        if seen < count && random(entries as u64) < count as u64 {
            seen += 1;
        }
        let file = random(seen.max(1) as u64) as usize;
        for _ in 0..1 + random(4) {
            time_us += random(120);
            let jump = if random(3) == 0 { 500 } else { 20 };
            let start = next[file] + random(jump);
            let len = 1 + random(8) * random(2);
            next[file] = if start > 2_000 { 0 } else { start + len };
            let place = Place::Data { file: file as u32 };
            let span = Span { place, start, len };
            profile.entries.push(PrefetchEntry { span, time_us });
        }
    }
    profile
}
