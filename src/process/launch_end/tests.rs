//! The whole detector, on clocks and threads that the tests make up.

use super::*;

const MS: u64 = 1_000_000;

/// A launch that started at 1000 ms.
struct SimulatedLaunch {
    detector: EndDetector,
    suspended_ms: u64,
}

/// What is not said of a look is as usual.
#[derive(Clone, Copy, Default)]
struct At<'a> {
    reads_ms: &'a [u64],
    is_prefetching: bool,
    has_exited: bool,
    threads: &'a [TaskState],
}

const READ: At<'_> = At {
    reads_ms: &[1010],
    is_prefetching: false,
    has_exited: false,
    threads: &[],
};

const NOTHING: At<'_> = At {
    reads_ms: &[],
    ..READ
};

const PREFETCHING: At<'_> = At {
    is_prefetching: true,
    ..NOTHING
};

const EXITED: At<'_> = At {
    has_exited: true,
    ..READ
};

const THREAD: TaskState = TaskState {
    pid: 7,
    parent: 1,
    state: b'S',
    ticks: 3,
    start_time: 0,
};

const WAITING_FOR_DRIVE: At<'_> = At {
    threads: &[TaskState {
        state: b'D',
        ..THREAD
    }],
    ..NOTHING
};

const WITHOUT_PROCESSOR: At<'_> = At {
    threads: &[TaskState {
        state: b'R',
        ..THREAD
    }],
    ..NOTHING
};

impl SimulatedLaunch {
    fn new() -> Self {
        SimulatedLaunch {
            detector: EndDetector::new(1000 * MS, clocks(1000, 0), LaunchLimits::default()),
            suspended_ms: 0,
        }
    }

    fn look(&mut self, ms: u64, at: At<'_>) -> Option<LaunchOver> {
        let times: Vec<u64> = at.reads_ms.iter().map(|ms| ms * MS).collect();
        let look = LaunchLook {
            now: clocks(ms, self.suspended_ms),
            reads: ReadSample::Times(&times),
            is_prefetching: at.is_prefetching,
            has_exited: at.has_exited,
        };
        self.detector.look(look, at.threads.iter().copied())
    }

    /// Looks every 250 ms, the last time at `until_ms`.
    fn goes_on(&mut self, from_ms: u64, until_ms: u64, at: At<'_>) {
        for ms in (from_ms..=until_ms).step_by(250) {
            assert_eq!(self.look(ms, at), None, "at {ms} ms");
        }
    }
}

fn clocks(ms: u64, suspended_ms: u64) -> Clocks {
    Clocks {
        monotonic_ns: ms * MS,
        boottime_ns: (ms + suspended_ms) * MS,
    }
}

fn ended(ended: Ended, completion_ms: Option<u64>) -> Option<LaunchOver> {
    Some(LaunchOver {
        ended,
        completion_ns: completion_ms.map(|ms| ms * MS),
    })
}

#[test]
fn each_rule_ends_a_launch_and_it_stays_over() {
    // Until when the launch is looked at without being over, the look at which it is, and how it ended.
    for (first, until_ms, over_ms, last, how) in [
        (READ, 2000, 2250, NOTHING, ended(Ended::Quiet, Some(1010))),
        (NOTHING, 3750, 4000, NOTHING, ended(Ended::Quiet, None)),
        (READ, 1250, 1500, EXITED, ended(Ended::Exit, None)),
    ] {
        let mut launch = SimulatedLaunch::new();
        launch.goes_on(1250, 1250, first);
        launch.goes_on(1500, until_ms, NOTHING);
        for look in [last, NOTHING, EXITED] {
            assert_eq!(launch.look(over_ms, look), how);
        }
    }
}

#[test]
fn time_in_which_a_launch_is_held_up_does_not_count() {
    // The look in which it is held up, from when until when, and when it is over then.
    for (held_up, from_ms, until_ms, over_ms) in [
        (PREFETCHING, 1500, 9000, 9760),
        (WAITING_FOR_DRIVE, 1500, 20_000, 20_760),
        // The first look at a thread says nothing yet.
        (WITHOUT_PROCESSOR, 1500, 20_000, 20_510),
        // Nobody could look from 1250 ms on.
        (NOTHING, 9000, 9000, 9760),
    ] {
        let mut launch = SimulatedLaunch::new();
        launch.goes_on(1250, 1250, READ);
        launch.goes_on(from_ms, until_ms, held_up);
        let mut ms = until_ms;
        while ms + 250 < over_ms {
            ms += 250;
            launch.goes_on(ms, ms, NOTHING);
        }
        assert_eq!(launch.look(over_ms - 1, NOTHING), None);
        let over = launch.look(over_ms, NOTHING);
        assert_eq!(over, ended(Ended::Quiet, Some(1010)));
    }
}

#[test]
fn a_suspension_does_not_count() {
    let mut launch = SimulatedLaunch::new();
    launch.goes_on(1250, 1250, READ);
    launch.suspended_ms = 3_600_000;
    // Drivers took more than a second; a look came in between.
    launch.goes_on(1700, 1700, NOTHING);
    launch.suspended_ms += 1000;
    launch.goes_on(2900, 3650, NOTHING);
    assert_eq!(launch.look(3661, NOTHING), ended(Ended::Quiet, Some(1010)));
}

#[test]
fn a_launch_that_is_held_up_for_ever_is_over_soon_after_the_time_limit() {
    // The first look at which the launch is held up no longer, if it has read at 1010 ms or not at all.
    for (first, held_up, over_ms, completion_ms) in [
        (READ, WAITING_FOR_DRIVE, 31_750, Some(1010)),
        (PREFETCHING, PREFETCHING, 33_750, None),
    ] {
        let mut launch = SimulatedLaunch::new();
        launch.goes_on(1250, 1250, first);
        launch.goes_on(1500, over_ms - 250, held_up);
        let over = launch.look(over_ms, held_up);
        assert_eq!(over, ended(Ended::Quiet, completion_ms));
    }
}

#[test]
fn a_launch_that_reads_on_is_over_at_the_time_limit() {
    let mut launch = SimulatedLaunch::new();
    for ms in (1250..=31_000).step_by(250) {
        let at = At {
            reads_ms: &[ms - 30, ms - 20, ms - 10],
            ..NOTHING
        };
        let expected = (ms == 31_000)
            .then(|| ended(Ended::Timeout, None))
            .flatten();
        assert_eq!(launch.look(ms, at), expected, "at {ms} ms");
    }
    let is_past = |ms| launch.detector.is_past_limit(clocks(ms, 0));
    assert_eq!([30_999, 31_000].map(is_past), [false, true]);
}

#[test]
fn threads_are_not_looked_at_while_the_launch_reads() {
    let mut detector = SimulatedLaunch::new().detector;
    let look = LaunchLook {
        now: clocks(1250, 0),
        reads: ReadSample::Times(&[1100 * MS; 10]),
        is_prefetching: false,
        has_exited: false,
    };
    let threads = std::iter::from_fn(|| panic!("the threads were looked at"));
    assert_eq!(detector.look(look, threads), None);
}

#[test]
fn a_launch_whose_reads_are_counted_ends_by_the_same_rules() {
    // Reads in each 100 ms, for how many of them, and when the launch is over.
    let every_other = [1, 0].repeat(200);
    for (reads, over_ms) in [
        (&[50; 20][..], 3000),
        (&[1; 400], 30_000),
        (&every_other, 1100),
        (&[], 3000),
    ] {
        let mut detector = EndDetector::new(0, clocks(0, 0), LaunchLimits::default());
        let mut total = 0;
        let counts = reads.iter().chain(std::iter::repeat(&0));
        let is_over = |(ms, count): (u64, &u64)| {
            total += count;
            let look = LaunchLook {
                now: clocks(ms, 0),
                reads: ReadSample::Total(total),
                is_prefetching: false,
                has_exited: false,
            };
            detector.look(look, []).map(|_| ms)
        };
        let over = (100..=40_000).step_by(100).zip(counts).find_map(is_over);
        assert_eq!(over, Some(over_ms));
    }
}
