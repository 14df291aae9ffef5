//! The shield's loop body: commands, looks and time become events of the policy, and its actions are carried out.
//! Kernel and clock stand behind [`ShieldWorld`].

use std::collections::BTreeSet;
use std::time::Duration;

use super::ledger::Ledger;
use super::mailbox::ShieldCommand;
use super::status::ShieldStatus;
use crate::policy::{
    Measure, MeasureEnd, MeasureKind, ShieldAction, ShieldEvent, ShieldLook, ShieldSettings,
    ShieldState,
};

/// Looks are this far apart while a launch is under way, and otherwise.
const LOOK_LAUNCH: Duration = Duration::from_millis(100);
const LOOK: Duration = Duration::from_millis(500);
/// The least sleep: time passes in steps that the clock can show.
const LEAST_SLEEP: Duration = Duration::from_millis(1);
/// For how long the cgroup of a thread that waited counts as the foreground's.
const FOREGROUND: Duration = Duration::from_secs(30);
/// The same for a launch, if nobody says that it is over.
const FOREGROUND_LAUNCH: Duration = Duration::from_secs(120);
/// Most processes whose cgroups are followed.
const MOST_FOREGROUND: usize = 64;
/// What could not be restored is tried again this often.
const RETRY: Duration = Duration::from_secs(5);

/// What is to be looked at.
pub(super) struct LookFor<'a> {
    /// These drives.
    pub drives: &'a BTreeSet<u32>,
    /// The cgroups of the foreground.
    pub foreground: BTreeSet<String>,
    /// Cgroups that are limited.
    pub limited: Vec<String>,
    /// Whether writers are of use: their cgroups may be limited.
    pub writers: bool,
}

/// Why a measure was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NotTaken {
    /// The thread, drive or cgroup that it is for has gone.
    Gone,
    /// It cannot be taken.
    Failed(String),
}

/// The kernel and the clock, as far as the shield uses them.
pub(super) trait ShieldWorld {
    /// The time since boot, suspensions included.
    fn now(&self) -> Duration;
    /// Milliseconds since 1970.
    fn unix_ms(&self) -> u64;
    /// The drive below a file system's device; both as the kernel's dev_t.
    fn drive(&mut self, device: u32) -> Option<u32>;
    /// The drives that are writing something.
    fn writing_drives(&mut self) -> Vec<u32>;
    /// The cgroup of a process.
    fn group(&mut self, pid: i32) -> Option<String>;
    /// Looks at everything.
    fn look(&mut self, look_for: &LookFor) -> ShieldLook;
    /// No looks follow for now.
    fn pause(&mut self);
    /// Takes the measure of this number; all of it or nothing.
    fn take(&mut self, id: u64, measure: &Measure) -> Result<(), NotTaken>;
    /// Gives it another form.
    fn adjust(&mut self, id: u64, measure: &Measure) -> Result<(), NotTaken>;
    /// Ends it. Returns what is worth knowing about that.
    fn end(&mut self, id: u64) -> Result<Option<&'static str>, String>;
    /// Tries again what could not be restored. Whether something is left.
    fn retry(&mut self) -> bool;
    /// What a measure is applied to, for readers.
    fn target(&self, measure: &Measure) -> String;
}

/// A process whose cgroup is the foreground's.
struct Foreground {
    launch: Option<u64>,
    pid: i32,
    until: Duration,
    groups: BTreeSet<String>,
}

/// The shield without its thread.
pub(super) struct ShieldCore<W> {
    pub world: W,
    state: ShieldState,
    ledger: Ledger,
    /// Whether the settings allow that cgroups are limited.
    limits_groups: bool,
    foreground: Vec<Foreground>,
    /// Processes that could not be followed.
    not_followed: u64,
    drives: BTreeSet<u32>,
    next_look: Option<Duration>,
    retry_at: Option<Duration>,
    problem: Option<String>,
}

impl<W: ShieldWorld> ShieldCore<W> {
    /// Nothing has happened yet.
    pub fn new(world: W, settings: ShieldSettings) -> Self {
        ShieldCore {
            world,
            state: ShieldState::new(settings),
            ledger: Ledger::default(),
            limits_groups: settings.allows(MeasureKind::Group),
            foreground: Vec::new(),
            not_followed: 0,
            drives: BTreeSet::new(),
            next_look: None,
            retry_at: None,
            problem: None,
        }
    }

    /// Carries a command out.
    pub fn handle(&mut self, command: ShieldCommand) {
        match command {
            ShieldCommand::LaunchBegins {
                launch,
                uid,
                root,
                device,
            } => {
                let Some(device) = self.world.drive(device) else {
                    return;
                };
                if !self.follow(Some(launch), root) {
                    return;
                }
                self.reason(
                    device,
                    ShieldEvent::LaunchBegins {
                        launch,
                        uid,
                        device,
                    },
                );
            }
            ShieldCommand::LaunchEnds { launch } => {
                self.foreground.retain(|known| known.launch != Some(launch));
                self.step(ShieldEvent::LaunchEnds { launch });
            }
            ShieldCommand::Waits {
                pid,
                tid,
                uid,
                device,
            } => {
                let Some(device) = self.world.drive(device) else {
                    return;
                };
                if self.follow(None, pid) {
                    self.reason(device, ShieldEvent::Waits { tid, uid, device });
                }
            }
            ShieldCommand::Stop => {
                self.step(ShieldEvent::Stop);
                self.next_look = None;
            }
        }
    }

    /// The kernel says that tasks wait for drives.
    pub fn pressed(&mut self) {
        for device in self.world.writing_drives() {
            self.reason(device, ShieldEvent::Pressure { device });
        }
    }

    /// Does what is due.
    pub fn turn(&mut self) {
        let now = self.world.now();
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry_at = self.world.retry().then_some(now + RETRY);
        }
        if self.next_look.is_some_and(|at| at <= now) {
            self.look(now);
        } else if self.state.next_tick().is_some_and(|at| at <= now) {
            self.step(ShieldEvent::Tick);
        }
    }

    /// How long nothing is due; `None`: until a command or pressure comes.
    pub fn sleep(&self) -> Option<Duration> {
        let due = [self.next_look, self.state.next_tick(), self.retry_at];
        let next = due.into_iter().flatten().min()?;
        Some(next.saturating_sub(self.world.now()).max(LEAST_SLEEP))
    }

    /// What is done and was done. `lost` commands found no room.
    pub fn status(&self, enabled: bool, lost: u64) -> ShieldStatus {
        let (in_force, ended) = self.ledger.reports();
        ShieldStatus {
            enabled,
            launches: self.state.launches() as u64,
            in_force,
            ended,
            taken: self.ledger.taken,
            refused: self.state.refused() + self.not_followed,
            lost,
            problem: self.problem.clone(),
        }
    }

    /// A reason for measures on this drive.
    fn reason(&mut self, device: u32, event: ShieldEvent) {
        if !self.state.needs_looks() {
            // Those of earlier reasons.
            self.drives.clear();
        }
        self.drives.insert(device);
        self.step(event);
        if self.state.needs_looks() {
            self.next_look = Some(self.world.now());
        }
    }

    /// Follows the cgroup of a process. False: there is no room, and the process may be no reason for anything, as its
    /// own cgroup could be limited.
    fn follow(&mut self, launch: Option<u64>, pid: i32) -> bool {
        let now = self.world.now();
        let until = now + launch.map_or(FOREGROUND, |_| FOREGROUND_LAUNCH);
        self.foreground.retain(|known| known.until > now);
        let group = self.world.group(pid);
        let is_same = |known: &&mut Foreground| {
            // Processes that wait in one cgroup share an entry. A launch's ends with the launch.
            let shared = group.as_ref().filter(|_| launch.is_none());
            let is_in_it = shared.is_some_and(|group| known.groups.contains(group));
            known.launch == launch && (known.pid == pid || is_in_it)
        };
        if let Some(known) = self.foreground.iter_mut().find(is_same) {
            known.pid = pid;
            known.until = until;
            known.groups.extend(group);
            return true;
        }
        let is_full = self.foreground.len() >= MOST_FOREGROUND;
        if is_full && (launch.is_none() || !self.forget_oldest_wait()) {
            self.not_followed += 1;
            return false;
        }
        self.foreground.push(Foreground {
            launch,
            pid,
            until,
            groups: group.into_iter().collect(),
        });
        true
    }

    /// Makes room for a launch: the cgroup in which nobody has waited for longest is no longer followed. False: all are
    /// launches'.
    fn forget_oldest_wait(&mut self) -> bool {
        let known = self.foreground.iter().enumerate();
        let waits = known.filter(|(_, known)| known.launch.is_none());
        let oldest = waits.min_by_key(|(_, known)| known.until);
        let Some(index) = oldest.map(|(index, _)| index) else {
            return false;
        };
        self.foreground.remove(index);
        true
    }

    fn look(&mut self, now: Duration) {
        if !self.state.needs_looks() && !self.ledger.needs_looks(now) {
            self.next_look = None;
            self.ledger.pauses();
            self.world.pause();
            return;
        }
        for known in &mut self.foreground {
            // A desktop may move an app into a scope of its own only when it runs.
            known.groups.extend(self.world.group(known.pid));
        }
        let own = self.world.group(rustix::process::getpid().as_raw_pid());
        let groups = self
            .foreground
            .iter()
            .flat_map(|known| known.groups.iter().cloned());
        let look_for = LookFor {
            drives: &self.drives,
            foreground: groups.chain(own).collect(),
            limited: self.state.groups().map(str::to_owned).collect(),
            writers: self.limits_groups,
        };
        let look = self.world.look(&look_for);
        let rates = look.drives.iter().filter_map(|drive| drive.written);
        self.ledger.looked(rates.reduce(u64::saturating_add), now);
        self.step(ShieldEvent::Looked(look));
        let every = if self.state.launches() > 0 {
            LOOK_LAUNCH
        } else {
            LOOK
        };
        self.next_look = Some(self.world.now() + every);
    }

    fn step(&mut self, event: ShieldEvent) {
        let mut events = vec![event];
        // A failure is an event, too. It makes what failed rest, so that this ends.
        while let Some(event) = events.pop() {
            let now = self.world.now();
            let (state, actions) = self.state.clone().step(event, now);
            self.state = state;
            for action in actions {
                events.extend(self.carry_out(action, now));
            }
        }
        let now = self.world.now();
        for id in self.ledger.ids() {
            if let Some(until) = self.state.until(id) {
                self.ledger
                    .changes(id, None, self.state.account_of(id), until);
            }
        }
        if self.retry_at.is_none() && self.world.retry() {
            self.retry_at = Some(now + RETRY);
        }
    }

    fn carry_out(&mut self, action: ShieldAction, now: Duration) -> Option<ShieldEvent> {
        let at = (now, self.world.unix_ms());
        let (id, why_not) = match action {
            ShieldAction::Begin { id, measure, uid } => {
                let until = self.state.until(id).unwrap_or(now);
                match self.world.take(id, &measure) {
                    Ok(()) => {
                        let target = self.world.target(&measure);
                        self.ledger.begins(id, (&measure, target), uid, at, until);
                        return None;
                    }
                    Err(why_not) => (id, why_not),
                }
            }
            ShieldAction::Adjust { id, measure } => match self.world.adjust(id, &measure) {
                Ok(()) => {
                    let target = Some(self.world.target(&measure));
                    let until = self.state.until(id).unwrap_or(now);
                    self.ledger
                        .changes(id, target, self.state.account_of(id), until);
                    return None;
                }
                Err(why_not) => {
                    self.end(id, MeasureEnd::Failed, at);
                    (id, why_not)
                }
            },
            ShieldAction::End { id, why } => {
                self.end(id, why, at);
                return None;
            }
        };
        if let NotTaken::Failed(why) = why_not {
            self.problem = Some(why);
        }
        Some(ShieldEvent::Failed { id })
    }

    fn end(&mut self, id: u64, why: MeasureEnd, at: (Duration, u64)) {
        let note = self.world.end(id).unwrap_or_else(|error| {
            self.problem = Some(error);
            Some("what was changed could not be restored, and is tried again")
        });
        self.ledger.ends(id, why, note, at);
    }
}

#[cfg(test)]
mod tests;
