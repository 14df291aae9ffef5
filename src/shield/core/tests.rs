//! The loop body on a fake kernel and a fake clock.

use std::cell::Cell;
use std::collections::BTreeMap;

use super::*;
use crate::policy::{DirtyThresholds, DriveLook, MemoryLook, WriterLook, WriterMemory};
use crate::shield::MeasureReport;

const GIB: u64 = 1 << 30;
const DRIVE: u32 = 8 << 20;
const USER: u32 = 1000;

/// A system with one drive under writes.
#[derive(Default)]
struct FakeWorld {
    now: Cell<Duration>,
    taken: BTreeMap<u64, Measure>,
    looks: usize,
    paused: usize,
    /// Of this kind, measures cannot be taken.
    refuses: Option<(MeasureKind, Option<NotTaken>)>,
    /// What is left to restore.
    stuck: bool,
    /// Memory that is available.
    available: Option<u64>,
    writers: Vec<WriterLook>,
    /// The drive has gone.
    gone: bool,
    /// All processes are in one cgroup.
    one_group: bool,
}

impl FakeWorld {
    fn kinds(&self) -> Vec<MeasureKind> {
        let mut kinds: Vec<_> = self.taken.values().map(Measure::kind).collect();
        kinds.sort_unstable();
        kinds
    }
}

impl ShieldWorld for FakeWorld {
    fn now(&self) -> Duration {
        self.now.get()
    }

    fn unix_ms(&self) -> u64 {
        self.now.get().as_millis() as u64
    }

    /// A partition's drive.
    fn drive(&mut self, device: u32) -> Option<u32> {
        (!self.gone).then_some(device & !0xf)
    }

    fn writing_drives(&mut self) -> Vec<u32> {
        vec![DRIVE]
    }

    fn group(&mut self, pid: i32) -> Option<String> {
        Some(match self.one_group {
            true => "/all".to_owned(),
            false => format!("/{pid}"),
        })
    }

    fn look(&mut self, look_for: &LookFor) -> ShieldLook {
        self.looks += 1;
        let drives = look_for.drives.iter().filter(|_| !self.gone);
        ShieldLook {
            memory: MemoryLook {
                total: 16 * GIB,
                available: self.available.unwrap_or(10 * GIB),
                dirtyable: 10 * GIB,
                dirty: 128 << 20,
                pressure: None,
                limits: Some(DirtyThresholds::Ratios {
                    background: 10,
                    dirty: 20,
                }),
            },
            drives: drives
                .map(|&device| DriveLook {
                    device,
                    writes_in_flight: 1,
                    written: Some(30 << 20),
                    has_strict_limit: true,
                    ..DriveLook::default()
                })
                .collect(),
            writers: self.writers.clone(),
            foreground: look_for.foreground.clone(),
        }
    }

    fn pause(&mut self) {
        self.paused += 1;
    }

    fn take(&mut self, id: u64, measure: &Measure) -> Result<(), NotTaken> {
        if let Some((kind, Some(why))) = &self.refuses
            && *kind == measure.kind()
        {
            return Err(why.clone());
        }
        assert!(self.taken.insert(id, measure.clone()).is_none());
        Ok(())
    }

    fn adjust(&mut self, id: u64, measure: &Measure) -> Result<(), NotTaken> {
        *self.taken.get_mut(&id).unwrap() = measure.clone();
        Ok(())
    }

    fn end(&mut self, id: u64) -> Result<Option<&'static str>, String> {
        self.taken.remove(&id).expect("it is in force");
        match self.stuck {
            true => Err("busy".into()),
            false => Ok(None),
        }
    }

    fn retry(&mut self) -> bool {
        self.stuck
    }

    fn target(&self, measure: &Measure) -> String {
        format!("{measure:?}")
    }
}

/// A shield on a fake system.
fn shield(settings: ShieldSettings) -> ShieldCore<FakeWorld> {
    let core = ShieldCore::new(FakeWorld::default(), settings);
    core.world.now.set(Duration::from_secs(100));
    core
}

/// Lets time pass as the thread does.
fn pass(core: &mut ShieldCore<FakeWorld>, time: Duration) {
    let end = core.world.now() + time;
    core.turn();
    while let Some(sleep) = core
        .sleep()
        .filter(|&sleep| core.world.now() + sleep <= end)
    {
        core.world.now.set(core.world.now() + sleep);
        core.turn();
    }
    core.world.now.set(end);
}

fn begins(launch: u64) -> ShieldCommand {
    ShieldCommand::LaunchBegins {
        launch,
        uid: USER,
        root: 50,
        device: DRIVE | 1,
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_launch_is_shielded_and_nothing_runs_afterwards() {
    let mut core = shield(ShieldSettings::default());
    assert_eq!(core.sleep(), None);
    core.handle(begins(1));
    core.turn();
    assert_eq!(core.world.kinds(), [MeasureKind::Hold]);
    pass(&mut core, seconds(1));
    core.handle(ShieldCommand::LaunchEnds { launch: 1 });
    assert_eq!(core.world.kinds(), []);
    pass(&mut core, seconds(20));
    assert_eq!((core.sleep(), core.world.paused), (None, 1));
    let status = core.status(true, 0);
    assert_eq!(
        (status.taken, status.launches, status.in_force.len()),
        (1, 0, 0)
    );
    let [
        MeasureReport {
            uid,
            since_ms,
            ended_ms,
            written_during,
            written_after,
            ..
        },
    ] = &status.ended[..]
    else {
        panic!("{status:?}");
    };
    assert_eq!(
        (*uid, *since_ms, *ended_ms),
        (Some(USER), 100_000, Some(101_000))
    );
    assert_eq!(
        (*written_during, *written_after),
        (Some(30 << 20), Some(30 << 20))
    );
}

#[test]
fn a_caller_that_never_says_that_a_launch_is_over_costs_nothing_for_long() {
    let mut core = shield(ShieldSettings::default());
    core.handle(begins(1));
    pass(&mut core, seconds(4));
    assert_eq!(core.world.kinds(), [MeasureKind::Hold]);
    pass(&mut core, seconds(2));
    assert_eq!(core.world.kinds(), [MeasureKind::Backlog]);
    pass(&mut core, seconds(120));
    assert_eq!((core.world.kinds(), core.sleep()), (vec![], None));
}

#[test]
fn what_cannot_be_taken_is_reported_and_the_next_one_is_taken() {
    let mut core = shield(ShieldSettings::default());
    core.world.refuses = Some((
        MeasureKind::Hold,
        Some(NotTaken::Failed("read-only".to_owned())),
    ));
    core.handle(begins(1));
    core.turn();
    assert_eq!(core.world.kinds(), [MeasureKind::Backlog]);
    assert_eq!(core.status(true, 0).problem.as_deref(), Some("read-only"));

    let mut core = shield(ShieldSettings::default());
    core.world.refuses = Some((MeasureKind::Backlog, Some(NotTaken::Gone)));
    core.handle(ShieldCommand::Waits {
        pid: 7,
        tid: 8,
        uid: USER,
        device: DRIVE,
    });
    core.turn();
    assert_eq!(
        (core.world.kinds(), core.status(true, 0).problem),
        (vec![], None)
    );
}

#[test]
fn what_cannot_be_restored_is_tried_again() {
    let mut core = shield(ShieldSettings::default());
    core.handle(begins(1));
    core.turn();
    core.world.stuck = true;
    core.handle(ShieldCommand::LaunchEnds { launch: 1 });
    assert_eq!(core.status(true, 0).problem.as_deref(), Some("busy"));
    pass(&mut core, seconds(30));
    assert!(core.sleep().is_some(), "it tries again");
    core.world.stuck = false;
    pass(&mut core, seconds(6));
    assert_eq!(core.sleep(), None);
}

#[test]
fn memory_that_becomes_short_ends_a_hold_at_the_next_look() {
    let mut core = shield(ShieldSettings::default());
    core.handle(begins(1));
    core.turn();
    core.world.available = Some(GIB);
    pass(&mut core, Duration::from_millis(150));
    assert!(!core.world.kinds().contains(&MeasureKind::Hold));
    let why = core.status(true, 0).ended[0].why_ended.clone();
    assert_eq!(why.as_deref(), Some(MeasureEnd::Memory.explanation()));
}

#[test]
fn a_writer_is_limited_unless_it_is_the_foreground() {
    let writer = |group: &str| WriterLook {
        group: group.into(),
        uid: Some(USER),
        written: 50 << 20,
        memory: Some(WriterMemory {
            used: 1 << 20,
            anonymous: 1 << 20,
            clean: 0,
        }),
        has_weight: false,
    };
    for (group, limited) in [
        ("/60", true),
        ("/7", false),
        ("/7/child", false),
        ("/", false),
    ] {
        let mut core = shield(ShieldSettings::default().only(MeasureKind::Group));
        core.world.writers = vec![writer(group)];
        core.handle(ShieldCommand::Waits {
            pid: 7,
            tid: 8,
            uid: USER,
            device: DRIVE,
        });
        core.turn();
        assert_eq!(!core.world.taken.is_empty(), limited, "{group}");
    }
}

fn waits(pid: i32, uid: u32) -> ShieldCommand {
    ShieldCommand::Waits {
        pid,
        tid: pid,
        uid,
        device: DRIVE,
    }
}

#[test]
fn a_process_that_cannot_be_followed_is_no_reason() {
    let other = USER + 1;
    let mut core = shield(ShieldSettings::default().only(MeasureKind::Group));
    core.world.writers = vec![WriterLook {
        group: "/7".into(),
        uid: Some(other),
        written: 50 << 20,
        memory: Some(WriterMemory {
            used: 1 << 20,
            anonymous: 1 << 20,
            clean: 0,
        }),
        has_weight: false,
    }];
    let most = MOST_FOREGROUND as i32;
    for pid in 100..100 + most {
        core.handle(waits(pid, USER));
        core.world
            .now
            .set(core.world.now() + Duration::from_millis(1));
    }
    core.handle(waits(7, other));
    core.turn();
    assert_eq!((core.world.looks, core.world.kinds()), (1, vec![]));
    assert_eq!(core.status(true, 0).refused, 1);

    // A launch takes the place of the one that waited first.
    core.handle(begins(1));
    let follows = |core: &ShieldCore<FakeWorld>, pid: i32| {
        let mut known = core.foreground.iter();
        known.any(|known| known.pid == pid)
    };
    assert_eq!(core.foreground.len(), MOST_FOREGROUND);
    assert!(follows(&core, 50) && !follows(&core, 100) && follows(&core, 101));
    assert_eq!(core.status(true, 0).launches, 1);
    for pid in 1001..1000 + most {
        assert!(core.follow(Some(pid as u64), pid), "{pid}");
    }
    assert!(!core.follow(Some(99), 99), "all are launches");
    assert!(core.follow(Some(1), 50), "it is known");
}

#[test]
fn processes_that_wait_in_one_cgroup_are_followed_as_one() {
    let mut core = shield(ShieldSettings::default());
    core.world.one_group = true;
    for pid in 100..300 {
        core.handle(waits(pid, USER));
    }
    assert_eq!(core.foreground.len(), 1);
    assert_eq!(core.status(true, 0).refused, 0);
    // A launch has its own: it ends before theirs.
    core.handle(begins(1));
    assert_eq!(core.foreground.len(), 2);
    core.handle(ShieldCommand::LaunchEnds { launch: 1 });
    assert_eq!(core.foreground.len(), 1);
}

#[test]
fn a_drive_that_has_gone_is_no_reason() {
    let mut core = shield(ShieldSettings::default());
    core.handle(begins(1));
    core.turn();
    core.world.gone = true;
    core.handle(begins(2));
    pass(&mut core, seconds(6));
    assert_eq!(
        core.world.kinds(),
        [],
        "the hold has ended, and the drive cannot be limited"
    );
    core.handle(ShieldCommand::Stop);
}

#[test]
fn pressure_and_a_stop() {
    let mut core = shield(ShieldSettings::default());
    core.pressed();
    core.turn();
    assert_eq!(core.world.kinds(), [MeasureKind::Backlog]);
    assert_eq!(core.status(true, 3).in_force[0].uid, None);
    core.handle(ShieldCommand::Stop);
    assert_eq!(core.world.kinds(), []);
    pass(&mut core, seconds(1));
    assert_eq!(core.status(true, 3).lost, 3);
}
