//! What holds for every drive, whatever is asked of it.

use proptest::prelude::*;

use super::*;
use crate::drive::profile::built_in;

mod claims;
mod writes;

use claims::Load;

const CAPACITY: u64 = 1 << 30;

fn profile(name: &str) -> DriveProfile {
    let mut drives = built_in().unwrap();
    drives.retain(|drive| drive.name == name);
    drives.remove(0)
}

fn read(offset: u64, length: u64, arrival: u64) -> Request {
    Request {
        offset,
        length,
        operation: Operation::Read,
        arrival,
    }
}

fn write(offset: u64, length: u64, arrival: u64) -> Request {
    Request {
        operation: Operation::Write,
        ..read(offset, length, arrival)
    }
}

/// The completions of requests, asked for whenever the model says so. They must be in order of arrival.
fn completions(profile: &DriveProfile, requests: &[Request]) -> Vec<u64> {
    let mut model = Model::new(profile, CAPACITY).unwrap();
    let mut ends = vec![None; requests.len()];
    let mut pending: Vec<(u64, usize, Ticket)> = Vec::new();
    let mut coming = requests.iter().enumerate().peekable();
    loop {
        pending.sort_by_key(|(time, ..)| *time);
        let next_ask = pending.first().map_or(u64::MAX, |(time, ..)| *time);
        let (now, index, ticket) =
            if let Some((index, request)) = coming.next_if(|(_, next)| next.arrival <= next_ask) {
                (request.arrival, index, model.arrive(*request))
            } else if pending.is_empty() {
                return ends.into_iter().map(|end| end.unwrap()).collect();
            } else {
                pending.remove(0)
            };
        match model.ask(ticket, now) {
            Timing::Complete(time) => ends[index] = Some(time),
            Timing::AskAt(time) => {
                assert!(time > now, "asked again at {time}, at {now}");
                pending.push((time, index, ticket));
            }
        }
    }
}

/// Requests of up to 256 KiB anywhere, in order of arrival, some of them at one time.
fn requests() -> impl Strategy<Value = Vec<Request>> {
    let request = (
        0..CAPACITY / 512 - 512,
        1..512_u64,
        any::<bool>(),
        0..400_000_u64,
    );
    prop::collection::vec(request, 1..80).prop_map(|list| {
        let mut arrival = 0;
        let timed = list.into_iter().map(|(sector, sectors, write, gap)| {
            arrival += gap.saturating_sub(200_000);
            Request {
                offset: sector * 512,
                length: sectors * 512,
                operation: if write {
                    Operation::Write
                } else {
                    Operation::Read
                },
                arrival,
            }
        });
        timed.collect()
    })
}

/// Every emulated drive, also with a queue depth of its own.
fn drives() -> impl Strategy<Value = DriveProfile> {
    let mut drives = built_in().unwrap();
    drives.retain(DriveProfile::is_emulated);
    (prop::sample::select(drives), prop::option::of(1..40_u32)).prop_map(|(mut drive, depth)| {
        if let (Some(depth), Some(bus)) = (depth, &mut drive.bus) {
            bus.queue_depth = depth;
        }
        drive
    })
}

proptest! {
    #[test]
    fn nothing_is_faster_than_the_command_and_the_interface(drive in drives(), requests in requests()) {
        let bus = drive.bus.clone().unwrap();
        for (request, end) in requests.iter().zip(completions(&drive, &requests)) {
            let least = micros(bus.command_us) + (request.length as f64 * 1e3 / bus.interface_mb_s) as u64;
            prop_assert!(end >= request.arrival + least, "{request:?} ends at {end}");
        }
    }

    #[test]
    fn throughput_is_never_above_the_interface(drive in drives(), requests in requests()) {
        let rate = drive.bus.clone().unwrap().interface_mb_s;
        let ends = completions(&drive, &requests);
        let bytes: u64 = requests.iter().map(|request| request.length).sum();
        let start = requests[0].arrival;
        let end = ends.iter().max().unwrap();
        prop_assert!((end - start) as f64 * rate / 1e3 >= bytes as f64);
    }

    #[test]
    fn without_command_queuing_requests_are_served_one_by_one(drive in drives(), requests in requests()) {
        let mut drive = drive;
        let bus = drive.bus.as_mut().unwrap();
        bus.queue_depth = 1;
        let least = micros(bus.command_us);
        let ends = completions(&drive, &requests);
        for (index, pair) in ends.windows(2).enumerate() {
            let start = pair[0].max(requests[index + 1].arrival);
            prop_assert!(pair[1] >= start + least, "{pair:?}");
        }
    }

    #[test]
    fn the_same_requests_take_the_same_time(drive in drives(), requests in requests()) {
        prop_assert_eq!(completions(&drive, &requests), completions(&drive, &requests));
    }
}

#[test]
fn channels_work_beside_each_other_but_not_with_themselves() {
    let drive = profile("qlc-sata");
    let flash = drive.flash.clone().unwrap();
    let alone = completions(&drive, &[read(0, 4096, 0)])[0];
    let next = completions(
        &drive,
        &[read(0, 4096, 0), read(flash.stripe_bytes, 4096, 0)],
    )[1];
    let round = flash.stripe_bytes * u64::from(flash.channels);
    let same = completions(&drive, &[read(0, 4096, 0), read(round, 4096, 0)])[1];
    assert!(
        next < alone + micros(flash.read_us) / 2,
        "{next} after {alone}"
    );
    assert!(
        same >= alone + micros(flash.read_us),
        "{same} after {alone}"
    );
}

#[test]
fn a_look_up_of_the_map_costs_a_page_read_once() {
    let drive = profile("microsd");
    let flash = drive.flash.clone().unwrap();
    let second = 1_000_000_000;
    let ends = completions(&drive, &[read(0, 4096, 0), read(8192, 4096, second)]);
    assert_eq!(ends[0] - (ends[1] - second), micros(flash.read_us));
}

#[test]
fn the_nearest_of_the_queue_comes_first() {
    let mut drive = profile("hdd");
    let far_then_near = [
        read(0, 4096, 0),
        read(CAPACITY - 4096, 4096, 1),
        read(4096, 4096, 2),
    ];
    let ends = completions(&drive, &far_then_near);
    assert!(ends[2] < ends[1], "{ends:?}");
    drive.bus.as_mut().unwrap().queue_depth = 1;
    let ends = completions(&drive, &far_then_near);
    assert!(ends[1] < ends[2], "{ends:?}");
}

#[test]
fn seeks_have_the_average_that_the_profile_gives() {
    let drive = profile("hdd");
    let heads = drive.heads.clone().unwrap();
    // Uniform places from a linear congruential generator, each read long after the last one.
    let blocks = CAPACITY / 4096;
    let mut state = 1_u64;
    let mut place = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % blocks * 4096
    };
    let uniform: Vec<Request> = (1..4000)
        .map(|n| read(place(), 4096, n * 100_000_000))
        .collect();
    let ends = completions(&drive, &uniform);
    let total: u64 = ends
        .iter()
        .zip(&uniform)
        .map(|(end, r)| end - r.arrival)
        .sum();
    let mean_ms = total as f64 / uniform.len() as f64 / 1e6;
    let expected = heads.average_seek_ms + 30e3 / heads.rpm + drive.bus.unwrap().command_us / 1e3;
    assert!(
        (mean_ms - expected).abs() < 0.03 * expected,
        "{mean_ms} ms, not {expected}"
    );
}

#[test]
fn writes_that_continue_one_another_need_no_rotation() {
    let drive = profile("hdd");
    let length = 128 << 10;
    let rate = |requests: Vec<Request>| {
        let count = requests.len() as f64;
        let end = completions(&drive, &requests).into_iter().max().unwrap();
        count * length as f64 * 1e3 / end as f64
    };
    let together = rate((0..800).map(|n| write(n * length, length, 0)).collect());
    assert!((together - 150.0).abs() < 5.0, "{together} MB/s");
    // One after another, each misses its sector.
    let alone = Load::new(Operation::Write, 1, length, true);
    let expected = 1e3 / (60e3 / 7200.0 + 131_072.0 / 150e3);
    let is = claims::rate(&drive, alone);
    assert!((is / expected - 1.0).abs() < 0.02, "{is}, not {expected}");
}

#[test]
fn a_sequential_read_goes_on_at_the_tracks_rate() {
    let drive = profile("hdd");
    let length = 128 << 10;
    let requests: Vec<Request> = (0..800).map(|n| read(n * length, length, 0)).collect();
    let end = completions(&drive, &requests).into_iter().max().unwrap();
    let rate = 800.0 * length as f64 * 1e3 / end as f64;
    assert!((rate - 150.0).abs() < 5.0, "{rate} MB/s");
}
