//! Properties of the shield, whatever happens in whatever order.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::policy::shield::accounts::{MINUTE, most_credit};
use crate::policy::shield::look::is_related;
use crate::policy::{DirtyThresholds, DriveLook, MemoryLook, WriterLook, WriterMemory};

const GIB: u64 = 1 << 30;

prop_compose! {
    fn any_look()(
        available in 0..16 * GIB,
        dirty in 0..4 * GIB,
        pressure in prop::option::of(0.0..20.0),
        by_ratio in any::<bool>(),
        drives in prop::collection::vec((0..3u32, 0..2u64, any::<bool>(), 0..3usize), 0..4),
        writers in prop::collection::vec((0..6u32, 0..3u32, 0..100u64), 0..5),
        foreground in prop::collection::btree_set(0..6u32, 0..3),
    ) -> ShieldLook {
        let limits = match by_ratio {
            true => DirtyThresholds::Ratios { background: 10, dirty: 20 },
            false => DirtyThresholds::Bytes { background: GIB, dirty: 2 * GIB },
        };
        let names = ["none", "mq-deadline", "bfq"];
        ShieldLook {
            memory: MemoryLook {
                total: 16 * GIB,
                available,
                dirtyable: available,
                dirty,
                pressure,
                limits: Some(limits),
            },
            drives: drives.into_iter().map(|(device, writes, has_strict_limit, scheduler)| DriveLook {
                device,
                writes_in_flight: writes,
                has_strict_limit,
                scheduler: names[scheduler].into(),
                schedulers: names.map(String::from).to_vec(),
                max_sectors_kb: 1280,
                journals: vec![900 + device as i32],
                ..DriveLook::default()
            }).collect(),
            writers: writers.into_iter().map(|(group, uid, mib)| WriterLook {
                group: name(group),
                uid: (uid > 0).then_some(uid),
                written: mib << 20,
                memory: Some(WriterMemory {
                    used: mib << 20,
                    anonymous: mib << 19,
                    clean: mib << 18,
                }),
                has_weight: mib % 2 == 0,
            }).collect(),
            foreground: foreground.into_iter().map(name).collect(),
        }
    }
}

/// A cgroup; some lie in others.
fn name(number: u32) -> String {
    ["/", "/a", "/a/b", "/a/c", "/d", "/d/e"][number as usize].to_owned()
}

fn any_event() -> impl Strategy<Value = ShieldEvent> {
    let (user, drive) = (1..3u32, 0..3u32);
    prop_oneof![
        4 => any_look().prop_map(ShieldEvent::Looked),
        2 => (0..4u64, user.clone(), drive.clone())
            .prop_map(|(launch, uid, device)| ShieldEvent::LaunchBegins { launch, uid, device }),
        1 => (0..4u64).prop_map(|launch| ShieldEvent::LaunchEnds { launch }),
        2 => (0..9i32, user, drive.clone())
            .prop_map(|(tid, uid, device)| ShieldEvent::Waits { tid, uid, device }),
        1 => drive.prop_map(|device| ShieldEvent::Pressure { device }),
        1 => (0..40u64).prop_map(|id| ShieldEvent::Failed { id }),
        1 => Just(ShieldEvent::Tick),
    ]
}

fn any_settings() -> impl Strategy<Value = ShieldSettings> {
    (prop::bool::ANY, 1..13u64, 1..101u64).prop_map(
        |(responsive, grants_per_minute, share_percent)| ShieldSettings {
            profile: match responsive {
                true => crate::policy::ShieldProfile::Responsive,
                false => crate::policy::ShieldProfile::Default,
            },
            grants_per_minute,
            share_percent,
            ..ShieldSettings::default()
        },
    )
}

/// A measure as the outside knows it.
struct Known {
    measure: Measure,
    uid: Option<u32>,
    since: Duration,
}

/// What the outside does, and what must hold whenever it is told to do something.
struct PlayedSystem {
    state: ShieldState,
    settings: ShieldSettings,
    now: Duration,
    running: BTreeMap<u64, Known>,
    /// For how long measures that others feel were in force, by account.
    felt: BTreeMap<Option<u32>, Duration>,
    /// When measures began while none was in force, by account.
    starts: BTreeMap<Option<u32>, BTreeSet<Duration>>,
    start: Duration,
}

impl PlayedSystem {
    fn new(settings: ShieldSettings) -> Self {
        let start = Duration::from_secs(50);
        PlayedSystem {
            state: ShieldState::new(settings),
            settings,
            now: start,
            running: BTreeMap::new(),
            felt: BTreeMap::new(),
            starts: BTreeMap::new(),
            start,
        }
    }

    /// Lets time pass, with the ticks that the state asks for.
    fn wait(&mut self, time: Duration) -> Result<(), TestCaseError> {
        let end = self.now + time;
        while let Some(next) = self.state.next_tick().filter(|&next| next < end) {
            self.pass(next.max(self.now + Duration::from_millis(1)));
            self.step(ShieldEvent::Tick)?;
        }
        self.pass(end.max(self.now));
        Ok(())
    }

    fn pass(&mut self, now: Duration) {
        let accounts: BTreeSet<Option<u32>> = self
            .running
            .values()
            .filter(|known| spends(known.uid, &known.measure))
            .map(|known| known.uid)
            .collect();
        for uid in accounts {
            *self.felt.entry(uid).or_default() += now - self.now;
        }
        self.now = now;
    }

    fn step(&mut self, event: ShieldEvent) -> Result<(), TestCaseError> {
        let looked = match &event {
            ShieldEvent::Looked(look) => Some(look.clone()),
            _ => None,
        };
        let was_idle = self.running.is_empty();
        if let ShieldEvent::Failed { id } = event {
            self.running.remove(&id);
        }
        let (state, actions) = self.state.clone().step(event, self.now);
        self.state = state;
        for action in actions {
            match action {
                ShieldAction::Begin { id, measure, uid } => {
                    let keys = self.running.values().map(|known| known.measure.key());
                    prop_assert!(
                        !keys.collect::<BTreeSet<_>>().contains(&measure.key()),
                        "twice: {measure:?}"
                    );
                    if let (Measure::Group { group, bytes, .. }, Some(look)) = (&measure, &looked) {
                        prop_assert!(!is_related(group, &look.foreground), "{group}");
                        let writer = look
                            .writers
                            .iter()
                            .find(|w| w.group == *group && w.uid == uid);
                        prop_assert!(uid.is_some() && writer.is_some(), "{group} {uid:?}");
                        prop_assert!(
                            *bytes
                                >= writer.and_then(|w| w.memory).map_or(0, |m| m.anonymous)
                                    + (64 << 20)
                        );
                    }
                    if let (Measure::Hold(_), Some(look)) = (&measure, &looked) {
                        prop_assert!(!look.memory.is_short());
                    }
                    if was_idle {
                        let starts = self.starts.entry(uid).or_default();
                        starts.insert(self.now);
                        let last_minute = starts.iter().filter(|&&at| at + MINUTE > self.now);
                        prop_assert!(
                            last_minute.count() as u64 <= self.settings.grants_per_minute,
                            "without a grant: {uid:?}"
                        );
                    }
                    let known = Known {
                        measure,
                        uid,
                        since: self.now,
                    };
                    prop_assert!(self.running.insert(id, known).is_none());
                }
                ShieldAction::Adjust { id, measure } => {
                    let known = self.running.get_mut(&id);
                    prop_assert!(
                        known
                            .as_ref()
                            .is_some_and(|known| known.measure.key() == measure.key())
                    );
                    if let Some(known) = known {
                        if let (
                            Measure::Group { bytes, .. },
                            Measure::Group { bytes: before, .. },
                        ) = (&measure, &known.measure)
                        {
                            prop_assert!(bytes < before && *bytes >= 64 << 20);
                        }
                        known.measure = measure;
                    }
                }
                ShieldAction::End { id, .. } => {
                    prop_assert!(self.running.remove(&id).is_some(), "ended twice");
                }
            }
        }
        for (id, known) in &mut self.running {
            let until = self.state.until(*id);
            prop_assert!(
                until.is_some_and(|until| until > self.now),
                "unknown or late"
            );
            prop_assert!(
                until.unwrap_or_default() - self.now <= self.settings.longest(known.measure.kind())
            );
            if matches!(known.measure, Measure::Hold(_)) {
                prop_assert!(self.now - known.since < self.settings.longest(known.measure.kind()));
            }
            known.uid = self.state.account_of(*id);
        }
        prop_assert_eq!(self.state.in_force.len(), self.running.len());
        prop_assert!(self.running.len() <= MOST_IN_FORCE);
        for known in self.running.values() {
            let own = self.running.values().filter(|one| one.uid == known.uid);
            let (raised, others): (Vec<_>, Vec<_>) =
                own.partition(|one| one.measure.is_for_waiting_task());
            prop_assert!(raised.len() <= MOST_RAISED, "{:?}", known.uid);
            prop_assert!(others.len() <= MOST_ON_ACCOUNT, "{:?}", known.uid);
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn measures_end_by_their_bounds_and_accounts_hold(
        settings in any_settings(),
        events in prop::collection::vec((any_event(), 0..8_000u64), 1..120),
    ) {
        let mut outside = PlayedSystem::new(settings);
        for (event, ms) in events {
            outside.wait(Duration::from_millis(ms))?;
            outside.step(event)?;
        }
        let elapsed = outside.now - outside.start;
        for (uid, felt) in &outside.felt {
            // What an account holds in the beginning is not earned while it is spent.
            let share = u32::try_from(settings.share_percent).unwrap();
            let most = (most_credit(&settings) * (100 - share) + elapsed * share) / 100;
            prop_assert!(*felt <= most + Duration::from_secs(1), "{uid:?}: {felt:?} of {elapsed:?}");
        }
        // Nobody says anything any more: no measure outlives the longest claim.
        outside.wait(2 * MINUTE)?;
        prop_assert!(outside.running.is_empty());
        prop_assert_eq!(outside.state.next_tick(), None);
    }

    #[test]
    fn a_stop_ends_everything(events in prop::collection::vec((any_event(), 0..3_000u64), 1..60)) {
        let mut outside = PlayedSystem::new(ShieldSettings::default());
        for (event, ms) in events {
            outside.wait(Duration::from_millis(ms))?;
            outside.step(event)?;
        }
        outside.step(ShieldEvent::Stop)?;
        prop_assert!(outside.running.is_empty());
        prop_assert!(!outside.state.needs_looks());
    }
}
