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
    threads: &'a [ThreadState],
}

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
        over(self.detector.look(look, at.threads.iter().copied()))
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

fn over(progress: LaunchProgress) -> Option<LaunchOver> {
    match progress {
        LaunchProgress::Over(over) => Some(over),
        LaunchProgress::UnderWay { .. } => None,
    }
}

fn ended(ended: Ended, completion_ms: Option<u64>) -> Option<LaunchOver> {
    Some(LaunchOver {
        ended,
        completion_ns: completion_ms.map(|ms| ms * MS),
    })
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

#[test]
fn a_second_without_reads_ends_a_launch() {
    let mut launch = SimulatedLaunch::new();
    launch.goes_on(1250, 1250, READ);
    launch.goes_on(1500, 2000, NOTHING);
    assert_eq!(launch.look(2250, NOTHING), ended(Ended::Quiet, Some(1010)));
    // It stays over.
    let exited = At {
        has_exited: true,
        ..NOTHING
    };
    assert_eq!(launch.look(2500, exited), ended(Ended::Quiet, Some(1010)));
}

#[test]
fn the_exit_of_the_last_task_ends_a_launch() {
    let exited = At {
        has_exited: true,
        ..READ
    };
    assert_eq!(
        SimulatedLaunch::new().look(9000, exited),
        ended(Ended::Exit, None)
    );
}

#[test]
fn a_warm_launch_is_over_after_three_seconds() {
    let mut launch = SimulatedLaunch::new();
    launch.goes_on(1250, 3750, NOTHING);
    assert_eq!(launch.look(4000, NOTHING), ended(Ended::Quiet, None));
}

#[test]
fn time_behind_the_own_prefetch_does_not_count() {
    let mut launch = SimulatedLaunch::new();
    launch.goes_on(1250, 1250, READ);
    let prefetching = At {
        is_prefetching: true,
        ..NOTHING
    };
    launch.goes_on(1500, 9000, prefetching);
    launch.goes_on(9250, 9500, NOTHING);
    assert_eq!(launch.look(9770, NOTHING), ended(Ended::Quiet, Some(1010)));
}

#[test]
fn a_prefetch_that_never_ends_is_waited_for_until_the_time_limit() {
    let mut launch = SimulatedLaunch::new();
    let prefetching = At {
        is_prefetching: true,
        ..NOTHING
    };
    launch.goes_on(1250, 33_500, prefetching);
    assert_eq!(launch.look(33_750, prefetching), ended(Ended::Quiet, None));
}

#[test]
fn time_without_a_look_does_not_count() {
    let mut launch = SimulatedLaunch::new();
    launch.goes_on(1250, 1250, READ);
    launch.goes_on(9000, 9500, NOTHING);
    assert_eq!(launch.look(9750, NOTHING), None);
    assert_eq!(launch.look(9761, NOTHING), ended(Ended::Quiet, Some(1010)));
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
fn time_in_which_a_thread_waits_for_a_drive_does_not_count() {
    let waiting = ThreadState {
        tid: 7,
        uninterruptible: true,
        runnable: false,
        ticks: 0,
        start_time: 0,
    };
    let standstill = At {
        threads: &[waiting],
        ..NOTHING
    };
    let mut launch = SimulatedLaunch::new();
    launch.goes_on(1250, 1250, READ);
    launch.goes_on(1500, 20_000, standstill);
    launch.goes_on(20_250, 20_750, NOTHING);
    assert_eq!(
        launch.look(21_010, NOTHING),
        ended(Ended::Quiet, Some(1010))
    );
}

#[test]
fn time_in_which_the_threads_get_no_processor_does_not_count() {
    let starved = ThreadState {
        tid: 7,
        uninterruptible: false,
        runnable: true,
        ticks: 3,
        start_time: 0,
    };
    let standstill = At {
        threads: &[starved],
        ..NOTHING
    };
    let mut launch = SimulatedLaunch::new();
    launch.goes_on(1250, 1250, READ);
    // The first look at a thread says nothing yet.
    launch.goes_on(1500, 20_000, standstill);
    launch.goes_on(20_250, 20_500, NOTHING);
    assert_eq!(
        launch.look(20_760, NOTHING),
        ended(Ended::Quiet, Some(1010))
    );
}

#[test]
fn a_dead_drive_is_waited_for_until_the_time_limit() {
    let waiting = ThreadState {
        tid: 7,
        uninterruptible: true,
        runnable: false,
        ticks: 0,
        start_time: 0,
    };
    let standstill = At {
        threads: &[waiting],
        ..NOTHING
    };
    let mut launch = SimulatedLaunch::new();
    launch.goes_on(1250, 1250, READ);
    launch.goes_on(1500, 31_500, standstill);
    assert_eq!(
        launch.look(31_750, standstill),
        ended(Ended::Quiet, Some(1010))
    );
}

#[test]
fn a_launch_that_reads_on_is_over_at_the_time_limit() {
    let mut launch = SimulatedLaunch::new();
    for ms in (1250..31_000).step_by(250) {
        let at = At {
            reads_ms: &[ms - 30, ms - 20, ms - 10],
            ..NOTHING
        };
        assert_eq!(launch.look(ms, at), None, "at {ms} ms");
    }
    let now = |ms| clocks(ms, 0);
    assert!(!launch.detector.is_past_limit(now(30_999)));
    assert!(launch.detector.is_past_limit(now(31_000)));
    let last = At {
        reads_ms: &[30_970, 30_980, 30_990],
        ..NOTHING
    };
    assert_eq!(launch.look(31_000, last), ended(Ended::Timeout, None));
}

#[test]
fn threads_are_not_looked_at_while_the_launch_reads() {
    let mut detector = SimulatedLaunch::new().detector;
    let times = [1100 * MS; 10];
    let look = LaunchLook {
        now: clocks(1250, 0),
        reads: ReadSample::Times(&times),
        is_prefetching: false,
        has_exited: false,
    };
    let threads = std::iter::from_fn(|| panic!("the threads were looked at"));
    assert_eq!(over(detector.look(look, threads)), None);
}

#[test]
fn the_next_look_is_due_at_the_end_of_the_window_or_after_a_quarter_of_a_second() {
    let mut detector = SimulatedLaunch::new().detector;
    let mut look = |ms: u64, times: &[u64]| {
        let look = LaunchLook {
            now: clocks(ms, 0),
            reads: ReadSample::Times(times),
            is_prefetching: false,
            has_exited: false,
        };
        match detector.look(look, []) {
            LaunchProgress::UnderWay { look_by_ns } => look_by_ns / MS,
            LaunchProgress::Over(_) => 0,
        }
    };
    assert_eq!(look(1250, &[1010 * MS]), 1500);
    assert_eq!(look(1700, &[]), 1950);
    assert_eq!(look(1900, &[]), 2010);
    assert_eq!(look(2010, &[]), 0);
}

/// When a launch is over that is counted every 100 ms, with these numbers of reads in each of them.
fn counted_over_after_ms(reads: &[u64]) -> Option<u64> {
    let mut detector = EndDetector::new(0, clocks(0, 0), LaunchLimits::default());
    let mut total = 0;
    let counts = reads.iter().copied().chain(std::iter::repeat(0));
    for (ms, count) in (100..=40_000).step_by(100).zip(counts) {
        total += count;
        let look = LaunchLook {
            now: clocks(ms, 0),
            reads: ReadSample::Total(total),
            is_prefetching: false,
            has_exited: false,
        };
        if over(detector.look(look, [])).is_some() {
            return Some(ms);
        }
    }
    None
}

#[test]
fn a_launch_whose_reads_are_counted_ends_by_the_same_rules() {
    assert_eq!(counted_over_after_ms(&[50; 20]), Some(3000));
    assert_eq!(
        counted_over_after_ms(&[1; 400]),
        Some(30_000),
        "ten a second go on"
    );
    let rare: Vec<u64> = (0..400).map(|tick| u64::from(tick % 2 == 0)).collect();
    assert_eq!(counted_over_after_ms(&rare), Some(1100));
    assert_eq!(counted_over_after_ms(&[]), Some(3000));
}
