//! What is decided in which situation.

use super::*;
use crate::policy::{
    DirtyThresholds, DriveLook, MeasureKind, MemoryLook, ShieldProfile, WriterLook, WriterMemory,
};

const GIB: u64 = 1 << 30;
/// What this drive writes within five seconds.
const BACKLOG: u64 = 128 << 20;
const DRIVE: u32 = 8 << 20;
const USER: u32 = 1000;

/// A drive under writes, plenty of memory, and a writer of [`USER`].
fn look() -> ShieldLook {
    ShieldLook {
        memory: MemoryLook {
            total: 16 * GIB,
            available: 10 * GIB,
            dirtyable: 10 * GIB,
            dirty: BACKLOG,
            pressure: Some(0.0),
            limits: Some(DirtyThresholds::Ratios {
                background: 10,
                dirty: 20,
            }),
        },
        drives: vec![DriveLook {
            device: DRIVE,
            writes_in_flight: 4,
            written: Some(25 << 20),
            has_strict_limit: true,
            scheduler: "mq-deadline".into(),
            schedulers: vec!["none".into(), "mq-deadline".into(), "bfq".into()],
            max_sectors_kb: 1280,
            one_command: false,
            journals: vec![77],
        }],
        writers: vec![writer("/user-1000/copy", Some(USER))],
        foreground: ["/user-1000/app".into()].into(),
    }
}

/// Of a cgroup with so many MiB of anonymous memory, and hardly any other.
fn memory(mib: u64) -> Option<WriterMemory> {
    Some(WriterMemory {
        used: mib << 20,
        anonymous: mib << 20,
        clean: 0,
    })
}

fn writer(group: &str, uid: Option<u32>) -> WriterLook {
    WriterLook {
        group: group.into(),
        uid,
        written: 50 << 20,
        memory: memory(10),
        has_weight: false,
    }
}

/// A shield that is told what happens, second by second.
struct Played {
    state: ShieldState,
    now: Duration,
    running: BTreeMap<u64, Measure>,
    ended: Vec<(MeasureKind, MeasureEnd)>,
}

impl Played {
    fn new(settings: ShieldSettings) -> Self {
        Played {
            state: ShieldState::new(settings),
            now: Duration::from_secs(1000),
            running: BTreeMap::new(),
            ended: Vec::new(),
        }
    }

    fn after(&mut self, seconds: f64, event: ShieldEvent) -> Vec<MeasureKind> {
        self.now += Duration::from_secs_f64(seconds);
        let (state, actions) = self.state.clone().step(event, self.now);
        self.state = state;
        for action in actions {
            match action {
                ShieldAction::Begin { id, measure, .. } => drop(self.running.insert(id, measure)),
                ShieldAction::Adjust { id, measure } => {
                    *self.running.get_mut(&id).unwrap() = measure
                }
                ShieldAction::End { id, why } => {
                    let measure = self.running.remove(&id).unwrap();
                    self.ended.push((measure.kind(), why));
                }
            }
        }
        self.kinds()
    }

    fn kinds(&self) -> Vec<MeasureKind> {
        let mut kinds: Vec<_> = self.running.values().map(Measure::kind).collect();
        kinds.sort_unstable();
        kinds
    }

    fn id(&self, kind: MeasureKind) -> u64 {
        let mut running = self.running.iter();
        *running
            .find(|(_, measure)| measure.kind() == kind)
            .unwrap()
            .0
    }
}

fn begins(launch: u64) -> ShieldEvent {
    ShieldEvent::LaunchBegins {
        launch,
        uid: USER,
        device: DRIVE,
    }
}

fn waits() -> ShieldEvent {
    ShieldEvent::Waits {
        tid: 5,
        uid: USER,
        device: DRIVE,
    }
}

fn looked() -> ShieldEvent {
    ShieldEvent::Looked(look())
}

use MeasureKind::{Backlog, Dirty, Group, Hold, Journal, Requests};

#[test]
fn a_launch_holds_writeback_back_until_it_ends() {
    let mut played = Played::new(ShieldSettings::default());
    assert_eq!(played.after(0.0, begins(1)), [], "nothing was seen yet");
    assert_eq!(played.after(0.0, looked()), [Journal, Hold]);
    let quiet = ShieldLook {
        drives: vec![DriveLook {
            writes_in_flight: 0,
            written: Some(0),
            ..look().drives[0].clone()
        }],
        ..look()
    };
    // The drive is quiet because of the hold.
    assert_eq!(
        played.after(0.1, ShieldEvent::Looked(quiet)),
        [Journal, Hold]
    );
    assert_eq!(played.after(1.0, ShieldEvent::LaunchEnds { launch: 1 }), []);
    assert!(played.ended.contains(&(Hold, MeasureEnd::NotNeeded)));
    assert_eq!(played.state.next_tick(), None);
}

#[test]
fn a_hold_ends_by_its_bound_and_rests_while_limits_take_over() {
    let mut played = Played::new(ShieldSettings::default());
    played.after(0.0, begins(1));
    played.after(0.0, looked());
    played.after(4.9, looked());
    assert!(played.kinds().contains(&Hold));
    assert_eq!(played.after(0.1, looked()), [Journal, Backlog, Group]);
    assert_eq!(played.ended, [(Hold, MeasureEnd::Bound)]);
    // Another launch does not begin a hold either.
    played.after(0.1, begins(2));
    assert!(!played.after(4.0, looked()).contains(&Hold));
    assert!(played.after(1.0, looked()).contains(&Hold));
    assert!(played.ended.contains(&(Backlog, MeasureEnd::Replaced)));
}

#[test]
fn two_launches_share_a_hold() {
    let mut played = Played::new(ShieldSettings::default());
    played.after(0.0, begins(1));
    played.after(0.0, looked());
    let hold = played.id(Hold);
    played.after(
        1.0,
        ShieldEvent::LaunchBegins {
            launch: 2,
            uid: 1001,
            device: DRIVE,
        },
    );
    played.after(0.0, looked());
    assert!(
        played
            .after(0.5, ShieldEvent::LaunchEnds { launch: 1 })
            .contains(&Hold)
    );
    assert_eq!(played.id(Hold), hold);
    // Its bound did not move.
    assert!(!played.after(3.5, ShieldEvent::Tick).contains(&Hold));
}

#[test]
fn a_quiet_drive_is_left_alone() {
    let mut played = Played::new(ShieldSettings::default());
    let mut quiet = look();
    quiet.drives[0] = DriveLook {
        writes_in_flight: 0,
        written: None,
        ..quiet.drives[0].clone()
    };
    played.after(0.0, begins(1));
    assert_eq!(played.after(0.0, ShieldEvent::Looked(quiet)), []);
    let mut elsewhere = look();
    elsewhere.drives[0].device += 16;
    assert_eq!(played.after(0.1, ShieldEvent::Looked(elsewhere)), []);
}

#[test]
fn a_waiting_task_has_the_drive_limited_and_the_limit_follows_the_backlog() {
    let mut played = Played::new(ShieldSettings::default());
    played.after(0.0, waits());
    assert_eq!(
        played.after(0.0, looked()),
        [Journal, Journal, Backlog, Group]
    );
    let id = played.id(Backlog);
    assert_eq!(
        played.running[&id],
        Measure::Backlog {
            device: DRIVE,
            bytes: BACKLOG
        }
    );
    let mut less = look();
    less.memory.dirty = BACKLOG / 2;
    played.after(1.0, ShieldEvent::Looked(less.clone()));
    assert_eq!(
        played.running[&id],
        Measure::Backlog {
            device: DRIVE,
            bytes: BACKLOG / 2
        }
    );
    less.memory.dirty = 0;
    played.after(0.5, ShieldEvent::Looked(less.clone()));
    assert_eq!(
        played.running[&id],
        Measure::Backlog {
            device: DRIVE,
            bytes: BACKLOG / 2
        }
    );
    played.after(0.5, ShieldEvent::Looked(less));
    assert_eq!(
        played.running[&id],
        Measure::Backlog {
            device: DRIVE,
            bytes: 16 << 20
        }
    );
    // Five seconds after the last wait.
    assert_eq!(played.after(3.0, ShieldEvent::Tick), []);
    assert!(played.ended.contains(&(Backlog, MeasureEnd::NotNeeded)));
}

#[test]
fn a_backlog_that_takes_long_to_write_is_not_limited() {
    for has_strict_limit in [true, false] {
        let mut played = Played::new(ShieldSettings::default());
        let mut large = look();
        large.drives[0].has_strict_limit = has_strict_limit;
        large.memory.dirty = GIB;
        played.after(0.0, waits());
        let kinds = played.after(0.0, ShieldEvent::Looked(large.clone()));
        assert_eq!(kinds, [Journal, Journal, Group]);
        // A drive that writes it in five seconds.
        large.drives[0].written = Some(250 << 20);
        let kinds = played.after(0.5, ShieldEvent::Looked(large));
        let limit = if has_strict_limit { Backlog } else { Dirty };
        assert_eq!(kinds, [Journal, Journal, limit, Group]);
    }
}

#[test]
fn older_kernels_have_the_systems_limit_instead() {
    let mut played = Played::new(ShieldSettings::default());
    let mut old = look();
    old.drives[0].has_strict_limit = false;
    old.memory.dirty = 20 << 20;
    played.after(0.0, waits());
    assert_eq!(
        played.after(0.0, ShieldEvent::Looked(old)),
        [Journal, Journal, Dirty, Group]
    );
    let limits = DirtyThresholds::Bytes {
        background: 10 << 20,
        dirty: 20 << 20,
    };
    assert_eq!(played.running[&played.id(Dirty)], Measure::Dirty(limits));
    // A launch has writeback held back in its place.
    played.after(0.1, begins(1));
    assert_eq!(played.after(0.0, looked()), [Journal, Journal, Hold]);
    assert!(played.ended.contains(&(Dirty, MeasureEnd::Replaced)));
}

#[test]
fn evidence_renews_limits_for_as_long_as_the_account_lasts() {
    let mut played = Played::new(ShieldSettings {
        group: false,
        ..ShieldSettings::default()
    });
    let mut in_force = 0;
    for _ in 0..600 {
        played.after(1.0, waits());
        in_force += u32::from(played.after(0.0, looked()).contains(&Backlog));
    }
    // Half the time, and a quarter of a minute in advance.
    assert!((295..=316).contains(&in_force), "{in_force}");
    assert!(played.ended.contains(&(Backlog, MeasureEnd::Account)));
}

#[test]
fn only_the_users_own_writers_are_limited_and_never_the_foreground() {
    let mut played = Played::new(ShieldSettings::default().only(Group));
    let mut crowd = look();
    crowd.writers = vec![
        writer("/user-1000/copy", Some(USER)),
        writer("/user-1000/app", Some(USER)),
        writer("/user-1000/app/child", Some(USER)),
        writer("/user-1000", Some(USER)),
        writer("/", Some(USER)),
        writer("/user-1001/copy", Some(1001)),
        writer("/system/apt", Some(0)),
        writer("/user-1000/mixed", None),
        WriterLook {
            memory: None,
            ..writer("/user-1000/unknown", Some(USER))
        },
        WriterLook {
            written: 1 << 20,
            ..writer("/user-1000/small", Some(USER))
        },
    ];
    played.after(0.0, waits());
    assert_eq!(
        played.after(0.0, ShieldEvent::Looked(crowd.clone())),
        [Group]
    );
    let expected = Measure::Group {
        group: "/user-1000/copy".into(),
        bytes: 74 << 20,
        weight: None,
    };
    assert_eq!(played.running[&played.id(Group)], expected);
    crowd.foreground.insert("/user-1000/copy".into());
    assert_eq!(played.after(0.1, ShieldEvent::Looked(crowd)), []);
    assert_eq!(played.ended, [(Group, MeasureEnd::Foreground)]);
}

#[test]
fn a_writer_that_needs_memory_itself_gets_it_back() {
    let mut played = Played::new(ShieldSettings::default().only(Group));
    played.after(0.0, waits());
    played.after(0.0, looked());
    let mut grown = look();
    grown.writers[0].memory = memory(50);
    assert_eq!(played.after(0.1, ShieldEvent::Looked(grown)), []);
    assert_eq!(played.ended, [(Group, MeasureEnd::Foreground)]);
}

#[test]
fn nothing_is_held_when_memory_is_short() {
    let mut played = Played::new(ShieldSettings::default());
    let mut short = look();
    short.memory.available = GIB;
    played.after(0.0, begins(1));
    played.after(0.0, looked());
    assert_eq!(
        played.after(0.1, ShieldEvent::Looked(short.clone())),
        [Journal, Backlog]
    );
    assert!(played.ended.contains(&(Hold, MeasureEnd::Memory)));
    short.memory.available = 10 * GIB;
    short.memory.pressure = Some(50.0);
    assert!(
        !played
            .after(20.0, ShieldEvent::Looked(short))
            .contains(&Hold)
    );
}

#[test]
fn what_failed_is_not_tried_again_soon() {
    let mut played = Played::new(ShieldSettings::default());
    played.after(0.0, begins(1));
    played.after(0.0, looked());
    let failed = ShieldEvent::Failed {
        id: played.id(Hold),
    };
    let id = played.id(Hold);
    played.running.remove(&id);
    assert_eq!(
        played.after(0.0, failed),
        [Journal, Backlog, Group],
        "the next stronger one"
    );
    assert!(!played.after(30.0, looked()).contains(&Hold));
}

#[test]
fn priorities_are_for_schedulers_that_heed_them() {
    let scheduled = |scheduler: &str| {
        let mut played = Played::new(ShieldSettings::default().only(Journal));
        let mut look = look();
        look.drives[0].scheduler = scheduler.into();
        played.after(0.0, waits());
        played.after(0.0, ShieldEvent::Looked(look));
        let mut threads: Vec<_> = played.running.into_values().collect();
        threads.sort_by_key(|measure| measure.key());
        threads
    };
    let priority = |tid, waits| Measure::Priority {
        device: DRIVE,
        tid,
        waits,
    };
    assert_eq!(scheduled("none"), []);
    assert_eq!(scheduled("kyber"), []);
    let both = [priority(5, true), priority(77, false)];
    assert_eq!(scheduled("bfq"), both);
    assert_eq!(scheduled("mq-deadline"), both);
}

#[test]
fn requests_are_changed_only_where_the_administrator_asks() {
    let mut played = Played::new(ShieldSettings::default());
    played.after(0.0, waits());
    assert!(!played.after(0.0, looked()).contains(&Requests));
    let mut played = Played::new(ShieldSettings::default().only(Requests));
    played.after(0.0, waits());
    assert_eq!(played.after(0.0, looked()), [Requests]);
    let expected = Measure::Requests {
        device: DRIVE,
        scheduler: None,
        async_depth: Some(1),
        max_sectors_kb: Some(128),
    };
    assert_eq!(played.running[&played.id(Requests)], expected);
    // Where the drive has few writes at a time, a limit of what is dirty would only slow those that wait.
    let mut played = Played::new(ShieldSettings {
        profile: ShieldProfile::Responsive,
        ..ShieldSettings::default()
    });
    played.after(0.0, waits());
    assert_eq!(
        played.after(0.0, looked()),
        [Journal, Journal, Group, Requests]
    );
}

#[test]
fn a_launch_on_a_drive_with_few_writes_needs_no_hold() {
    let mut played = Played::new(ShieldSettings {
        profile: ShieldProfile::Responsive,
        ..ShieldSettings::default()
    });
    played.after(0.0, ShieldEvent::Pressure { device: DRIVE });
    assert_eq!(played.after(0.0, looked()), [Journal, Requests]);
    played.after(0.1, begins(1));
    assert_eq!(played.after(0.0, looked()), [Journal, Group, Requests]);
    // Without pressure before it, writeback is held back first: a scheduler is changed when requests under way are done.
    let mut played = Played::new(ShieldSettings {
        profile: ShieldProfile::Responsive,
        ..ShieldSettings::default()
    });
    played.after(0.0, begins(1));
    assert_eq!(played.after(0.0, looked()), [Journal, Hold]);
}

#[test]
fn small_and_few_requests_take_a_scheduler_that_the_drive_can_have() {
    for (scheduler, schedulers, expected) in [
        (
            "none",
            &["mq-deadline", "bfq"][..],
            Some((Some("mq-deadline"), Some(1))),
        ),
        ("none", &["bfq"], Some((Some("bfq"), None))),
        ("kyber", &["none"], Some((None, None))),
        ("bfq", &["mq-deadline"], Some((None, None))),
    ] {
        let mut played = Played::new(ShieldSettings::default().only(Requests));
        let mut drive = look();
        drive.drives[0].scheduler = scheduler.into();
        drive.drives[0].schedulers = schedulers.iter().map(|&name| name.into()).collect();
        played.after(0.0, waits());
        played.after(0.0, ShieldEvent::Looked(drive));
        let taken = played.running.values().find_map(|measure| match measure {
            Measure::Requests {
                scheduler,
                async_depth,
                ..
            } => Some((scheduler.as_deref(), *async_depth)),
            _ => None,
        });
        assert_eq!(taken, expected, "{scheduler} of {schedulers:?}");
    }
}

#[test]
fn small_requests_that_the_administrator_asks_for_last_as_long_as_pressure_does() {
    let mut played = Played::new(ShieldSettings::default().only(Requests));
    for second in 0..600 {
        played.after(1.0, ShieldEvent::Pressure { device: DRIVE });
        assert_eq!(played.after(0.0, looked()), [Requests], "{second}");
    }
    // Nobody waits for the drive any more, but it is still being written.
    for _ in 0..600 {
        assert_eq!(played.after(1.0, looked()), [Requests]);
    }
    let mut idle = look();
    idle.drives[0].writes_in_flight = 0;
    idle.drives[0].written = Some(0);
    played.after(4.9, ShieldEvent::Looked(idle));
    assert_eq!(played.after(0.1, ShieldEvent::Tick), []);
    // On a user's account they end with its time.
    let mut ended = false;
    for _ in 0..60 {
        played.after(1.0, waits());
        ended |= played.after(0.0, looked()).is_empty();
    }
    assert!(ended);
}

#[test]
fn a_user_who_launches_in_a_loop_gets_so_many_grants_and_others_theirs() {
    let mut played = Played::new(ShieldSettings::default());
    let mut holds = 0;
    for launch in 0..300 {
        played.after(0.0, begins(launch));
        holds += usize::from(played.after(0.0, looked()).contains(&Hold));
        played.after(0.2, ShieldEvent::LaunchEnds { launch });
    }
    assert!(holds <= 12, "{holds}");
    assert!(played.state.refused() > 0);
    played.after(
        1.0,
        ShieldEvent::LaunchBegins {
            launch: 999,
            uid: 1001,
            device: DRIVE,
        },
    );
    assert!(played.after(0.0, looked()).contains(&Hold));
}

#[test]
fn pressure_counts_where_it_is_allowed() {
    for (pressure, expected) in [(true, &[Journal, Backlog][..]), (false, &[])] {
        let mut played = Played::new(ShieldSettings {
            pressure,
            ..ShieldSettings::default()
        });
        played.after(0.0, ShieldEvent::Pressure { device: DRIVE });
        assert_eq!(played.after(0.0, looked()), expected);
    }
    let mut played = Played::new(ShieldSettings {
        enabled: false,
        ..ShieldSettings::default()
    });
    played.after(0.0, begins(1));
    assert_eq!(played.after(0.0, looked()), []);
}

#[test]
fn what_was_seen_at_an_earlier_launch_does_not_count() {
    let mut played = Played::new(ShieldSettings::default());
    played.after(0.0, begins(1));
    played.after(0.0, looked());
    played.after(0.1, ShieldEvent::LaunchEnds { launch: 1 });
    assert_eq!(
        played.after(1.0, begins(2)),
        [],
        "its limits were those of the hold"
    );
    assert_eq!(played.after(0.0, looked()), [Journal, Hold]);
}

fn pressure() -> ShieldEvent {
    ShieldEvent::Pressure { device: DRIVE }
}

#[test]
fn a_user_with_many_writers_leaves_room_for_others_and_for_his_own_hold() {
    let mut played = Played::new(ShieldSettings::default());
    let other_drive = DRIVE + 16;
    let mut crowd = look();
    crowd.writers = (0..40)
        .map(|number| writer(&format!("/user-1000/{number}"), Some(USER)))
        .collect();
    crowd.drives.push(DriveLook {
        device: other_drive,
        journals: Vec::new(),
        ..look().drives[0].clone()
    });
    played.after(0.0, waits());
    let kinds = played.after(0.0, ShieldEvent::Looked(crowd.clone()));
    assert_eq!(kinds.len(), MOST_ON_ACCOUNT + 1, "and the task that waits");
    assert_eq!(kinds[..4], [Journal, Journal, Backlog, Group]);
    played.after(
        0.1,
        ShieldEvent::Waits {
            tid: 6,
            uid: 1001,
            device: other_drive,
        },
    );
    let kinds = played.after(0.0, ShieldEvent::Looked(crowd.clone()));
    assert_eq!(kinds[..5], [Journal, Journal, Journal, Backlog, Backlog]);
    played.after(0.1, begins(1));
    assert_eq!(
        played.after(0.0, ShieldEvent::Looked(crowd)),
        [Journal, Journal, Journal, Hold]
    );
}

#[test]
fn measures_that_begin_again_take_another_grant() {
    let mut played = Played::new(ShieldSettings {
        grants_per_minute: 1,
        longest_limit_s: 5,
        ..ShieldSettings::default().only(Backlog)
    });
    played.after(0.0, waits());
    assert_eq!(played.after(0.0, looked()), [Backlog]);
    for _ in 0..4 {
        played.after(1.0, waits());
        assert_eq!(played.after(0.0, looked()), [Backlog]);
    }
    for _ in 5..60 {
        played.after(1.0, waits());
        assert_eq!(played.after(0.0, looked()), [], "there is one a minute");
    }
    assert_eq!(played.ended, [(Backlog, MeasureEnd::Bound)]);
    played.after(1.0, waits());
    assert_eq!(played.after(0.0, looked()), [Backlog]);
}

#[test]
fn what_follows_in_the_same_moment_takes_no_other_grant() {
    let mut played = Played::new(ShieldSettings {
        grants_per_minute: 1,
        journal: false,
        group: false,
        ..ShieldSettings::default()
    });
    played.after(0.0, begins(1));
    assert_eq!(played.after(0.0, looked()), [Hold]);
    assert_eq!(played.after(5.0, looked()), [Backlog]);
}

#[test]
fn pressure_does_not_go_on_where_an_account_was_used_up() {
    let mut played = Played::new(ShieldSettings::default().only(Backlog));
    // Both accounts have a reason, and the user's pays.
    for _ in 0..31 {
        played.after(1.0, waits());
        played.after(0.0, pressure());
        played.after(0.0, looked());
    }
    assert_eq!(played.ended, [(Backlog, MeasureEnd::Account)]);
    for _ in 1..10 {
        played.after(1.0, pressure());
        assert_eq!(played.after(0.0, looked()), []);
    }
    // Nor does it go on with a measure of another user.
    played.after(
        1.0,
        ShieldEvent::LaunchBegins {
            launch: 1,
            uid: 1001,
            device: DRIVE,
        },
    );
    assert_eq!(played.after(0.0, looked()), [Backlog]);
    assert_eq!(played.after(1.0, ShieldEvent::LaunchEnds { launch: 1 }), []);
    for _ in 12..30 {
        played.after(1.0, pressure());
        assert_eq!(played.after(0.0, looked()), []);
    }
    played.after(1.0, pressure());
    assert_eq!(played.after(0.0, looked()), [Backlog]);
    assert_eq!(played.state.account_of(played.id(Backlog)), None);
}

#[test]
fn the_priority_of_a_task_that_waited_is_on_its_users_account_alone() {
    let mut played = Played::new(ShieldSettings::default().only(Journal));
    let waits = |tid| ShieldEvent::Waits {
        tid,
        uid: USER,
        device: DRIVE,
    };
    // Six tasks that take turns: one after the other, never all at once.
    for turn in 0..24 {
        played.after(0.1, waits(100 + turn % 6));
        played.after(0.0, looked());
    }
    assert_eq!(
        played.running.len(),
        MOST_RAISED + 1,
        "and the journal's thread"
    );
    assert_eq!(played.ended, [], "none was set back in between");
    // What they have leaves room for what the user's launches need.
    played.after(0.1, begins(1));
    let hold = Measure::Hold(DirtyThresholds::Ratios {
        background: 40,
        dirty: 45,
    });
    let user = Some(USER);
    assert!(played.state.may_begin(user, &hold, played.now));
    played.after(0.1, ShieldEvent::LaunchEnds { launch: 1 });
    // One that has not waited for a while makes room for one that does.
    played.after(5.0, waits(200));
    played.after(0.0, looked());
    let has = |tid| {
        let mut running = played.running.values();
        running
            .any(|measure| matches!(measure, Measure::Priority { tid: other, .. } if *other == tid))
    };
    assert!(has(200));
    played.after(0.1, ShieldEvent::Pressure { device: DRIVE });
    // No more of them waits, while other tasks do.
    for _ in 0..12 {
        played.after(0.5, ShieldEvent::Pressure { device: DRIVE });
        played.after(0.0, looked());
    }
    assert_eq!(played.kinds(), [Journal], "the journal's thread");
}
