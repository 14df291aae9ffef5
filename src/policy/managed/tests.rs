use std::time::Duration;

use super::*;
use crate::model::{DataPages, LaunchCounts, MissedRequests, Params, PrefetchReport};
use crate::policy::{ColdLaunch, TuningEnd, TuningRules, well_prefetched};

mod properties;

const CLASS: DriveClass = DriveClass::CommandQueuing;
const NOW: u64 = 1_700_000_000;

fn history() -> Vec<Revision> {
    vec![Revision {
        time: NOW,
        params: Params::for_device(CLASS, true),
    }]
}

fn learned(history: &[Revision]) -> Observation<'_> {
    Observation::Learned {
        class: CLASS,
        history,
        cold: None,
        pages: None,
        is_whole: true,
        most: 5,
    }
}

/// An app that has been learned.
fn prefetching() -> Managed {
    let mut app = Managed::default();
    app.next(NOW, &learned(&history()));
    app
}

/// A cold launch that prefetching served well, changed.
fn changed(change: impl FnOnce(&mut LaunchFigures)) -> LaunchFigures {
    let mut figures = well_prefetched();
    change(&mut figures);
    figures
}

/// A launch that was prefetched with stale files, and switched context so often.
fn stale(switches: u64) -> LaunchFigures {
    changed(|figures| {
        figures.switches = switches;
        figures.report.as_mut().expect("a report").stale_files = 1;
    })
}

fn launched<'a>(history: &'a [Revision], figures: &'a LaunchFigures) -> Observation<'a> {
    Observation::Launched {
        history,
        figures,
        rules: TuningRules::default(),
    }
}

fn launch(app: &mut Managed, figures: LaunchFigures) -> Decision {
    let history = history();
    let history = &history;
    let figures = &figures;
    app.next(NOW, &launched(history, figures))
}

#[test]
fn an_app_is_learned_and_then_prefetched() {
    let mut app = Managed::default();
    assert_eq!(app.phase().byte(), 3);
    assert_eq!(app.plan(NOW, 0), Plan::Learn);
    assert_eq!(app.next(NOW, &learned(&history())), Decision::Keep);
    assert_eq!(app.phase(), Phase::Prefetching);
    assert_eq!(app.phase().byte(), 1);
    assert_eq!(app.plan(NOW, 0), Plan::Prefetch);
    assert_eq!(app, Managed::with_profile(CLASS, &history()));
}

#[test]
fn an_app_is_learned_until_its_pages_are_told_apart_and_now_and_then_again() {
    let mut app = Managed::default();
    let history = history();
    let learn = |app: &mut Managed, fault_around| {
        let observation = Observation::Learned {
            class: CLASS,
            history: &history,
            cold: None,
            pages: Some(DataPages {
                all: 1000,
                fault_around,
            }),
            is_whole: true,
            most: 5,
        };
        assert_eq!(app.next(NOW, &observation), Decision::Keep);
        app.plan(NOW, 1)
    };
    assert_eq!(learn(&mut app, 500), Plan::Learn);
    assert_eq!(app.next(NOW, &Observation::NotLearned), Decision::Keep);
    assert_eq!(learn(&mut app, 300), Plan::Learn);
    assert_eq!(app.phase(), Phase::Learning { attempts: 0 });
    assert_eq!(learn(&mut app, 40), Plan::Prefetch);
    for _ in 1..16 {
        assert_eq!(launch(&mut app, well_prefetched()), Decision::Keep);
    }
    let again = Decision::Relearn(DecisionReason::Periodic);
    let mut replacing = app.clone();
    assert_eq!(launch(&mut replacing, stale(0)), Decision::Refresh);
    assert_eq!(
        launch(&mut replacing, stale(0)),
        again,
        "a lesson brings more"
    );
    assert_eq!(launch(&mut app, well_prefetched()), again);
    assert_eq!(app.plan(NOW, 1), Plan::Learn);
    assert_eq!(learn(&mut app, 40), Plan::Prefetch, "one is enough");
    // Learned anew, it takes two again.
    app.next(NOW, &Observation::Asked(PhaseRequest::Learn));
    assert_eq!(learn(&mut app, 0), Plan::Learn);
    // So it does when it is updated meanwhile.
    assert_eq!(app.next(NOW, &Observation::NewExecutable), Decision::Keep);
    assert_eq!(learn(&mut app, 0), Plan::Learn);
    assert_eq!(learn(&mut app, 0), Plan::Prefetch);
}

#[test]
fn a_sequence_without_a_beginning_stays_so_until_another_launch_was_learned() {
    let history = history();
    let learn = |app: &mut Managed, is_whole| {
        let observation = Observation::Learned {
            class: CLASS,
            history: &history,
            cold: None,
            pages: Some(DataPages::default()),
            is_whole,
            most: 1,
        };
        app.next(NOW, &observation);
    };
    for again in [
        Observation::NewExecutable,
        Observation::Asked(PhaseRequest::Learn),
        Observation::Checked {
            obsolete: 1,
            entries: 1,
        },
    ] {
        let mut app = Managed::default();
        learn(&mut app, false);
        learn(&mut app, false);
        assert_eq!(app.phase(), Phase::Prefetching);
        app.next(NOW, &again);
        assert_eq!(app.plan(NOW, 1), Plan::Learn);
        assert!(app.is_learned_in_part(), "{again:?}");
        learn(&mut app, true);
        assert!(!app.is_learned_in_part(), "{again:?}");
    }
}

#[test]
fn a_lost_profile_is_not_gone_back_to() {
    let mut lost = prefetching();
    let relearn = Decision::Relearn(DecisionReason::NoProfile);
    assert_eq!(lost.next(NOW, &Observation::NoProfile), relearn);
    assert_eq!(lost.tuning(), None);
    for _ in 0..LEARNING_ATTEMPTS {
        lost.next(NOW, &Observation::NotLearned);
    }
    assert_eq!(lost.next(NOW, &Observation::NoProfile), Decision::Keep);
    assert_eq!(lost.phase().byte(), 9, "what is switched off stays so");
}

#[test]
fn three_attempts_that_teach_nothing_end_learning() {
    let mut new = Managed::default();
    let mut known = prefetching();
    known.next(NOW, &Observation::Asked(PhaseRequest::Learn));
    for app in [&mut new, &mut known] {
        for _ in 1..LEARNING_ATTEMPTS {
            assert_eq!(app.next(NOW, &Observation::NotLearned), Decision::Keep);
            assert_eq!(app.plan(NOW, 0), Plan::Learn);
        }
    }
    let off = Decision::SwitchedOff(Off::NothingToLearn);
    assert_eq!(new.next(NOW, &Observation::NotLearned), off);
    assert_eq!(new.phase().byte(), 9);
    // The old profile is better than none.
    assert_eq!(known.next(NOW, &Observation::NotLearned), Decision::Keep);
    assert_eq!(known.phase(), Phase::Prefetching);
}

/// Requests for what earlier launches have missed, too.
fn recurring(requests: u64) -> MissedRequests {
    MissedRequests {
        recurring: requests,
        ..MissedRequests::default()
    }
}

#[test]
fn a_profile_that_is_wrong_is_learned_again() {
    let missed = |requests, missed| {
        changed(|figures| {
            figures.counts.requests = requests;
            figures.missed = missed;
        })
    };
    let own = |requests| missed(requests, Some(recurring(requests)));
    let mut refused = own(100);
    refused.report.as_mut().expect("a report").refused = Some("no memory".to_owned());
    let mut withheld = own(100);
    withheld.report = None;
    let mut warm = own(100);
    warm.counts.bytes = 4;
    let [few, many] = [own(10), own(11)];
    let [held, unknown] = [missed(40, Some(recurring(10))), missed(40, None)];
    let new = MissedRequests {
        once: 11,
        written: 20,
        unreadable: 200,
        ..recurring(11)
    };
    let new = missed(240, Some(new));
    let history = &history()[..];
    let launched = |figures| launched(history, figures);
    let checked = |obsolete| Observation::Checked {
        obsolete,
        entries: 50,
    };
    let cases = [
        ("10 % own reads", launched(&few), None),
        (
            "more of them",
            launched(&many),
            Some(DecisionReason::Missed(recurring(11))),
        ),
        (
            "more of them, most of which learning does not bring",
            launched(&new),
            None,
        ),
        ("many for what the profile holds", launched(&held), None),
        ("many, and nobody knows for what", launched(&unknown), None),
        ("nothing prefetched", launched(&refused), None),
        ("prefetching withheld", launched(&withheld), None),
        ("a warm launch", launched(&warm), None),
        ("10 % obsolete entries", checked(5), None),
        ("more of them", checked(6), Some(DecisionReason::Obsolete)),
        (
            "another executable",
            Observation::NewExecutable,
            Some(DecisionReason::NewExecutable),
        ),
    ];
    for (name, observation, reason) in cases {
        let mut app = prefetching();
        let decision = reason.map_or(Decision::Keep, Decision::Relearn);
        assert_eq!(app.next(NOW, &observation), decision, "{name}");
        let plan = reason.map_or(Plan::Prefetch, |_| Plan::Learn);
        assert_eq!(app.plan(NOW, 0), plan, "{name}");
        // What was under way meanwhile does not count.
        assert!(
            reason.is_none() || app.next(NOW, &observation) == Decision::Keep,
            "{name}"
        );
    }
}

#[test]
fn files_that_are_replaced_at_each_launch_lead_back_to_learning_ever_less() {
    let mut app = prefetching();
    let checked = Observation::Checked {
        obsolete: 20,
        entries: 50,
    };
    let mut learned_at = Vec::new();
    for turn in 0..200 {
        app.next(NOW, &launched(&history(), &stale(0)));
        if app.next(NOW, &checked) == Decision::Relearn(DecisionReason::Obsolete) {
            learned_at.push(turn);
            app.next(NOW, &learned(&history()));
        }
    }
    // Each launch that misses little takes back what its check has shown.
    assert_eq!(learned_at, [0]);
}

#[test]
fn stale_files_are_looked_up_first_and_then_tuned_all_the_same() {
    let mut app = prefetching();
    assert_eq!(launch(&mut app, stale(100)), Decision::Refresh);
    assert_eq!(app.tuning(), prefetching().tuning());
    let step = launch(&mut app, stale(100));
    assert!(matches!(step, Decision::Reschedule(_)), "{step:?}");
    let mut app = prefetching();
    assert_eq!(launch(&mut app, stale(0)), Decision::Refresh);
    assert_eq!(launch(&mut app, stale(0)), Decision::Refresh);
    let ended = app.tuning().and_then(Tuning::ended);
    assert_eq!(ended, Some(TuningEnd::InTime));
}

#[test]
fn a_launch_that_waits_is_scheduled_anew() {
    let late = changed(|figures| figures.switches = 6);
    let params = |shift_kib: u64| Params {
        shift_bytes: shift_kib << 10,
        ..Params::for_device(CLASS, true)
    };
    let mut app = prefetching();
    assert_eq!(launch(&mut app, late), Decision::Reschedule(params(80)));
    let next = app.next(NOW, &Observation::NoEffect(TuningRules::default()));
    assert_eq!(next, Decision::Reschedule(params(96)));
    let next = app.next(NOW, &Observation::NotRescheduled);
    assert_eq!(next, Decision::Keep);
    let ended = app.tuning().and_then(Tuning::ended);
    assert_eq!(ended, Some(TuningEnd::NotRescheduled));
    // A new profile is tuned from the start.
    app.next(NOW, &learned(&history()));
    assert_eq!(app.tuning().and_then(Tuning::ended), None);
}

#[test]
fn a_measured_drive_asks_for_a_schedule_whose_tuning_begins_anew() {
    let mut app = prefetching();
    assert!(!app.is_schedule_due());
    app.drive_measured();
    assert!(app.is_schedule_due());
    app.schedule_is_made();
    assert!(!app.is_schedule_due());
    let disk = [Revision {
        time: NOW,
        params: Params::for_device(DriveClass::Rotational, true),
    }];
    app.scheduled_for(DriveClass::Rotational, &disk);
    let ended = app.tuning().and_then(Tuning::ended);
    assert_eq!(ended, Some(TuningEnd::NothingFree));
    // Whatever is learned later is scheduled for the drive as it is known by then.
    app.drive_measured();
    app.next(NOW, &learned(&history()));
    assert!(!app.is_schedule_due());
}

/// Cold launches, prefetched ones of a millisecond and withheld ones of `without_us` microseconds, as the plan says. Returns the first decision, and how many were prefetched and withheld.
fn launches(app: &mut Managed, without_us: u64) -> (Decision, [u32; 2]) {
    let mut count = [0; 2];
    for _ in 0..200 {
        let figures = match app.plan(NOW, 0) {
            Plan::Prefetch => {
                count[0] += 1;
                well_prefetched()
            }
            Plan::Withhold => {
                count[1] += 1;
                changed(|figures| {
                    figures.exited_ns = Some(without_us * 1000);
                    figures.report = None;
                })
            }
            plan => panic!("{plan:?}"),
        };
        match launch(app, figures) {
            Decision::Keep => {}
            decision => return (decision, count),
        }
    }
    (Decision::Keep, count)
}

#[test]
fn an_app_with_gain_is_prefetched_on_and_another_switched_off_and_retried() {
    let mut app = prefetching();
    assert_eq!(launches(&mut app, 2000), (Decision::Keep, [180, 20]));
    assert!(matches!(app.gain.verdict(), GainVerdict::Helps { .. }));

    let off = |without_us, why| Off::NoGain {
        with_us: 1000,
        without_us,
        why,
    };
    // What is little has to be told from chance.
    let mut app = prefetching();
    let switched_off = Decision::SwitchedOff(off(1005, None));
    assert_eq!(launches(&mut app, 1005), (switched_off, [45, 5]));
    let mut app = prefetching();
    let switched_off = Decision::SwitchedOff(off(900, None));
    assert_eq!(launches(&mut app, 900), (switched_off, [10, 2]));
    assert_eq!(app.no_gain_facts().without_us, 900);
    let why = Some(NoGainReason::HardlyWaits { waiting_us: 7 });
    let off = off(900, why);
    assert_eq!(app.explain_no_gain(why), Some(off));
    assert_eq!(app.phase(), Phase::Disabled { off, since_s: NOW });
    assert_eq!(app.plan(NOW + RETRY_AFTER_S - 1, 0), Plan::Leave);
    assert_eq!(app.plan(NOW + RETRY_AFTER_S, 0), Plan::Learn);
    assert_eq!(RETRY_AFTER_S, 2_592_000, "30 days");
    assert_eq!(app.gain.verdict(), GainVerdict::Open);
}

#[test]
fn an_app_whose_files_another_program_has_to_be_asked_about_is_switched_off_at_once() {
    let mut app = prefetching();
    let slow = changed(|figures| {
        let report = figures.report.as_mut().expect("a report");
        report.slow_opens = Some(Duration::from_micros(2100));
    });
    assert!(!slow.is_prefetched());
    let off = Off::SlowOpens { delay_us: 2100 };
    assert_eq!(launch(&mut app, slow), Decision::SwitchedOff(off));
    assert_eq!(app.explain_no_gain(None), Some(off));
    assert_eq!(app.plan(NOW + RETRY_AFTER_S, 0), Plan::Learn);
    assert_eq!(app.explain_no_gain(None), None);
}

#[test]
fn a_clock_set_back_counts_from_then_on() {
    let mut app = prefetching();
    launches(&mut app, 100);
    assert_eq!(app.plan(1000, 0), Plan::Leave);
    assert_eq!(app.plan(1000 + RETRY_AFTER_S, 0), Plan::Learn);
}

#[test]
fn an_app_of_which_other_programs_keep_half_cached_is_judged_from_its_second_launch_on() {
    let mut app = prefetching();
    let mut launch_beside = |shares: [u64; 2]| {
        let figures = changed(|figures| {
            figures.counts.bytes = 0;
            figures.counts.prefetch_bytes = figures.schedule_bytes * shares[0] / shares[1];
            figures.usual_bytes = app.usual_bytes();
        });
        launch(&mut app, figures);
        app.typical_times().with_us.is_some()
    };
    assert!(!launch_beside([1, 2]), "it may be half warm");
    // Warm launches do not show what is usual.
    assert!(!launch_beside([1, 100]));
    assert!(launch_beside([1, 2]));
}

#[test]
fn the_percentages_go_by_measured_cold_launches_where_there_are_any() {
    let mut app = prefetching();
    let own = |requests| {
        changed(|figures| {
            figures.counts.requests = requests;
            figures.missed = Some(recurring(requests));
        })
    };
    let mut withheld = own(1000);
    withheld.report = None;
    assert_eq!(launch(&mut app, withheld), Decision::Keep);
    let late = changed(|figures| figures.switches = 50);
    assert_eq!(launch(&mut app, late), Decision::Keep, "in time");
    let ended = app.tuning().and_then(Tuning::ended);
    assert_eq!(ended, Some(TuningEnd::InTime));
    assert_eq!(launch(&mut app, own(100)), Decision::Keep);
    let relearn = Decision::Relearn(DecisionReason::Missed(recurring(101)));
    assert_eq!(launch(&mut app, own(101)), relearn);
    let reason = DecisionReason::Missed(recurring(101));
    assert_eq!(app.learned_again_for(), Some(reason));
    app.next(NOW, &learned(&history()));
    assert_eq!(app.learned_again_for(), None, "it is learned");
}

#[test]
fn cold_launches_that_were_learned_live_take_part_in_the_comparison() {
    let mut app = Managed::default();
    for _ in 0..3 {
        let observation = Observation::Learned {
            class: CLASS,
            history: &history(),
            cold: Some(ColdLaunch {
                took_us: Some(100),
                waiting_us: Some(100),
                requests: 100,
            }),
            pages: None,
            is_whole: true,
            most: 5,
        };
        app.next(NOW, &observation);
    }
    let facts = NoGainFacts {
        without_us: 100,
        waiting_us: Some(100),
        requests: Some(100),
        readahead_kib: None,
    };
    assert_eq!(app.no_gain_facts(), facts);
    let mut timed_anew = app.clone();
    timed_anew.timed_anew();
    assert_eq!(timed_anew.typical_times(), TypicalTimes::default());
    let (decision, count) = launches(&mut app, 0);
    assert!(matches!(
        decision,
        Decision::SwitchedOff(Off::NoGain { .. })
    ));
    assert_eq!(count, [3, 0]);
}

#[test]
fn an_app_switched_off_by_the_user_stays_off_until_the_user_switches_it_on() {
    let mut app = prefetching();
    let ask = |app: &mut Managed, byte| {
        let request = PhaseRequest::from_byte(byte).expect("a phase byte");
        app.next(NOW, &Observation::Asked(request))
    };
    assert_eq!(ask(&mut app, 9), Decision::SwitchedOff(Off::Asked));
    assert_eq!(app.plan(u64::MAX, 0), Plan::Leave);
    // Also if a launch was being learned meanwhile.
    app.next(NOW, &learned(&history()));
    app.next(NOW, &Observation::NotLearned);
    app.next(NOW, &Observation::NewExecutable);
    assert_eq!(app.plan(u64::MAX, 0), Plan::Leave);
    assert_eq!(ask(&mut app, 1), Decision::Keep);
    assert_eq!(app.plan(NOW, 0), Plan::Prefetch);
    assert_eq!(ask(&mut app, 3), Decision::Relearn(DecisionReason::Asked));
    assert_eq!(app.plan(NOW, 0), Plan::Learn);
    assert_eq!(PhaseRequest::from_byte(0), None);
    // Without a profile, prefetching begins with learning.
    let mut new = Managed::default();
    ask(&mut new, 9);
    assert_eq!(ask(&mut new, 1), Decision::Relearn(DecisionReason::Asked));
    assert_eq!(new.plan(NOW, 0), Plan::Learn);
}

#[test]
fn the_state_survives_being_written_and_read() {
    let mut app = prefetching();
    let late = changed(|figures| figures.switches = 6);
    launch(&mut app, late);
    launches(&mut app, 100);
    let written = serde_json::to_vec(&app).expect("plain data");
    let read: Managed = serde_json::from_slice(&written).expect("its own format");
    assert_eq!(read, app);
}

#[test]
fn a_launch_whose_waits_were_not_counted_tells_all_but_how_to_tune() {
    let uncounted = |change: fn(&mut LaunchFigures)| {
        changed(|figures| {
            figures.counts.waits_counted = false;
            change(figures);
        })
    };
    let lacking = uncounted(|figures| {
        figures.counts.requests = 50;
        figures.missed = Some(MissedRequests {
            recurring: 50,
            ..MissedRequests::default()
        });
    });
    let decision = launch(&mut prefetching(), lacking);
    assert!(matches!(
        decision,
        Decision::Relearn(DecisionReason::Missed(_))
    ));
    let mut app = prefetching();
    for figures in [
        uncounted(|figures| figures.switches = 100),
        uncounted(|figures| figures.report = None),
    ] {
        assert_eq!(launch(&mut app, figures), Decision::Keep);
    }
    assert!(app.typical_times().saved_us().is_some());
    assert_eq!(app.tuning(), prefetching().tuning());
}
