//! Profiles for tests.

use proptest::prelude::*;

use crate::model::{
    App, Device, DriveClass, Ended, File, HelperRead, HookKind, Hooks, Infill, Learned, Operation,
    OperationKind, Params, Place, PrefetchEntry, Profile, ReadOrder, Revision, Span, UnusedPages,
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

fn operation(path: &str, kind: OperationKind, time_us: u64) -> Operation {
    Operation {
        device: 0,
        path: path.into(),
        kind,
        time_us,
    }
}

/// A small valid profile of the app at `path`.
pub fn sample(path: &str) -> Profile {
    let data = Place::Data { file: 0 };
    Profile {
        app: App {
            uid: 1000,
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
        operations: vec![
            operation(path, OperationKind::LookUp, 200),
            operation("/etc", OperationKind::List, 900),
        ],
        fault_around: vec![span(data, 4, 2)],
        unused: vec![UnusedPages {
            span: span(data, 0, 2),
            used_s: 1_690_000_000,
        }],
        learned_at: vec![1_690_000_000, 1_700_000_000],
        helpers: vec![HelperRead {
            entry: entry(data, 12, 3, 700),
            recurs: true,
        }],
        completion: vec![span(data, 4, 1), span(data, 6, 1)],
        log_entries: 5,
        obsolete: 0,
    }
}

/// Numbers, the same for a seed other than 0 on every run (xorshift64).
struct Numbers(u64);

impl Numbers {
    fn any(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.any() % bound
    }

    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize]
    }

    /// Something in three of four cases.
    fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (self.below(4) > 0).then(|| make(self))
    }

    /// Up to `most` of something, but at least `least`.
    fn many<T>(&mut self, least: u64, most: u64, make: impl Fn(&mut Self) -> T) -> Vec<T> {
        let count = least + self.below(most - least + 1);
        (0..count).map(|_| make(self)).collect()
    }

    fn path(&mut self) -> Vec<u8> {
        let directory = self.one_of(&["/", "/usr/lib/x86_64-linux-gnu/", "/usr/share/"]);
        let name = self.many(0, 12, |numbers| 1 + numbers.below(255) as u8);
        [directory.as_bytes(), &name].concat()
    }

    fn revision(&mut self) -> Revision {
        Revision {
            time: self.any(),
            params: Params {
                merge_distance: self.any(),
                shift_bytes: self.any(),
                infill: self.maybe(|numbers| Infill {
                    hole_pages: numbers.any(),
                    distance: numbers.any(),
                }),
                order: self.one_of(&[ReadOrder::Access, ReadOrder::Disk]),
            },
        }
    }

    fn device(&mut self) -> Device {
        use DriveClass::{CommandQueuing, NoCommandQueuing, Rotational};
        Device {
            dev: self.any(),
            name: self
                .one_of(&["sda2", "nvme0n1p3", "dm-0", "cciss!c0d0", ""])
                .into(),
            fs: self.one_of(&["ext4", "btrfs", "squashfs"]).into(),
            fs_uuid: [self.any().to_le_bytes(), self.any().to_le_bytes()]
                .concat()
                .try_into()
                .expect("16 bytes"),
            class: self.one_of(&[CommandQueuing, NoCommandQueuing, Rotational]),
        }
    }

    fn file(&mut self, devices: u64) -> File {
        let (near, far, time) = (self.below(5_000_000), self.any(), self.any() as i64);
        File {
            device: self.below(devices) as u16,
            ino: self.one_of(&[near, far]),
            generation: self.any() as u32,
            size: self.any(),
            mtime_ns: self.one_of(&[time, time, i64::MIN, i64::MAX]),
            path: self.maybe(Numbers::path),
        }
    }

    fn entry(&mut self, devices: u64, files: u64) -> PrefetchEntry {
        let index = self.below(devices + files);
        let place = match index.checked_sub(devices) {
            None => Place::Metadata {
                device: index as u16,
            },
            Some(file) => Place::Data { file: file as u32 },
        };
        let bound = self.one_of(&[2_000, 2_000, (1 << 52) - 8]);
        let start = self.below(bound);
        let times = [self.below(2_000_000), self.any()];
        entry(place, start, 1 + self.below(8), self.one_of(&times))
    }

    fn operation(&mut self, devices: u64) -> Operation {
        let times = [self.below(2_000_000), self.any()];
        Operation {
            device: self.below(devices) as u16,
            path: self.path(),
            kind: self.one_of(&[OperationKind::LookUp, OperationKind::List]),
            time_us: self.one_of(&times),
        }
    }

    fn profile(&mut self) -> Profile {
        use HookKind::{Fentry, NoFunction, Refused, Tracepoint};
        let (devices, files) = (1 + self.below(3), self.below(20));
        let entry = |numbers: &mut Numbers| numbers.entry(devices, files);
        let span = |numbers: &mut Numbers| entry(numbers).span;
        let kinds = [Tracepoint, Fentry, NoFunction, Refused];
        let entries = self.many(0, 60, entry);
        Profile {
            app: App {
                uid: self.any() as u32,
                path: self.path(),
                root: self.maybe(Numbers::path),
                program: self.maybe(Numbers::path),
                dev: self.any(),
                ino: self.any(),
            },
            created: self.any(),
            learned: self.one_of(&[
                Learned::Exact,
                Learned::AsRead,
                Learned::Live,
                Learned::Imported,
            ]),
            ended: self.one_of(&[Ended::Exit, Ended::Quiet, Ended::Timeout]),
            hooks: Hooks {
                reads: self.one_of(&kinds),
                faults: self.one_of(&kinds),
            },
            history: self.many(1, 3, Numbers::revision),
            devices: self.many(devices, devices, Numbers::device),
            files: self.many(files, files, |numbers| numbers.file(devices)),
            entries,
            operations: self.many(0, 20, |numbers| numbers.operation(devices)),
            fault_around: self.many(0, 20, span),
            unused: self.many(0, 20, |numbers| UnusedPages {
                span: span(numbers),
                used_s: numbers.any(),
            }),
            learned_at: self.many(0, 4, Numbers::any),
            helpers: self.many(0, 20, |numbers| HelperRead {
                entry: entry(numbers),
                recurs: numbers.below(2) == 0,
            }),
            completion: self.many(0, 8, span),
            log_entries: self.any() as u32,
            obsolete: self.any() as u32,
        }
    }
}

/// Any valid profile of moderate size, times not rounded.
pub fn profile() -> impl Strategy<Value = Profile> {
    (1..u64::MAX).prop_map(|seed| Numbers(seed).profile())
}

/// What exact learning of a large app on Debian looks like: about `entries` short scattered spans
/// over `count` files and their metadata, read in an order that comes back to the same files again
/// and again.
pub fn realistic(entries: usize, count: usize) -> Profile {
    let numbers = &mut Numbers(0x2545_f491_4f6c_dd1d);
    Profile {
        files: (0..count)
            .map(|number| realistic_file(number, numbers))
            .collect(),
        entries: realistic_entries(entries, count, numbers),
        operations: Vec::new(),
        fault_around: Vec::new(),
        unused: Vec::new(),
        helpers: Vec::new(),
        ..sample("/usr/lib/libreoffice/program/soffice.bin")
    }
}

fn realistic_file(number: usize, numbers: &mut Numbers) -> File {
    let directory = numbers.one_of(&[
        "/usr/lib/x86_64-linux-gnu/lib",
        "/usr/lib/x86_64-linux-gnu/gtk-3.0/3.0.0/immodules/im-",
        "/usr/lib/libreoffice/program/lib",
        "/usr/lib/libreoffice/share/config/images_",
        "/usr/share/fonts/truetype/",
        "/usr/share/icons/hicolor/48x48/apps/",
    ]);
    let mut path = directory.to_owned();
    for _ in 0..4 + numbers.below(8) {
        path.push(char::from(b'a' + numbers.below(26) as u8));
    }
    path += &format!(".so.{}.{}.{number}", numbers.below(3), numbers.below(30));
    // Files of one package: neighbouring inodes, one time of modification in whole seconds.
    let package = numbers.below(90);
    File {
        device: 0,
        ino: 400_000 + package * 3_000 + numbers.below(200),
        generation: numbers.any() as u32,
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
            let place = Place::Data { file: file as u32 };
            entries.push(entry(place, start, len, time_us));
        }
    }
    entries
}
