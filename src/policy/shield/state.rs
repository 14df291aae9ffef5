//! The life of measures.

use std::collections::BTreeMap;
use std::time::Duration;

use super::accounts::UserAccounts;
use super::claim::{Claim, Claims, EVIDENCE};
use super::event::{Measure, MeasureEnd, MeasureKey, ShieldAction, ShieldEvent};
use super::look::ShieldLook;
use super::settings::ShieldSettings;
use super::wanted::{InTheWay, adjusted, hurts, needs_memory, wanted};

/// A look that is older says nothing any more.
const FRESH: Duration = Duration::from_secs(2);
/// A measure that has ended by its bound is not taken again for this long; a hold not for as long as it was in force.
const REST: Duration = Duration::from_secs(1);
/// The same for one that failed, or was undone by others.
const FAILED_REST: Duration = Duration::from_secs(60);
/// Most measures in force.
const MOST_IN_FORCE: usize = 32;
/// Most of them on one account: a user with many cgroups leaves room for others.
const MOST_ON_ACCOUNT: usize = 8;
/// Most tasks of one account that have a better priority because they wait.
const MOST_RAISED: usize = 4;
/// For this long after an account was used up on a drive, the system's account does not limit that drive. The user
/// whose account it was may cause the pressure himself, by writing.
const USED_UP_REST: Duration = Duration::from_secs(30);
/// Measures are adjusted no more often than this.
const ADJUSTED_EVERY: Duration = Duration::from_secs(1);

/// The shield's state. [`ShieldState::step`] is deterministic: time comes in from outside, from any clock that does
/// not go back.
#[derive(Clone, Debug, PartialEq)]
pub struct ShieldState {
    settings: ShieldSettings,
    claims: Claims,
    accounts: UserAccounts,
    in_force: BTreeMap<MeasureKey, InForce>,
    /// Until when a measure is not taken again.
    rests: BTreeMap<MeasureKey, Duration>,
    /// Until when no hold begins.
    hold_rests: Duration,
    /// Until when the system's account does not limit a drive, after an account was used up there; `None`: all drives.
    used_up: BTreeMap<Option<u32>, Duration>,
    look: Option<(Duration, ShieldLook)>,
    next_id: u64,
    exhausted_at: Option<Duration>,
    refused: u64,
}

/// A measure in force.
#[derive(Clone, Debug, PartialEq)]
struct InForce {
    id: u64,
    measure: Measure,
    uid: Option<u32>,
    since: Duration,
    until: Duration,
    adjusted: Duration,
}

impl ShieldState {
    /// Nothing is done yet.
    pub fn new(settings: ShieldSettings) -> Self {
        ShieldState {
            settings,
            claims: Claims::default(),
            accounts: UserAccounts::default(),
            in_force: BTreeMap::new(),
            rests: BTreeMap::new(),
            hold_rests: Duration::ZERO,
            used_up: BTreeMap::new(),
            look: None,
            next_id: 1,
            exhausted_at: None,
            refused: 0,
        }
    }

    /// How often nothing was done because there was no room, or an account was exhausted.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Whether looks are needed: somebody has a reason for measures.
    pub fn needs_looks(&self) -> bool {
        self.claims.iter().next().is_some()
    }

    /// Launches that are known to be under way.
    pub fn launches(&self) -> usize {
        self.claims.iter().filter(|claim| claim.is_launch()).count()
    }

    /// The cgroups whose memory is limited now: looks have to include them.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        let measures = self.in_force.values().map(|in_force| &in_force.measure);
        measures.filter_map(|measure| match measure {
            Measure::Group { group, .. } => Some(group.as_str()),
            _ => None,
        })
    }

    /// When the measure of this number ends at the latest, unless it is renewed.
    pub fn until(&self, id: u64) -> Option<Duration> {
        let mut in_force = self.in_force.values();
        Some(in_force.find(|in_force| in_force.id == id)?.until)
    }

    /// On whose account the measure of this number is by now; `None`: the system's, or no measure.
    pub fn account_of(&self, id: u64) -> Option<u32> {
        let mut in_force = self.in_force.values();
        in_force.find(|in_force| in_force.id == id)?.uid
    }

    /// When the next [`ShieldEvent::Tick`] is due at the latest; `None` while nothing can happen by itself.
    pub fn next_tick(&self) -> Option<Duration> {
        let bounds = self.in_force.values().map(|in_force| in_force.until);
        let claims = self.claims.iter().map(|claim| claim.until);
        bounds.chain(claims).chain(self.exhausted_at).min()
    }

    /// What happens, and what is to be done about it.
    pub fn step(mut self, event: ShieldEvent, now: Duration) -> (Self, Vec<ShieldAction>) {
        let mut actions = Vec::new();
        self.accounts.advance(&self.settings, now);
        let mut taken = true;
        if !self.needs_looks() {
            // What was seen for an earlier reason says nothing about this one.
            self.look = None;
        }
        match event {
            _ if !self.settings.enabled => {}
            ShieldEvent::LaunchBegins {
                launch,
                uid,
                device,
            } => {
                taken = self.claims.launch_begins(launch, uid, device, now);
            }
            ShieldEvent::LaunchEnds { launch } => self.claims.launch_ends(launch),
            ShieldEvent::Waits { tid, uid, device } => {
                taken = self.claims.waits(tid, uid, device, now);
            }
            ShieldEvent::Pressure { device } => {
                taken = !self.settings.pressure || self.claims.pressure(device, now);
            }
            ShieldEvent::Looked(look) => {
                self.keep_pressure(&look, now);
                self.look = self.needs_looks().then_some((now, look));
            }
            ShieldEvent::Failed { id } => self.failed(id, now),
            ShieldEvent::Tick => {}
            ShieldEvent::Stop => {
                self.claims.clear();
                self.end_where(|_| Some(MeasureEnd::Stopped), now, &mut actions);
            }
        }
        self.refused += u64::from(!taken);
        self.claims.expire(now);
        self.rests.retain(|_, until| now < *until);
        self.used_up.retain(|_, until| now < *until);
        self.end_what_must(now, &mut actions);
        self.adjust(now, &mut actions);
        self.begin_what_may(now, &mut actions);
        self.take_grants_back(now);
        let shared = self
            .in_force
            .values()
            .filter(|one| spends(one.uid, &one.measure));
        let used: Vec<Option<u32>> = shared.map(|one| one.uid).collect();
        self.exhausted_at = self.accounts.use_from_now(&used, &self.settings, now);
        (self, actions)
    }

    /// With few writes in the drive, tasks hardly wait for it, and the kernel reports no more pressure: that is no reason
    /// to fill it again while the writer goes on.
    fn keep_pressure(&mut self, look: &ShieldLook, now: Duration) {
        let written = look.drives.iter().filter(|drive| drive.is_written());
        for drive in written {
            if self
                .in_force
                .contains_key(&MeasureKey::Requests(drive.device))
            {
                self.claims.keep_pressure(drive.device, now);
            }
        }
    }

    fn fresh_look(&self, now: Duration) -> Option<&ShieldLook> {
        let (at, look) = self.look.as_ref()?;
        (now.saturating_sub(*at) < FRESH).then_some(look)
    }

    fn failed(&mut self, id: u64, now: Duration) {
        let found = self.in_force.iter().find(|(_, in_force)| in_force.id == id);
        let Some((key, in_force)) = found.map(|(key, in_force)| (key.clone(), in_force.clone()))
        else {
            return;
        };
        self.in_force.remove(&key);
        let until = now.saturating_add(FAILED_REST);
        match in_force.measure {
            Measure::Hold(_) => self.hold_rests = until,
            _ => drop(self.rests.insert(key, until)),
        }
    }

    /// Ends the measures for which there is a reason.
    fn end_where(
        &mut self,
        why: impl Fn(&InForce) -> Option<MeasureEnd>,
        now: Duration,
        actions: &mut Vec<ShieldAction>,
    ) {
        let ending = self.in_force.iter();
        let ending: Vec<(MeasureKey, MeasureEnd)> = ending
            .filter_map(|(key, in_force)| Some((key.clone(), why(in_force)?)))
            .collect();
        for (key, why) in ending {
            let Some(in_force) = self.in_force.remove(&key) else {
                continue;
            };
            let lasted = now.saturating_sub(in_force.since);
            actions.push(ShieldAction::End {
                id: in_force.id,
                why,
            });
            if why == MeasureEnd::Account {
                let until = now.saturating_add(USED_UP_REST);
                self.used_up.insert(drive_of(&in_force.measure), until);
            }
            match in_force.measure {
                // As long as it was held back, the writer has the drive to itself.
                Measure::Hold(_) => self.hold_rests = now.saturating_add(lasted.max(REST)),
                _ if why == MeasureEnd::NotNeeded => {}
                _ => drop(self.rests.insert(key, now.saturating_add(REST))),
            }
        }
    }

    fn end_what_must(&mut self, now: Duration, actions: &mut Vec<ShieldAction>) {
        self.hand_over(now);
        self.renew(now);
        let look = self.fresh_look(now).cloned();
        let is_short = look.as_ref().is_some_and(|look| look.memory.is_short());
        let claims = self.claims.clone();
        let accounts = self.accounts.clone();
        let supported = |in_force: &InForce| {
            // Measures of other accounts were handed over where that is possible.
            let mut granted = claims.iter().filter(|claim| claim.granted == Some(true));
            granted.any(|claim| claim.uid == in_force.uid && supports(claim, in_force, now))
        };
        let why = |in_force: &InForce| {
            if now >= in_force.until {
                Some(MeasureEnd::Bound)
            } else if !supported(in_force) {
                Some(MeasureEnd::NotNeeded)
            } else if spends(in_force.uid, &in_force.measure) && accounts.is_exhausted(in_force.uid)
            {
                Some(MeasureEnd::Account)
            } else if is_short && needs_memory(&in_force.measure) {
                Some(MeasureEnd::Memory)
            } else if look
                .as_ref()
                .is_some_and(|look| hurts(&in_force.measure, look))
            {
                Some(MeasureEnd::Foreground)
            } else {
                None
            }
        };
        self.end_where(why, now, actions);
    }

    /// Charges a measure to another account whose claim supports it, once its own has no claim any more.
    fn hand_over(&mut self, now: Duration) {
        let mut counts: BTreeMap<Option<u32>, usize> = BTreeMap::new();
        for in_force in self.in_force.values() {
            *counts.entry(in_force.uid).or_default() += 1;
        }
        for in_force in self.in_force.values_mut() {
            let supporting = || {
                let granted = self
                    .claims
                    .iter()
                    .filter(|claim| claim.granted == Some(true));
                granted.filter(|claim| supports(claim, in_force, now))
            };
            if supporting().any(|claim| claim.uid == in_force.uid) {
                continue;
            }
            let may_take = |uid: &Option<u32>| {
                let has_room = counts.get(uid).is_none_or(|&count| count < MOST_ON_ACCOUNT);
                has_room && !is_used_up(&self.used_up, *uid, &in_force.measure)
            };
            let other = supporting().map(|claim| claim.uid).find(may_take);
            if let Some(other) = other {
                if let Some(count) = counts.get_mut(&in_force.uid) {
                    *count -= 1;
                }
                *counts.entry(other).or_default() += 1;
                in_force.uid = other;
            }
        }
    }

    /// Renews measures that evidence still supports, by a grant each. A hold is not renewed.
    fn renew(&mut self, now: Duration) {
        for in_force in self.in_force.values_mut() {
            if now < in_force.until || matches!(in_force.measure, Measure::Hold(_)) {
                continue;
            }
            let mut granted = self
                .claims
                .iter()
                .filter(|claim| claim.granted == Some(true));
            let is_supported =
                granted.any(|claim| supports(claim, in_force, now) && claim.uid == in_force.uid);
            if is_supported && self.accounts.grant(in_force.uid, &self.settings, now) {
                in_force.until = now.saturating_add(self.settings.longest(in_force.measure.kind()));
            }
        }
    }

    fn adjust(&mut self, now: Duration, actions: &mut Vec<ShieldAction>) {
        let Some(look) = self.fresh_look(now).cloned() else {
            return;
        };
        for in_force in self.in_force.values_mut() {
            if now < in_force.adjusted.saturating_add(ADJUSTED_EVERY) {
                continue;
            }
            if let Some(measure) = adjusted(&in_force.measure, &look, &self.settings) {
                in_force.adjusted = now;
                in_force.measure = measure.clone();
                actions.push(ShieldAction::Adjust {
                    id: in_force.id,
                    measure,
                });
            }
        }
    }

    fn begin_what_may(&mut self, now: Duration, actions: &mut Vec<ShieldAction>) {
        let Some(look) = self.fresh_look(now).cloned() else {
            return;
        };
        let mut claims = std::mem::take(&mut self.claims);
        // A launch's hold takes the place of limits that others asked for.
        let mut by_rank: Vec<&mut Claim> = claims.iter_mut().collect();
        by_rank.sort_by_key(|claim| !claim.is_launch());
        for claim in by_rank {
            let in_the_way = InTheWay {
                hold: self.is_holding(),
                no_hold: now < self.hold_rests,
                no_requests: self.rests.contains_key(&MeasureKey::Requests(claim.device)),
                few_writes: self
                    .in_force
                    .contains_key(&MeasureKey::Requests(claim.device)),
            };
            for measure in wanted(claim, &look, &self.settings, in_the_way) {
                self.begin(claim, measure, now, actions);
            }
        }
        self.claims = claims;
    }

    fn is_holding(&self) -> bool {
        let system = self.in_force.get(&MeasureKey::System);
        system.is_some_and(|in_force| matches!(in_force.measure, Measure::Hold(_)))
    }

    fn begin(
        &mut self,
        claim: &mut Claim,
        measure: Measure,
        now: Duration,
        actions: &mut Vec<ShieldAction>,
    ) {
        let key = measure.key();
        let is_hold = matches!(measure, Measure::Hold(_));
        let is_replaced = is_hold && !self.is_holding();
        let taken = self.in_force.get(&key).filter(|_| !is_replaced);
        let supported = taken.map(|in_force| supports(claim, in_force, now));
        // A claim that supports what is in force takes a grant, too: the measure may be handed over to its account.
        if !supported.unwrap_or_else(|| self.may_begin(claim.uid, &measure, now)) {
            return;
        }
        if claim.granted.is_none() {
            let granted = self.accounts.grant(claim.uid, &self.settings, now);
            claim.granted = Some(granted);
            self.refused += u64::from(!granted);
        }
        if claim.granted != Some(true) || supported.is_some() {
            return;
        }
        if is_hold {
            let replaced = |in_force: &InForce| {
                gives_way_to_hold(&in_force.measure).then_some(MeasureEnd::Replaced)
            };
            self.end_where(replaced, now, actions);
        }
        let id = self.next_id;
        self.next_id += 1;
        let until = now.saturating_add(self.settings.longest(measure.kind()));
        actions.push(ShieldAction::Begin {
            id,
            measure: measure.clone(),
            uid: claim.uid,
        });
        let in_force = InForce {
            id,
            measure,
            uid: claim.uid,
            since: now,
            until,
            adjusted: now,
        };
        self.in_force.insert(key, in_force);
    }

    /// Whether a measure that is not in force may begin on this account, if it is granted.
    fn may_begin(&mut self, uid: Option<u32>, measure: &Measure, now: Duration) -> bool {
        let is_hold = matches!(measure, Measure::Hold(_));
        let is_resting = !is_hold && self.rests.contains_key(&measure.key());
        // What a hold replaces makes room for it.
        let in_force = self.in_force.values();
        let staying = in_force.filter(|one| !is_hold || !gives_way_to_hold(&one.measure));
        let staying: Vec<&InForce> = staying.collect();
        // Tasks that wait have places of their own.
        let for_waiting_task = measure.is_for_waiting_task();
        let most = if for_waiting_task {
            MOST_RAISED
        } else {
            MOST_ON_ACCOUNT
        };
        let own = staying
            .iter()
            .filter(|one| one.uid == uid && one.measure.is_for_waiting_task() == for_waiting_task);
        let is_full = staying.len() >= MOST_IN_FORCE || own.count() >= most;
        if is_resting || is_full || is_used_up(&self.used_up, uid, measure) {
            return false;
        }
        !spends(uid, measure) || self.accounts.may_begin(uid, &self.settings, now)
    }

    /// Takes the grants of claims back whose measures have all ended: to begin again takes another grant.
    fn take_grants_back(&mut self, now: Duration) {
        for claim in self.claims.iter_mut() {
            let is_served = self.in_force.values().any(|one| supports(claim, one, now));
            if claim.granted == Some(true) && !is_served {
                claim.granted = None;
            }
        }
    }
}

/// The drive that a measure is on; `None`: all drives, or none.
fn drive_of(measure: &Measure) -> Option<u32> {
    match measure {
        Measure::Priority { device, .. }
        | Measure::Backlog { device, .. }
        | Measure::Requests { device, .. } => Some(*device),
        Measure::Hold(_) | Measure::Dirty(_) | Measure::Group { .. } => None,
    }
}

/// Whether the account's time runs while this measure is in force. That of the system's does not for small requests:
/// they are for as long as tasks wait for the drive, since the administrator has asked for them.
fn spends(uid: Option<u32>, measure: &Measure) -> bool {
    let is_asked_for = uid.is_none() && matches!(measure, Measure::Requests { .. });
    measure.is_shared() && !is_asked_for
}

/// Whether a hold takes the place of this measure.
fn gives_way_to_hold(measure: &Measure) -> bool {
    !matches!(measure, Measure::Priority { .. } | Measure::Requests { .. })
}

/// Whether the measure may not be on this account, because an account was used up on its drive: the system's account
/// does not go on with what a user's ended.
fn is_used_up(
    used_up: &BTreeMap<Option<u32>, Duration>,
    uid: Option<u32>,
    measure: &Measure,
) -> bool {
    let is_used_up = match measure {
        Measure::Backlog { device, .. } => {
            used_up.contains_key(&Some(*device)) || used_up.contains_key(&None)
        }
        // It limits all drives.
        Measure::Dirty(_) => !used_up.is_empty(),
        Measure::Priority { .. }
        | Measure::Hold(_)
        | Measure::Group { .. }
        | Measure::Requests { .. } => false,
    };
    uid.is_none() && is_used_up
}

/// Whether the claim is a reason for this measure to stay.
fn supports(claim: &Claim, in_force: &InForce, now: Duration) -> bool {
    match &in_force.measure {
        Measure::Hold(_) => claim.is_launch(),
        // On no other account: the task's user alone answers for it. Not for less than this time, so that many tasks that
        // take turns to wait do not have priorities changed all the time.
        Measure::Priority {
            device,
            tid,
            waits: true,
        } => {
            let is_new = now.saturating_sub(in_force.since) < EVIDENCE;
            let waits = claim.threads().contains(tid) || (is_new && !claim.threads().is_empty());
            (claim.uid, claim.device) == (in_force.uid, *device) && waits
        }
        Measure::Priority { device, .. }
        | Measure::Backlog { device, .. }
        | Measure::Requests { device, .. } => claim.device == *device,
        Measure::Group { .. } => claim.uid == in_force.uid,
        Measure::Dirty(_) => true,
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
