//! Profiles for tests.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::model::{
    App, Device, DriveClass, Ended, File, HelperRead, HookKind, Hooks, Infill, Learned, Params,
    Place, PrefetchEntry, Profile, Revision, Span,
};

fn span(place: Place, start: u64, len: u64) -> Span {
    Span { place, start, len }
}

fn entry(place: Place, start: u64, len: u64, time_us: u64) -> PrefetchEntry {
    PrefetchEntry {
        span: span(place, start, len),
        time_us,
    }
}

/// A small valid profile of the app at `path`.
pub fn sample(path: &str) -> Profile {
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
            entry(Place::Metadata { device: 0 }, 9_000, 1, 300),
            entry(data, 3, 4, 1_200),
            entry(data, 0, 2, 500),
        ],
        fault_around: vec![span(data, 4, 2)],
        helpers: vec![HelperRead {
            entry: entry(data, 12, 3, 700),
            recurs: true,
        }],
        completion: Some(span(data, 6, 1)),
        log_entries: 5,
        obsolete: 0,
    }
}

fn revision() -> impl Strategy<Value = Revision> {
    let infill = option::of(any::<(u64, u64)>());
    (any::<(u64, u64, u64)>(), infill).prop_map(|((time, merge_distance, shift_bytes), infill)| {
        let infill = infill.map(|(hole_pages, distance)| Infill {
            hole_pages,
            distance,
        });
        Revision {
            time,
            params: Params {
                merge_distance,
                shift_bytes,
                infill,
            },
        }
    })
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

fn any_span(devices: usize, files: usize) -> impl Strategy<Value = Span> {
    let start = prop_oneof![4 => 0..2_000u64, 1 => 0..(1u64 << 52) - 8];
    (0..devices + files, start, 1..=8u64).prop_map(move |(index, start, len)| {
        let place = match index.checked_sub(devices) {
            None => Place::Metadata {
                device: index as u16,
            },
            Some(file) => Place::Data { file: file as u32 },
        };
        span(place, start, len)
    })
}

fn any_entry(devices: usize, files: usize) -> impl Strategy<Value = PrefetchEntry> {
    let time_us = prop_oneof![0..2_000_000u64, any::<u64>()];
    (any_span(devices, files), time_us).prop_map(|(span, time_us)| PrefetchEntry { span, time_us })
}

fn helper_read(devices: usize, files: usize) -> impl Strategy<Value = HelperRead> {
    (any_entry(devices, files), any::<bool>())
        .prop_map(|(entry, recurs)| HelperRead { entry, recurs })
}

fn hooks() -> impl Strategy<Value = Hooks> {
    use HookKind::{Fentry, NoFunction, Refused, Tracepoint};
    let kind = || select(vec![Tracepoint, Fentry, NoFunction, Refused]);
    (kind(), kind()).prop_map(|(reads, faults)| Hooks { reads, faults })
}

fn app() -> impl Strategy<Value = App> {
    let paths = (path(), option::of(path()), option::of(path()));
    (paths, any::<(u64, u64)>()).prop_map(|((path, root, program), (dev, ino))| App {
        path,
        root,
        program,
        dev,
        ino,
    })
}

/// Any valid profile of moderate size, times not rounded.
pub fn profile() -> impl Strategy<Value = Profile> {
    (1..4usize, 0..20usize).prop_flat_map(|(devices, files)| {
        let head = (
            app(),
            select(vec![Learned::Exact, Learned::AsRead, Learned::Live]),
            select(vec![Ended::Exit, Ended::Quiet, Ended::Timeout]),
            hooks(),
            vec(revision(), 1..4),
            any::<(u64, u32, u32)>(),
        );
        let tables = (
            vec(device(), devices),
            vec(file(devices), files),
            vec(any_entry(devices, files), 0..60),
            option::of(any_span(devices, files)),
            vec(any_span(devices, files), 0..20),
            vec(helper_read(devices, files), 0..20),
        );
        (head, tables).prop_map(|(head, tables)| {
            let (app, learned, ended, hooks, history, numbers) = head;
            let (created, log_entries, obsolete) = numbers;
            let (devices, files, entries, completion, fault_around, helpers) = tables;
            Profile {
                app,
                created,
                learned,
                ended,
                hooks,
                history,
                devices,
                files,
                entries,
                fault_around,
                helpers,
                completion,
                log_entries,
                obsolete,
            }
        })
    })
}

/// Numbers below a bound, the same on every run (xorshift64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// What exact learning of a large app on Debian looks like: about `entries` short scattered spans
/// over `count` files and their metadata, read in an order that comes back to the same files again
/// and again.
pub fn realistic(entries: usize, count: usize) -> Profile {
    let mut numbers = Numbers(0x2545_f491_4f6c_dd1d);
    Profile {
        files: (0..count)
            .map(|number| realistic_file(number, &mut numbers))
            .collect(),
        entries: realistic_entries(entries, count, &mut numbers),
        fault_around: Vec::new(),
        helpers: Vec::new(),
        ..sample("/usr/lib/libreoffice/program/soffice.bin")
    }
}

fn realistic_file(number: usize, numbers: &mut Numbers) -> File {
    const DIRECTORIES: [&str; 6] = [
        "/usr/lib/x86_64-linux-gnu/lib",
        "/usr/lib/x86_64-linux-gnu/gtk-3.0/3.0.0/immodules/im-",
        "/usr/lib/libreoffice/program/lib",
        "/usr/lib/libreoffice/share/config/images_",
        "/usr/share/fonts/truetype/",
        "/usr/share/icons/hicolor/48x48/apps/",
    ];
    let mut path = DIRECTORIES[numbers.below(6) as usize].to_owned();
    for _ in 0..4 + numbers.below(8) {
        path.push(char::from(b'a' + numbers.below(26) as u8));
    }
    path += &format!(".so.{}.{}.{number}", numbers.below(3), numbers.below(30));
    // Files of one package: neighbouring inodes, one time of modification in whole seconds.
    let package = numbers.below(90);
    File {
        device: 0,
        ino: 400_000 + package * 3_000 + numbers.below(200),
        generation: numbers.below(1 << 32) as u32,
        size: 4_000 + numbers.below(8_000_000),
        mtime_ns: (1_650_000_000 + package as i64 * 100_003) * 1_000_000_000,
        path: Some(path.into()),
    }
}

fn realistic_entries(wanted: usize, files: usize, numbers: &mut Numbers) -> Vec<PrefetchEntry> {
    let mut entries = Vec::new();
    let mut next = vec![0; files];
    let (mut time_us, mut block, mut opened) = (0, 5_000_000, 0);
    while entries.len() < wanted {
        time_us += numbers.below(250);
        if numbers.below(16) == 0 {
            block = block + numbers.below(9_000) - 3_000;
            entries.push(entry(Place::Metadata { device: 0 }, block, 1, time_us));
        }
        // A launch opens file after file, and comes back to any of those it has open.
        if opened < files && numbers.below(wanted as u64) < files as u64 {
            opened += 1;
        }
        let file = numbers.below(opened.max(1) as u64) as usize;
        for _ in 0..1 + numbers.below(4) {
            time_us += numbers.below(120);
            let jump = if numbers.below(3) == 0 { 500 } else { 20 };
            let start = next[file] + numbers.below(jump);
            let len = 1 + numbers.below(8) * numbers.below(2);
            next[file] = if start > 2_000 { 0 } else { start + len };
            entries.push(entry(
                Place::Data { file: file as u32 },
                start,
                len,
                time_us,
            ));
        }
    }
    entries
}
