use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::model::Place;
use crate::profile::generate::{profile, realistic, sample};

fn body_of(profile: &Profile) -> Vec<u8> {
    let file = encode(profile).expect("a valid profile");
    unseal(&file).expect("just written")
}

/// As [`encode`] rounds them.
fn round_times(profile: &mut Profile) {
    let helpers = profile.helpers.iter_mut().map(|read| &mut read.entry);
    let times = profile.entries.iter_mut().chain(helpers);
    let times = times.map(|entry| &mut entry.time_us);
    let asked = profile.operations.iter_mut().map(|it| &mut it.time_us);
    for time_us in times.chain(asked) {
        *time_us -= *time_us % TIME_QUANTUM_US;
    }
}

/// Decodes, and holds what comes out against what would be written.
fn decode_any(bytes: &[u8]) -> Result<(), TestCaseError> {
    if let Ok(profile) = decode(bytes) {
        let again = encode(&profile).expect("what was read can be written");
        prop_assert_eq!(decode(&again), Ok(profile));
    }
    Ok(())
}

/// A file of this format, byte for byte. If reading it fails, profiles in the field have become
/// unreadable: the format changed, and [`VERSION`] must change with it.
#[test]
fn format_7_stays_readable() {
    let file = include_bytes!("format-7.pf");
    let mut expected = sample("/usr/bin/gimp-2.10");
    assert_eq!(decode(file), Ok(expected.clone()));
    assert_eq!(Ok(body_of(&expected)), unseal(file));
    expected.created += 1;
    assert_ne!(decode(file), Ok(expected));
}

/// Fuzzing that begins with files of an older format never comes past the header.
#[test]
fn fuzz_seeds_are_of_this_format() {
    let seed = |name: &str| {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds");
        std::fs::read(path.join(name)).unwrap()
    };
    let file = include_bytes!("format-7.pf");
    assert_eq!(seed("profile_reader/profile"), file, "copy it");
    let body = seed("profile_body/body");
    assert_eq!(Ok(body), unseal(file), "inflate it");
}

#[test]
fn sizes_stay_within_budget() {
    for (entries, files, limit) in [(3_000, 350, 25 << 10), (16_000, 650, 96 << 10)] {
        let profile = realistic(entries, files);
        let size = encode(&profile).expect("a valid profile").len();
        println!("{entries} entries, {files} files: {size} bytes");
        assert!(profile.entries.len() >= entries && profile.files.len() == files);
        assert!(size <= limit, "{size} bytes for {entries} entries");
    }
}

#[test]
fn foreign_and_damaged_files_are_named() {
    let good = encode(&sample("/bin/true")).expect("valid");
    assert_eq!(decode(b"#!/bin/sh\n"), Err(FormatError::NotAProfile));
    assert_eq!(decode(b""), Err(FormatError::Truncated));
    assert_eq!(decode(&good[..5]), Err(FormatError::Truncated));
    let last = good.len() - 1;
    assert_eq!(decode(&good[..last]), Err(FormatError::Truncated));
    let mut newer = good.clone();
    for other in [2, VERSION + 1] {
        newer[8] = other as u8;
        assert_eq!(decode(&newer), Err(FormatError::Version(other)));
    }
    let mut flipped = good.clone();
    flipped[last] ^= 4;
    assert_eq!(decode(&flipped), Err(FormatError::Checksum));
    let mut longer = good;
    longer.push(0);
    assert!(matches!(decode(&longer), Err(FormatError::Invalid(_))));
}

#[test]
fn large_files_are_refused_before_anything_is_allocated() {
    let refused = |bytes: &[u8]| matches!(decode(bytes), Err(FormatError::TooLarge { .. }));
    assert!(refused(&seal(&vec![0; MAX_BODY_BYTES + 1])));
    let mut long = encode(&sample("/bin/true")).expect("valid");
    long.resize(MAX_FILE_BYTES + 1, 0);
    assert!(refused(&long));
}

/// The file with `packed` bytes of a deflated body, of which the header says that it inflates to `body_bytes`.
fn forged(packed: &[u8], body_bytes: usize) -> Vec<u8> {
    let mut file = seal(&[]);
    file.truncate(HEADER_BYTES);
    file[10..14].copy_from_slice(&(packed.len() as u32).to_le_bytes());
    file[14..18].copy_from_slice(&(body_bytes as u32).to_le_bytes());
    let crc = checksum(&file[..18], packed).to_le_bytes();
    file[18..22].copy_from_slice(&crc);
    [&file, packed].concat()
}

#[test]
fn an_app_without_a_file_has_a_launcher_before_its_name() {
    let is_name = |name: &str| limits::is_app_name(name.as_bytes());
    assert!(is_name("flatpak:org.gimp.GIMP") && is_name("java:module/Main"));
    assert!(!is_name("flatpak") && !is_name("a/b:c") && !is_name("mail: letter"));
    let long = |bytes: usize| format!("mail:{}", "a".repeat(bytes - 5));
    assert!(is_name(&long(limits::MAX_PATH)) && !is_name(&long(limits::MAX_PATH + 1)));
}

/// Nothing deflates better than zeros.
#[test]
fn what_deflates_best_is_read_back() {
    let zeros = vec![0; 1 << 20];
    assert_eq!(unseal(&seal(&zeros)), Ok(zeros));
}

#[test]
fn each_entry_has_its_flag_or_its_time() {
    let profile = sample("/bin/true");
    let decoded = |body: Body| decode(&seal(&postcard::to_allocvec(&body).unwrap()));
    assert!(decoded(Body::new(&profile)).is_ok());
    let mut body = Body::new(&profile);
    body.recurs.0.push(true);
    assert!(matches!(decoded(body), Err(FormatError::Invalid(_))));
    let mut body = Body::new(&profile);
    body.used_s.0.push(1);
    assert!(matches!(decoded(body), Err(FormatError::Invalid(_))));
}

#[test]
fn bytes_behind_the_contents_are_refused() {
    let good = encode(&sample("/bin/true")).expect("valid");
    let body = unseal(&good).expect("valid");
    let packed = &good[HEADER_BYTES..];
    assert_eq!(forged(packed, body.len()), good);
    let padded = [packed, &[0]].concat();
    assert_eq!(decode(&forged(&padded, body.len())), Err(CONTENTS));
    let longer = seal(&[&body[..], &[0]].concat());
    assert!(matches!(decode(&longer), Err(FormatError::Invalid(_))));
    // A few bytes that claim the largest body allowed.
    let empty = &seal(&[])[HEADER_BYTES..];
    assert_eq!(decode(&forged(empty, MAX_BODY_BYTES)), Err(CONTENTS));
}

/// A small file whose paths share prefixes so that together they would be huge.
#[test]
fn shared_prefixes_cannot_multiply() {
    let mut profile = sample("/bin/true");
    let long = [b"/".as_slice(), &[b'a'; 4_000]].concat();
    profile.files[0].path = Some(long);
    profile.files = vec![profile.files[0].clone(); limits::MAX_PATH_BYTES / 4_000 + 1];
    let file = seal(&contents(&profile).expect("serialisable"));
    assert!(file.len() < 16 << 10);
    let too_large = |result| matches!(result, Err(FormatError::TooLarge { .. }));
    assert!(too_large(decode(&file).map(drop)));
    assert!(too_large(encode(&profile).map(drop)));
}

/// Every rule that a profile must satisfy, broken one at a time, in memory and in a file that is
/// otherwise in order.
#[test]
fn contradictions_are_refused() {
    type Break = fn(&mut Profile);
    let rules: &[(&str, Break)] = &[
        ("relative app", |p| p.app.path = b"bin/true".to_vec()),
        ("NUL in app", |p| p.app.path = b"/bin\0".to_vec()),
        ("long app", |p| p.app.path = vec![b'/'; 4096]),
        ("relative root", |p| p.app.root = Some(b"root".to_vec())),
        ("no parameters", |p| p.history.clear()),
        ("long history", |p| p.history = vec![p.history[0]; 1025]),
        ("many devices", |p| {
            p.devices = vec![p.devices[0].clone(); 257]
        }),
        ("device is a path", |p| p.devices[0].name = "../sda".into()),
        ("device is long", |p| p.devices[0].name = "a".repeat(65)),
        ("fs is an escape", |p| p.devices[0].fs = "\x1b[2J".into()),
        ("file's device", |p| p.files[0].device = 1),
        ("empty path", |p| p.files[0].path = Some(Vec::new())),
        ("NUL in path", |p| p.files[0].path = Some(b"/\0".to_vec())),
        ("long path", |p| p.files[0].path = Some(vec![b'/'; 4096])),
        ("many files", |p| p.files = vec![p.files[0].clone(); 65_537]),
        ("empty span", |p| p.entries[1].span.len = 0),
        ("far span", |p| p.entries[1].span.start = 1 << 52),
        ("empty completion", |p| p.completion[1].len = 0),
        ("endless completion", |p| p.completion[1].len = u64::MAX),
        ("foreign completion", |p| {
            p.completion[1].place = Place::Data { file: 1 };
        }),
        ("many completion pages", |p| {
            p.completion = vec![p.completion[0]; 9]
        }),
        ("operation's device", |p| p.operations[0].device = 1),
        ("empty operation", |p| p.operations[1].path.clear()),
        ("NUL in operation", |p| {
            p.operations[1].path = b"/\0".to_vec()
        }),
        ("long operation", |p| {
            p.operations[1].path = vec![b'/'; 4096]
        }),
        ("many operations", |p| {
            p.operations = vec![p.operations[0].clone(); limits::MAX_OPERATIONS + 1];
        }),
        ("many entries", |p| {
            p.entries = vec![p.entries[0]; limits::MAX_ENTRIES + 1];
        }),
    ];
    assert!(encode(&sample("/bin/true")).is_ok());
    for (name, break_rule) in rules {
        let mut profile = sample("/bin/true");
        break_rule(&mut profile);
        assert!(encode(&profile).is_err(), "{name} was written");
        let body = contents(&profile).expect("serialisable");
        assert!(decode(&seal(&body)).is_err(), "{name} was read");
    }
    // These cannot even be expressed in a file.
    let rules: &[Break] = &[
        |p| p.entries[1].span.len = u64::MAX,
        |p| p.entries[0].span.place = Place::Data { file: 1 },
        |p| p.entries[0].span.place = Place::Metadata { device: 1 },
    ];
    for break_rule in rules {
        let mut profile = sample("/bin/true");
        break_rule(&mut profile);
        assert_eq!(encode(&profile), Err(FormatError::Invalid("its entries")));
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(mut profile in profile()) {
        let read = decode(&encode(&profile).expect("a valid profile"));
        round_times(&mut profile);
        prop_assert_eq!(read, Ok(profile));
    }

    #[test]
    fn any_flipped_bit_is_an_error(
        profile in profile(),
        at in any::<prop::sample::Index>(),
        mask in 1..=255u8,
    ) {
        let mut file = encode(&profile).expect("a valid profile");
        let at = at.index(file.len());
        file[at] ^= mask;
        prop_assert!(decode(&file).is_err());
    }

    #[test]
    fn any_shortened_file_is_an_error(profile in profile(), to in any::<prop::sample::Index>()) {
        let file = encode(&profile).expect("a valid profile");
        prop_assert_eq!(decode(&file[..to.index(file.len())]), Err(FormatError::Truncated));
    }

    #[test]
    fn arbitrary_bytes_do_no_harm(bytes in vec(any::<u8>(), 0..2_000)) {
        decode_any(&bytes)?;
        decode_any(&seal(&bytes))?;
    }

    /// Damage behind a right checksum, so that every rule of the body's parser is met.
    #[test]
    fn damaged_bodies_do_no_harm(
        profile in profile(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in prop::option::weighted(0.1, any::<prop::sample::Index>()),
    ) {
        let mut body = body_of(&profile);
        for (at, byte) in damage {
            let at = at.index(body.len());
            body[at] = byte;
        }
        if let Some(to) = cut {
            body.truncate(to.index(body.len()));
        }
        decode_any(&seal(&body))?;
    }
}
