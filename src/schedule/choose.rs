//! Choosing a schedule by simulation.
//!
//! Candidates are the schedule that the drive's class would get, the launch sequence with other holes and shifts, and
//! regions: how many, whether the first is longer, which hole, which shift, and whether the app is held for the first.
//! All combinations would be many hundreds. Each of these questions is answered by itself instead, with the
//! best answers so far to the others, and all of them a second time.
//!
//! Where a drive serves several requests at a time and has no heads, the sequence stays with the parameters of its class,
//! which dynamic scheduling tunes, and only regions may take its place.
//!
//! An app is held ([`Holding`]) where its own reads would keep the prefetch from the drive ([`Elevator::FavoursReaders`]), and
//! only for what the simulation says that this gains. The rest of the launch goes on beside the app.

use std::collections::BTreeSet;

use super::regions::{RegionPlan, regional};
use super::simulate::{Elevator, LaunchSimulator};
use super::{main_device, schedule_for};
use crate::model::{
    DeviceParams, DriveModel, Hold, Infill, Learned, LogEntry, Params, PrefetchEntry,
};

/// A launch must be predicted to end so much earlier for a schedule to take the place of that of the drive's class, as
/// a share of the time with that. Two schedules of one launch are compared more exactly than either is predicted: from
/// emulated drives that serve a request at a time, larger holes than those of the class took 4 to 5 % less, where the
/// simulation expected 1 to 2 %.
const LEAST_GAIN: f64 = 0.01;

/// The same for regions on drives without heads: a queue hides most of what another order saves, and one request at a time
/// takes as long in any order, so that what is left to gain is near the error of the simulation. That was 8 % on average of
/// the launches of a sweep (VLC on an emulated SATA drive; docs/results.md), and to be wrong here makes a launch slower that
/// needed no choice.
const LEAST_GAIN_FLASH: f64 = 0.08;

/// On a drive without heads, the requests of a schedule may keep the drive longer by such a share than those of the drive's
/// class, with nothing else to do. What an app computes is known worst: where reads of a lesson took longer than the model
/// says, that looks like computing, and a schedule that hides behind that is late in each launch. Chromium's launch from an emulated eMMC took twice
/// as long in 128 regions, which cost 10,700 requests.
const MORE_FOR_THE_DRIVE: f64 = 0.03;

/// A launch must be predicted to end so much earlier for the app to be held, as a share of the best time with the app
/// not held. Each time that the service makes an app wait is a risk: should the prefetch stall, or the prediction be wrong,
/// the user waits for nothing.
const LEAST_GAIN_OF_HOLDING: f64 = 0.05;

/// What is read along takes memory, and passes other requests: reading the pages of the launch once more must be worth
/// such a share of the time.
const PRICE_OF_PAGES: f64 = 0.02;

/// The same where a disk chooses the nearest of what is queued: a large request leaves it less to choose from. On an emulated
/// one, a sweep that read the pages of the launch once more took 6 to 17 % longer than by the model, which has mean costs.
const PRICE_OF_PAGES_REORDERED: f64 = 0.12;

/// Numbers of regions that are tried.
const REGIONS: [u64; 11] = [1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128];

/// Lengths of the first region that are tried, in lengths of the others.
const FIRST: [u64; 4] = [1, 2, 4, 8];

/// Holes that are tried, as shares of the largest that the drive's model finds worth reading. On a disk with heads that is
/// hundreds of pages, and the small ones save the most requests.
const HOLES: [f64; 9] = [
    0.0,
    1.0 / 64.0,
    1.0 / 32.0,
    1.0 / 16.0,
    0.125,
    0.25,
    0.5,
    1.0,
    2.0,
];

/// The hole with which regions are tried first on a disk that reorders, in pages: of six apps, five were fastest with 1 to 7.
/// A large launch leaves no time for a second round, and with the largest hole Impress stayed at 239 pages in two regions, which
/// took a fifth longer than one region with 4.
const FIRST_HOLE_REORDERED: u64 = 4;

/// Holes that are tried in any case, in pages. Where requests help each other, the drive itself finds hardly any worth
/// reading, but each request also takes the processor's time.
const SMALL_HOLES: [u64; 4] = [1, 2, 4, 8];

/// Shifts that are tried, in bytes.
const SHIFTS: [u64; 5] = [0, 4 << 10, 64 << 10, 256 << 10, RegionPlan::ALL_METADATA];

/// Rounds of questions.
const ROUNDS: usize = 2;

/// Log entries that are simulated, of all candidates together, after which no further round begins: a second of
/// processor time on a small machine.
const MOST_WORK: usize = 2_000_000;

/// How a schedule is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SchedulePlan {
    /// The launch sequence, merged and shifted.
    Sequence(Params),
    /// Cut into regions.
    Regions(RegionPlan),
}

/// A schedule, and what is predicted of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ChosenSchedule {
    /// In prefetch order.
    pub entries: Vec<PrefetchEntry>,
    /// How it is made.
    pub plan: SchedulePlan,
    /// So many entries, from the start, should have arrived before the app starts; 0: it starts at once.
    pub held: usize,
    /// When these have arrived, in µs since prefetching began; 0 if the app is not held.
    pub held_us: f64,
    /// When the launch is over, in µs since prefetching began.
    pub predicted_us: f64,
    /// The same with this schedule and the app not held: what lies between the two is gained by holding.
    pub unheld_us: f64,
    /// The same with the schedule of the drive's class.
    pub usual_us: f64,
    /// The same with nothing prefetched.
    pub cold_us: f64,
    /// Schedules that were simulated.
    pub candidates: usize,
}

/// Whether a schedule may be chosen that holds the app until its first region has arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Holding {
    /// The app starts at once.
    #[default]
    Never,
    /// On a drive with heads whose I/O scheduler is [`Elevator::FavoursReaders`], where that is predicted to gain 5 %. With
    /// others it gains nothing, as measured: with mq-deadline, launches took as long held as not held.
    WhereItGains,
    /// Wherever it is predicted to gain anything: the laboratory measures whether it does.
    Always,
}

/// What may be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choices<'a> {
    /// The parameters of the schedule that the drives' classes would get.
    pub usual: &'a DeviceParams,
    /// The same of the drive that most is read from.
    pub params: Params,
    /// How the times of the launch sequence were recorded.
    pub learned: Learned,
    /// The access in the log with which the launch is over. What an app reads later, until it falls quiet, is prefetched
    /// too, but nobody waits for it. `None`: the last.
    pub over_at: Option<usize>,
    /// The I/O scheduler of the drive that most is read from.
    pub elevator: Elevator,
    /// Whether the app may be held.
    pub holding: Holding,
}

/// The schedule with which the launch is predicted to be over first. `models` are those of the devices, by their index in
/// the device table; that of the [`main_device`] says what is tried. The usual one stays unless another gains 1 %, or
/// regions on a drive without heads 8 %, and the app is held only for what [`Holding`] asks for.
pub fn choose(log: &[LogEntry], models: &[DriveModel], choices: &Choices) -> ChosenSchedule {
    let entries = schedule_for(log, choices.usual);
    let main = main_device(log).and_then(|device| models.get(device));
    let reorders = main.is_some_and(DriveModel::reorders);
    let has_heads = main.is_some_and(DriveModel::has_heads);
    let mut search = ScheduleSearch {
        log,
        launch: LaunchSimulator::new(log, models, choices.learned).with_elevator(choices.elevator),
        over_at: choices.over_at.unwrap_or(log.len().saturating_sub(1)),
        may_hold: match choices.holding {
            Holding::Never => false,
            Holding::WhereItGains => has_heads && choices.elevator == Elevator::FavoursReaders,
            Holding::Always => true,
        },
        least_gain_of_holding: match choices.holding {
            Holding::Always => 0.0,
            Holding::Never | Holding::WhereItGains => LEAST_GAIN_OF_HOLDING,
        },
        reorders,
        price_of_pages: match reorders {
            true => PRICE_OF_PAGES_REORDERED,
            false => PRICE_OF_PAGES,
        },
        most_alone_us: f64::INFINITY,
        cold_us: f64::INFINITY,
        candidates: 1,
    };
    let (usual_us, _) = search.over_and_held_us(&entries, 0);
    if !has_heads {
        search.most_alone_us = search.alone_us(&entries) * (1.0 + MORE_FOR_THE_DRIVE);
    }
    (search.cold_us, _) = search.over_and_held_us(&[], 0);
    let usual = ChosenSchedule {
        entries,
        plan: SchedulePlan::Sequence(choices.params),
        held: 0,
        held_us: 0.0,
        predicted_us: usual_us,
        unheld_us: usual_us,
        usual_us,
        cold_us: search.cold_us,
        candidates: 1,
    };
    let hole = main.map_or(0, DriveModel::hole_pages);
    let mut best = None;
    if main.is_some_and(DriveModel::is_order_decisive) {
        search.sequences(hole, choices.params, usual_us, &mut best);
        best = best.filter(|found| search.gains(found, LEAST_GAIN));
    }
    let least_gain = match has_heads {
        true => LEAST_GAIN,
        false => LEAST_GAIN_FLASH,
    };
    let regions = search.regions(hole, usual_us);
    if let Some(regions) = regions.filter(|found| search.gains(found, least_gain)) {
        search.keep_better(&mut best, regions);
    }
    ChosenSchedule {
        candidates: search.candidates,
        ..best.unwrap_or(usual)
    }
}

/// A search for the best schedule of a launch.
struct ScheduleSearch<'a> {
    log: &'a [LogEntry],
    launch: LaunchSimulator<'a>,
    over_at: usize,
    may_hold: bool,
    /// 0: whatever is predicted.
    least_gain_of_holding: f64,
    /// When the launch is over with nothing prefetched, in µs.
    cold_us: f64,
    /// Whether a disk chooses the nearest of what is queued.
    reorders: bool,
    price_of_pages: f64,
    /// Longest time that the drives may need for a schedule while no app runs, in µs.
    most_alone_us: f64,
    candidates: usize,
}

impl ScheduleSearch<'_> {
    /// Finds the best of those that leave the launch sequence as it is, but for merges and the shift.
    fn sequences(
        &mut self,
        hole: u64,
        params: Params,
        usual_us: f64,
        best: &mut Option<ChosenSchedule>,
    ) {
        for infill in holes(hole).map(|hole_pages| Infill {
            hole_pages,
            distance: Infill::ANY_DISTANCE,
        }) {
            for shift_bytes in SHIFTS {
                let params = Params {
                    shift_bytes,
                    infill: Some(infill),
                    ..params
                };
                let entries = schedule_for(self.log, &DeviceParams::uniform(params));
                let found = self.judge(entries, SchedulePlan::Sequence(params), 0, usual_us);
                self.keep_better(best, found);
            }
        }
    }

    /// The best regions.
    fn regions(&mut self, hole: u64, usual_us: f64) -> Option<ChosenSchedule> {
        let last_us = self.log.get(self.over_at).map(|entry| entry.time_us);
        let launch_us = last_us.unwrap_or(0) + 1;
        let mut plan = RegionPlan::one(match self.reorders {
            true => hole.min(FIRST_HOLE_REORDERED),
            false => hole,
        });
        let mut found: Option<ChosenSchedule> = None;
        for round in 0..ROUNDS {
            if round > 0 && self.candidates * self.log.len() > MOST_WORK {
                break;
            }
            let lengths = REGIONS.into_iter().flat_map(|count| {
                let length_us = launch_us.div_ceil(count).max(1);
                FIRST.map(|first| (length_us.saturating_mul(first), length_us))
            });
            let candidates = lengths.map(|(first_us, length_us)| RegionPlan {
                first_us,
                length_us,
                ..plan
            });
            plan = self
                .best_regions(candidates, usual_us, &mut found)
                .unwrap_or(plan);
            let candidates = holes(hole).map(|hole_pages| RegionPlan { hole_pages, ..plan });
            plan = self
                .best_regions(candidates, usual_us, &mut found)
                .unwrap_or(plan);
            let candidates = SHIFTS.into_iter().map(|shift_bytes| RegionPlan {
                shift_bytes,
                ..plan
            });
            plan = self
                .best_regions(candidates, usual_us, &mut found)
                .unwrap_or(plan);
        }
        found
    }

    /// Simulates regions. Gives the plan of the best of all that were found so far.
    fn best_regions(
        &mut self,
        plans: impl Iterator<Item = RegionPlan>,
        usual_us: f64,
        found: &mut Option<ChosenSchedule>,
    ) -> Option<RegionPlan> {
        for plan in plans {
            let schedule = regional(self.log, &plan);
            let how = SchedulePlan::Regions(plan);
            let beside = self.judge(schedule.entries, how, 0, usual_us);
            if self.may_hold {
                let entries = beside.entries.clone();
                let held = ChosenSchedule {
                    unheld_us: beside.predicted_us,
                    ..self.judge(entries, how, schedule.first, usual_us)
                };
                if self.is_worth_holding(&held) {
                    self.keep_better(found, held);
                }
            }
            self.keep_better(found, beside);
        }
        match found.as_ref()?.plan {
            SchedulePlan::Regions(plan) => Some(plan),
            SchedulePlan::Sequence(_) => None,
        }
    }

    /// When the launch is over with this schedule, and until when the app is held, in µs since prefetching began.
    fn over_and_held_us(&self, entries: &[PrefetchEntry], held: usize) -> (f64, f64) {
        let done = self.launch.simulate(entries, held);
        let over = done.accessed_us.get(self.over_at);
        (over.copied().unwrap_or(done.end_us), done.held_us)
    }

    /// How long the drives need for a schedule while no app runs, in µs.
    fn alone_us(&self, entries: &[PrefetchEntry]) -> f64 {
        self.launch.simulate(entries, entries.len()).held_us
    }

    /// Whether a schedule keeps the drives hardly longer than the usual one.
    fn is_light(&self, entries: &[PrefetchEntry]) -> bool {
        self.most_alone_us.is_infinite() || self.alone_us(entries) <= self.most_alone_us
    }

    /// What is predicted of a schedule, in µs; of one that holds the app so much more that it must gain enough to be as good as
    /// one that does not.
    fn judged_us(&self, schedule: &ChosenSchedule) -> f64 {
        match schedule.held {
            0 => schedule.predicted_us,
            _ => schedule.predicted_us / (1.0 - self.least_gain_of_holding),
        }
    }

    /// Whether the app would be held to the end: for no longer than it may be, or than its launch gains.
    fn is_worth_holding(&self, schedule: &ChosenSchedule) -> bool {
        let gained_us = self.cold_us - schedule.predicted_us;
        let most_us = gained_us.min(Hold::LONGEST.as_micros() as f64);
        self.least_gain_of_holding == 0.0 || schedule.held_us <= most_us
    }

    /// Whether a schedule gains at least such a share of the time with the usual one.
    fn gains(&self, schedule: &ChosenSchedule, least: f64) -> bool {
        self.judged_us(schedule) <= schedule.usual_us * (1.0 - least)
    }

    /// The lower, the better.
    fn score(&self, schedule: &ChosenSchedule) -> f64 {
        let needed: u64 = self.log.iter().map(|entry| entry.span.len).sum();
        let read: u64 = schedule.entries.iter().map(|entry| entry.span.len).sum();
        let share = read as f64 / needed.max(1) as f64;
        self.judged_us(schedule) * (1.0 + self.price_of_pages * share)
    }

    fn keep_better(&self, best: &mut Option<ChosenSchedule>, other: ChosenSchedule) {
        let is_better = |best: &ChosenSchedule| self.score(&other) < self.score(best);
        if best.as_ref().is_none_or(is_better) && self.is_light(&other.entries) {
            *best = Some(other);
        }
    }

    fn judge(
        &mut self,
        entries: Vec<PrefetchEntry>,
        plan: SchedulePlan,
        held: usize,
        usual_us: f64,
    ) -> ChosenSchedule {
        self.candidates += 1;
        let (predicted_us, held_us) = self.over_and_held_us(&entries, held);
        ChosenSchedule {
            entries,
            plan,
            held,
            held_us,
            predicted_us,
            unheld_us: predicted_us,
            usual_us,
            cold_us: self.cold_us,
            candidates: 0,
        }
    }
}

/// Holes to try, in pages, each once. `worth` is the largest that the drive's model finds worth reading.
fn holes(worth: u64) -> impl Iterator<Item = u64> {
    let shares = HOLES.map(|share| (worth as f64 * share).round() as u64);
    let holes: BTreeSet<u64> = shares.into_iter().chain(SMALL_HOLES).collect();
    holes.into_iter()
}

#[cfg(test)]
mod tests;
