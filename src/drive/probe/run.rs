//! Carrying out the steps of a probe.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use super::ProbeError;
use super::area::{ProbeRead, ReadableArea};
use super::plan::{NEAR_AREA, ProbeSample, ProbeStep, ReadPattern, samples_of_completions};
use super::queue::{CompletedRead, ReadQueue};
use crate::model::PAGE_SIZE;

/// How much longer than planned all reads together may take. A drive that needs more is stuck or failing.
const MOST_DELAY: Duration = Duration::from_secs(5);

/// How often it is asked whether to go on.
const LOOK: Duration = Duration::from_millis(20);

/// How often another position is tried where a piece is too short.
const TRIES: u32 = 32;

/// Between the places of near reads: so that they begin anywhere in the drive's own pages, as those of launches do.
const NEAR_GAP: u64 = 4096;

/// From one near read to the next, in places, around the area: a prime number beyond that of places, so that it comes to
/// each of them, and the reads look random.
const NEAR_STEP: u64 = 617;

/// Places for near reads of so many bytes.
fn near_slots(bytes: u64) -> u64 {
    NEAR_AREA / (bytes + NEAR_GAP)
}

/// What was read, and the times.
#[derive(Debug, Default)]
pub struct ProbeReads {
    /// Times of reads.
    pub samples: Vec<ProbeSample>,
    /// Reads.
    pub reads: u64,
    /// The reads' bytes.
    pub bytes: u64,
}

/// Carries out all steps, and tells again and again which share of the planned time is over; `tell` says whether to go on.
///
/// # Errors
/// [`ProbeError::Read`], [`ProbeError::Stalled`] and [`ProbeError::Stopped`].
pub fn run(
    files: &[OwnedFd],
    area: &ReadableArea,
    steps: &[ProbeStep],
    tell: &dyn Fn(f64) -> ControlFlow<()>,
) -> Result<ProbeReads, ProbeError> {
    let mut runner = Runner::new(files, area, steps, tell)?;
    for step in steps {
        if let Err(error) = runner.step(step) {
            if !runner.drain() {
                runner.queue.abandon();
            }
            return Err(error);
        }
        runner.over += step.time;
        runner.ask()?;
    }
    Ok(runner.done)
}

/// Marsaglia's xorshift64.
struct Random(u64);

impl Random {
    /// 0 to 1.
    fn share(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

struct Runner<'a> {
    files: &'a [OwnedFd],
    area: &'a ReadableArea,
    queue: ReadQueue,
    random: Random,
    done: ProbeReads,
    /// Where the near reads of the step are: the position of the first, and how many there were since.
    near: Option<(u64, u64)>,
    begun: Instant,
    /// Time that all steps are planned to take, and those that are over.
    planned: Duration,
    over: Duration,
    /// Time after `begun` at which the probe is given up.
    limit: Duration,
    tell: &'a dyn Fn(f64) -> ControlFlow<()>,
    /// When it was asked last whether to go on.
    asked: Instant,
}

impl<'a> Runner<'a> {
    fn new(
        files: &'a [OwnedFd],
        area: &'a ReadableArea,
        steps: &[ProbeStep],
        tell: &'a dyn Fn(f64) -> ControlFlow<()>,
    ) -> Result<Runner<'a>, ProbeError> {
        let deepest = steps.iter().map(|step| step.depth).max().unwrap_or(1);
        // Only what is read into takes memory.
        let largest = steps.iter().map(|step| step.bytes).max();
        let planned: Duration = steps.iter().map(|step| step.time).sum();
        Ok(Runner {
            files,
            area,
            queue: ReadQueue::new(deepest, largest.unwrap_or(PAGE_SIZE))
                .map_err(ProbeError::Queue)?,
            random: Random(RandomState::new().hash_one(0) | 1),
            done: ProbeReads::default(),
            near: None,
            begun: Instant::now(),
            planned,
            over: Duration::ZERO,
            limit: planned + MOST_DELAY,
            tell,
            asked: Instant::now(),
        })
    }

    /// [`ProbeError::Stopped`] if the probe is not to go on.
    fn ask(&mut self) -> Result<(), ProbeError> {
        self.asked = Instant::now();
        let share = self.over.as_secs_f64() / self.planned.as_secs_f64();
        match (self.tell)(share) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(ProbeError::Stopped),
        }
    }

    /// Waits for the reads under way, whatever becomes of them, since the drive still writes into the buffer; false if it does
    /// not answer in time.
    fn drain(&mut self) -> bool {
        while self.queue.in_flight() > 0 {
            let Ok(left) = self.time_left() else {
                return false;
            };
            let _ = self.queue.completed(left);
        }
        true
    }

    /// Time until the probe is given up; [`ProbeError::Stalled`] if none is left.
    fn time_left(&self) -> Result<Duration, ProbeError> {
        let left = self.limit.checked_sub(self.begun.elapsed());
        left.ok_or(ProbeError::Stalled(self.limit))
    }

    fn step(&mut self, step: &ProbeStep) -> Result<(), ProbeError> {
        let begun = Instant::now();
        self.near = None;
        let mut last = None;
        let mut reads = 0;
        let mut last_begun = begun;
        // Completion times, and at depth 1 what each read took.
        let mut ended: Vec<Instant> = Vec::new();
        while reads < step.most && (reads == 0 || begun.elapsed() < step.time) {
            while self.queue.in_flight() < step.depth as usize && reads < step.most {
                let Some(next) = self.next(step, last) else {
                    // The area has no such reads.
                    reads = step.most;
                    break;
                };
                // Here and not only before each step: submitting waits, too, while the drive's own queue is full.
                self.time_left()?;
                let file = &self.files[next.file];
                last_begun = Instant::now();
                self.queue
                    .begin(file.as_fd(), next.offset, step.bytes)
                    .map_err(ProbeError::Read)?;
                self.done.reads += 1;
                self.done.bytes += step.bytes;
                reads += 1;
                last = Some(next);
            }
            if self.queue.in_flight() == 0 {
                break;
            }
            let completed = self.wait()?;
            if step.depth == 1 && step.counts {
                let took = completed.iter().map(|read| micros(read.ended - read.begun));
                self.done.samples.extend(took.map(|us| step.sample(us)));
            }
            ended.extend(completed.iter().map(|read| read.ended));
        }
        while self.queue.in_flight() > 0 {
            ended.extend(self.wait()?.iter().map(|read| read.ended));
        }
        if step.depth > 1 && step.counts {
            // Later, the queue was not full any more.
            let full = ended.iter().filter(|&&ended| ended <= last_begun);
            let times: Vec<f64> = full.map(|&ended| micros(ended - begun)).collect();
            self.done
                .samples
                .extend(samples_of_completions(step, &times));
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<Vec<CompletedRead>, ProbeError> {
        loop {
            let left = self.time_left()?;
            if self.asked.elapsed() >= LOOK {
                self.ask()?;
            }
            match self.queue.completed(left.min(LOOK)) {
                Ok(completed) if completed.is_empty() => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                completed => return completed.map_err(ProbeError::Read),
            }
        }
    }

    /// The next read of a step; `None` if the area has none. The first of a step comes from somewhere else, which the median
    /// of all does not show.
    fn next(&mut self, step: &ProbeStep, last: Option<ProbeRead>) -> Option<ProbeRead> {
        match (step.pattern, last) {
            (ReadPattern::Random, _) => self.anywhere(step.bytes),
            (ReadPattern::Near, _) => self.near(step.bytes),
            (ReadPattern::Sequential, None) => self.sequence_start(step),
            (ReadPattern::Sequential, Some(last)) => {
                let behind = last.position + step.bytes;
                let next = self.area.near(behind, step.bytes, 0);
                next.or_else(|| self.sequence_start(step))
            }
        }
    }

    /// The next of the near reads. None repeats another until all of the area was read, as a drive may remember what it
    /// has read.
    fn near(&mut self, bytes: u64) -> Option<ProbeRead> {
        let Some((first, count)) = &mut self.near else {
            let mut read = self.anywhere(bytes)?;
            let last = read.position + NEAR_AREA - bytes;
            if self.area.near(last, bytes, 0).is_none() {
                let back = read.position.saturating_sub(NEAR_AREA);
                read = self.area.near(back, bytes, NEAR_AREA)?;
            }
            self.near = Some((read.position, 0));
            return Some(read);
        };
        *count += 1;
        let slot = (*count * NEAR_STEP) % near_slots(bytes);
        let position = *first + slot * (bytes + NEAR_GAP);
        self.area.near(position, bytes, NEAR_AREA)
    }

    fn anywhere(&mut self, bytes: u64) -> Option<ProbeRead> {
        (0..TRIES).find_map(|_| self.area.random(self.random.share(), bytes))
    }

    /// Somewhere in the longest piece, so that all of the step has room behind it if possible.
    fn sequence_start(&mut self, step: &ProbeStep) -> Option<ProbeRead> {
        let piece = *self.area.longest()?;
        let room = piece
            .length
            .saturating_sub(step.bytes * u64::from(step.most));
        let within = (room as f64 * self.random.share()) as u64;
        self.area.near(piece.position + within, step.bytes, 4096)
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::drive::probe::area::ReadablePiece;
    use crate::drive::probe::plan::plan;

    const GO_ON: fn(f64) -> ControlFlow<()> = |_| ControlFlow::Continue(());

    #[test]
    fn near_reads_are_in_one_area_and_none_is_repeated() {
        let area = ReadableArea::new([ReadablePiece {
            file: 0,
            offset: 0,
            position: 1 << 30,
            length: 1 << 28,
        }]);
        let mut runner = Runner::new(&[], &area, &[], &GO_ON).unwrap();
        for bytes in [4096, 32768, 128 << 10] {
            runner.near = None;
            let slots = near_slots(bytes);
            let reads: Vec<ProbeRead> = (0..slots).map_while(|_| runner.near(bytes)).collect();
            let mut positions: Vec<u64> = reads.iter().map(|read| read.position).collect();
            positions.sort_unstable();
            positions.dedup();
            assert_eq!(positions.len() as u64, slots);
            assert!(positions[positions.len() - 1] - positions[0] < NEAR_AREA);
        }
    }

    #[test]
    fn nothing_is_begun_or_waited_for_beyond_the_limit() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 1 << 16]).unwrap();
        let files = [OwnedFd::from(file)];
        let area = ReadableArea::new([ReadablePiece {
            file: 0,
            offset: 0,
            position: 0,
            length: 1 << 16,
        }]);
        let step = plan()[0];
        let mut runner = Runner::new(&files, &area, &[step, step], &GO_ON).unwrap();
        assert_eq!(runner.limit, 2 * step.time + MOST_DELAY);
        runner.step(&step).unwrap();
        let reads = runner.done.reads;
        assert!(reads > 0);
        runner.limit = Duration::ZERO;
        let is_given_up = |error: ProbeError| matches!(error, ProbeError::Stalled(_));
        assert!(runner.step(&step).is_err_and(is_given_up));
        assert_eq!((runner.done.reads, runner.queue.in_flight()), (reads, 0));
        let file = files[0].as_fd();
        runner.queue.begin(file, 0, 4096).unwrap();
        assert!(runner.wait().is_err_and(is_given_up));
    }
}
