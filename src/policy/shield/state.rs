//! The state machine: which drives are shielded, for whose sake, and for how long.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::limits::{DriveLook, LAST_STEP, Verdict, WriteLimits, judge};
use crate::model::is_person;

/// For how long a launch, or a report that tasks wait, is a reason.
pub const REASON_LASTS: Duration = Duration::from_secs(60);
/// For this long a launch reads what its drive would have written otherwise.
const LAUNCH: Duration = Duration::from_secs(10);
/// A drive that was not written for so long is written no longer. The kernel writes back in bursts.
const QUIET: Duration = Duration::from_secs(3);
/// What the writers get is measured over so much time: without limits, and at each step of them. No launch is under
/// way, and only time in which the drive is written counts.
const BEFORE: Duration = Duration::from_secs(1);
const DURING: Duration = Duration::from_secs(5);
/// A drive of which something could not be set is left alone for so long.
const REST: Duration = Duration::from_secs(60);
/// Limits are in force on one account for this much of a window. The window begins with the first use.
const WINDOW: Duration = Duration::from_secs(600);
const SHARE: Duration = Duration::from_secs(300);
/// Looks are this far apart: in the first moments of a launch from a drive that is not shielded, and otherwise.
const LOOK_LAUNCH: Duration = Duration::from_millis(100);
const FIRST_MOMENTS: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_secs(1);
/// Time between two looks that counts at most: the system may have been suspended.
const LONGEST_LOOK: Duration = Duration::from_secs(2);
/// Most drives, and most accounts for each.
const MOST_DRIVES: usize = 8;
const MOST_ACCOUNTS: usize = 16;

/// Whose reason: a user's, or where the kernel does not tell sessions apart the system's.
type Account = Option<u32>;

/// What happened. Drives are encoded as `st_dev`; times are of one clock that does not go back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShieldEvent {
    /// A launch of this user from this drive begins.
    Launch { uid: u32, drive: u64 },
    /// Tasks of this user's session wait for drives, and this one is being written. `None`: of the system, whose
    /// sessions are not told apart.
    Waits { uid: Option<u32>, drive: u64 },
    /// The drives that [`ShieldState::drives`] names were looked at; one that is missing has gone.
    Looked {
        drives: BTreeMap<u64, DriveLook>,
        /// Whether somebody is logged in.
        logged_in: bool,
    },
    /// The limits of this drive cannot be set, or others have set something of it.
    Failed { drive: u64 },
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShieldAction {
    /// Set this of the drive, and nothing else.
    Set {
        /// The drive.
        drive: u64,
        /// What is to be set of it.
        limits: WriteLimits,
        /// On whose account; of several, one.
        uid: Option<u32>,
        /// What it wrote without limits, in bytes per second, if that is known.
        before: Option<u64>,
    },
    /// Everything of the drive is as before.
    Release {
        /// The drive.
        drive: u64,
        /// Why.
        why: ReleaseReason,
        /// What it wrote meanwhile, in bytes per second, if that was measured.
        during: Option<u64>,
    },
}

/// Why limits are taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseReason {
    /// The drive is written no longer.
    Quiet,
    /// Nobody launches or waits any more.
    NotNeeded,
    /// Nobody is logged in.
    NobodyThere,
    /// The accounts of all who need it are used up.
    Account,
    /// The writers lose too much of their throughput.
    Throughput,
    /// What the writers get without it is to be known.
    Measured,
    /// The drive has gone, or something of it could not be set or was set by others.
    Failed,
}

impl ReleaseReason {
    /// In words.
    pub fn explanation(self) -> &'static str {
        match self {
            ReleaseReason::Quiet => "the drive is written no longer",
            ReleaseReason::NotNeeded => "nobody launches or waits any more",
            ReleaseReason::NobodyThere => "nobody is logged in",
            ReleaseReason::Account => "the user's share of time is used up",
            ReleaseReason::Throughput => "the writers lost too much of their throughput",
            ReleaseReason::Measured => "what the drive writes without it is measured",
            ReleaseReason::Failed => "it could not be set, or others have set it",
        }
    }
}

/// What a drive wrote in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct WrittenBytes {
    time: Duration,
    bytes: u128,
}

impl WrittenBytes {
    /// Adds a look's rate, if the drive is being written.
    fn add(&mut self, look: &DriveLook, time: Duration) {
        if let Some(rate) = look.written.filter(|_| look.is_written()) {
            self.time += time;
            self.bytes += u128::from(rate) * time.as_millis() / 1000;
        }
    }

    /// In bytes per second, once the time is at least this long.
    fn rate(&self, least: Duration) -> Option<u64> {
        let rate = (self.bytes * 1000).checked_div(self.time.as_millis())?;
        (self.time >= least).then(|| u64::try_from(rate).unwrap_or(u64::MAX))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum DrivePhase {
    #[default]
    Idle,
    /// What the drive's writers get without limits is measured.
    Measuring(WrittenBytes),
    InForce {
        step: u32,
        /// The look when nothing was set.
        as_it_was: DriveLook,
        tally: WrittenBytes,
        /// What the drive wrote at the step before, if this one is looser.
        tighter: Option<u64>,
    },
    /// Until nobody needs it, or the drive is quiet.
    GivenWay,
    Resting {
        until: Duration,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Drive {
    phase: DrivePhase,
    /// The last launch or report of each account.
    reasons: BTreeMap<Account, Duration>,
    last_launch: Option<Duration>,
    not_written_since: Option<Duration>,
    /// What it wrote without limits.
    before: Option<u64>,
}

impl Drive {
    fn is_launching(&self, now: Duration) -> bool {
        self.last_launch.is_some_and(|at| now < at + LAUNCH)
    }

    fn is_in_force(&self) -> bool {
        matches!(self.phase, DrivePhase::InForce { .. })
    }
}

/// How much an account has used of its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WindowUse {
    since: Duration,
    time: Duration,
}

/// The shield's state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShieldState {
    drives: BTreeMap<u64, Drive>,
    used: BTreeMap<Account, WindowUse>,
    /// The last launch of a person.
    last_person: Option<Duration>,
    looked: Option<Duration>,
    refused: u64,
}

impl ShieldState {
    /// What follows from an event at this time.
    pub fn step(mut self, event: ShieldEvent, now: Duration) -> (Self, Vec<ShieldAction>) {
        let mut actions = Vec::new();
        match event {
            ShieldEvent::Launch { uid, drive } => {
                if is_person(uid) {
                    self.last_person = Some(now);
                }
                self.reason(Some(uid), drive, now, true);
            }
            ShieldEvent::Waits { uid, drive } => self.reason(uid, drive, now, false),
            ShieldEvent::Looked { drives, logged_in } => {
                self.looked(&drives, logged_in, now, &mut actions);
            }
            ShieldEvent::Failed { drive } => {
                if let Some(known) = self.drives.get_mut(&drive) {
                    release(drive, known, ReleaseReason::Failed, &mut actions);
                    known.phase = DrivePhase::Resting { until: now + REST };
                }
            }
        }
        (self, actions)
    }

    /// The drives to be looked at.
    pub fn drives(&self) -> impl Iterator<Item = u64> {
        self.drives.keys().copied()
    }

    /// How long after this time the next look is due; `None`: there is no reason to look.
    pub fn next_look(&self, now: Duration) -> Option<Duration> {
        let hurries = |drive: &Drive| {
            let begins = drive.last_launch.is_some_and(|at| now < at + FIRST_MOMENTS);
            begins && matches!(drive.phase, DrivePhase::Idle | DrivePhase::Measuring(_))
        };
        let every = match self.drives.values().any(hurries) {
            true => LOOK_LAUNCH,
            false => LOOK,
        };
        let left = self
            .looked
            .map_or(Duration::ZERO, |at| (at + every).saturating_sub(now));
        (!self.drives.is_empty()).then_some(left)
    }

    /// Reasons that did not count because the account was used up.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    fn reason(&mut self, account: Account, drive: u64, now: Duration, is_launch: bool) {
        if !self.is_open(account, now) {
            self.refused += 1;
        }
        if self.drives.len() >= MOST_DRIVES && !self.drives.contains_key(&drive) {
            return;
        }
        let drive = self.drives.entry(drive).or_default();
        if drive.reasons.len() >= MOST_ACCOUNTS && !drive.reasons.contains_key(&account) {
            return;
        }
        drive.reasons.insert(account, now);
        if is_launch {
            drive.last_launch = Some(now);
        }
    }

    /// Whether something is left of an account.
    fn is_open(&self, account: Account, now: Duration) -> bool {
        let used = self.used.get(&account);
        used.is_none_or(|used| used.time < SHARE || now >= used.since + WINDOW)
    }

    fn looked(
        &mut self,
        looks: &BTreeMap<u64, DriveLook>,
        logged_in: bool,
        now: Duration,
        actions: &mut Vec<ShieldAction>,
    ) {
        let passed = self
            .looked
            .map_or(Duration::ZERO, |at| now.saturating_sub(at));
        let passed = passed.min(LONGEST_LOOK);
        self.looked = Some(now);
        for drive in self.drives.values_mut() {
            drive.reasons.retain(|_, at| now < *at + REASON_LASTS);
        }
        self.charge(passed, now);
        let is_person_there =
            logged_in || self.last_person.is_some_and(|at| now < at + REASON_LASTS);
        let mut drives = std::mem::take(&mut self.drives);
        for (&number, drive) in &mut drives {
            let Some(look) = looks.get(&number) else {
                release(number, drive, ReleaseReason::Failed, actions);
                drive.reasons.clear();
                continue;
            };
            drive.not_written_since = match look.is_written() {
                true => None,
                false => drive.not_written_since.or(Some(now)),
            };
            let open = drive.reasons.keys().copied();
            let open = open
                .filter(|account| self.is_open(*account, now))
                .min_by_key(|account| {
                    // The system's comes last.
                    (account.is_none(), *account)
                });
            let is_quiet = drive
                .not_written_since
                .is_some_and(|since| now >= since + QUIET);
            let wanted = if is_quiet {
                Err(ReleaseReason::Quiet)
            } else if drive.reasons.is_empty() {
                Err(ReleaseReason::NotNeeded)
            } else if !is_person_there {
                Err(ReleaseReason::NobodyThere)
            } else {
                open.ok_or(ReleaseReason::Account)
            };
            match wanted {
                Ok(account) => look_at(number, drive, look, (account, passed, now), actions),
                Err(why) => {
                    release(number, drive, why, actions);
                    // Its next writers may be others.
                    drive.before = None;
                    if !matches!(drive.phase, DrivePhase::Resting { until } if now < until) {
                        drive.phase = DrivePhase::Idle;
                    }
                }
            }
        }
        drives.retain(|_, drive| !drive.reasons.is_empty());
        self.drives = drives;
        if self.drives.is_empty() {
            self.looked = None;
        }
    }

    /// Has the accounts pay for this time, whose reasons keep limits in force.
    fn charge(&mut self, passed: Duration, now: Duration) {
        self.used.retain(|_, used| now < used.since + WINDOW);
        let in_force = self.drives.values().filter(|drive| drive.is_in_force());
        let accounts = in_force.flat_map(|drive| drive.reasons.keys().copied());
        for account in accounts.collect::<BTreeSet<Account>>() {
            let new = WindowUse {
                since: now.saturating_sub(passed),
                time: Duration::ZERO,
            };
            let used = self.used.entry(account).or_insert(new);
            used.time += passed;
        }
    }
}

/// What follows from a look at a drive whose limits are wanted, on this account, so long after the last look.
fn look_at(
    number: u64,
    drive: &mut Drive,
    look: &DriveLook,
    (uid, passed, now): (Account, Duration, Duration),
    actions: &mut Vec<ShieldAction>,
) {
    let is_launching = drive.is_launching(now);
    match &mut drive.phase {
        DrivePhase::Resting { until } if now >= *until => drive.phase = DrivePhase::Idle,
        DrivePhase::Resting { .. } | DrivePhase::GivenWay => {}
        DrivePhase::Idle | DrivePhase::Measuring(_) if is_launching || drive.before.is_some() => {
            if look.is_written() {
                drive.phase = begin(number, drive, look, uid, actions);
            }
        }
        DrivePhase::Idle if look.is_written() => {
            drive.phase = DrivePhase::Measuring(WrittenBytes::default())
        }
        DrivePhase::Idle => {}
        DrivePhase::Measuring(tally) => {
            tally.add(look, passed);
            if let Some(rate) = tally.rate(BEFORE) {
                drive.before = Some(rate);
                drive.phase = begin(number, drive, look, uid, actions);
            }
        }
        // A launch's reads are in the writers' way, too.
        DrivePhase::InForce { .. } if is_launching => {}
        DrivePhase::InForce {
            step,
            as_it_was,
            tally,
            tighter,
        } => {
            tally.add(look, passed);
            let Some(during) = tally.rate(DURING) else {
                return;
            };
            let Some(before) = drive.before else {
                release(number, drive, ReleaseReason::Measured, actions);
                drive.phase = DrivePhase::Measuring(WrittenBytes::default());
                return;
            };
            *tally = WrittenBytes::default();
            match judge(before, *tighter, during) {
                Verdict::Stays => {
                    *tighter = None;
                    return;
                }
                Verdict::Tighter => {
                    *step = step.saturating_sub(1);
                    *tighter = None;
                    drive.before = Some(during);
                }
                Verdict::Looser if *step < LAST_STEP => {
                    *step += 1;
                    *tighter = Some(during);
                }
                Verdict::Looser => {
                    release(number, drive, ReleaseReason::Throughput, actions);
                    drive.phase = DrivePhase::GivenWay;
                    return;
                }
            }
            match WriteLimits::at(*step, as_it_was) {
                Some(limits) => actions.push(ShieldAction::Set {
                    drive: number,
                    limits,
                    uid,
                    before: drive.before,
                }),
                // A looser step than this one changes nothing of the drive.
                None => {
                    release(number, drive, ReleaseReason::Throughput, actions);
                    drive.phase = DrivePhase::GivenWay;
                }
            }
        }
    }
}

/// The phase of a drive whose limits are to be in force from now on.
fn begin(
    number: u64,
    drive: &Drive,
    look: &DriveLook,
    uid: Account,
    actions: &mut Vec<ShieldAction>,
) -> DrivePhase {
    let Some(limits) = WriteLimits::at(0, look) else {
        // Nothing can be set of it.
        return DrivePhase::GivenWay;
    };
    actions.push(ShieldAction::Set {
        drive: number,
        limits,
        uid,
        before: drive.before,
    });
    DrivePhase::InForce {
        step: 0,
        as_it_was: look.clone(),
        tally: WrittenBytes::default(),
        tighter: None,
    }
}

/// Takes the limits of a drive away, if they are in force. The caller says what comes next.
fn release(number: u64, drive: &mut Drive, why: ReleaseReason, actions: &mut Vec<ShieldAction>) {
    if let DrivePhase::InForce { tally, .. } = drive.phase {
        actions.push(ShieldAction::Release {
            drive: number,
            why,
            during: tally.rate(BEFORE),
        });
        drive.phase = DrivePhase::Idle;
    }
}

#[cfg(test)]
mod tests;
