//! Properties of the phases, whatever happens in whatever order.

use proptest::prelude::*;

use super::*;
use crate::policy::WITHHELD_ONE_IN;

fn any_figures() -> impl Strategy<Value = LaunchFigures> {
    let number = || prop_oneof![0..120u64, Just(u64::MAX)];
    let time_ns = || number().prop_map(|us| us.saturating_mul(1000));
    let counts = (time_ns(), time_ns(), number(), number()).prop_map(
        |(last_ns, waiting_ns, bytes, requests)| LaunchCounts {
            last_ns,
            waiting_ns,
            bytes,
            requests,
            ..LaunchCounts::default()
        },
    );
    let report = (number(), 0..2u64, prop::bool::weighted(0.2)).prop_map(
        |(scheduled, stale_files, warm)| PrefetchReport {
            scheduled,
            stale_files,
            warm,
            ..PrefetchReport::default()
        },
    );
    let report = prop::option::weighted(0.8, report);
    (counts, number(), number(), report).prop_map(|(counts, schedule_bytes, switches, report)| {
        LaunchFigures {
            counts,
            exited_ns: None,
            schedule_bytes,
            report,
            switches,
        }
    })
}

/// What may happen to an app in one turn; 0 to 3 stand for launches.
fn event() -> impl Strategy<Value = (u8, LaunchFigures, u64)> {
    (
        0..12u8,
        any_figures(),
        prop_oneof![9 => 0..5u64, 1 => any::<u64>()],
    )
}

proptest! {
    /// Anything may happen in any order: what is withheld keeps to its share, an app the user switched
    /// off is left alone, and each decision agrees with the phase that it leads to.
    #[test]
    fn the_phases_keep_their_promises(
        events in prop::collection::vec((event(), any::<u64>()), 0..300),
    ) {
        let mut app = prefetching();
        let mut history = history();
        let (mut withheld, mut all) = (0u32, 0u32);
        for ((event, figures, now_s), random) in events {
            let decision = match event {
                0..4 => {
                    let before = app.phase();
                    let plan = app.plan(now_s, random);
                    match before {
                        Phase::Learning { .. } => prop_assert_eq!(plan, Plan::Learn),
                        Phase::Disabled { off: Off::Asked, .. } => {
                            prop_assert_eq!(plan, Plan::Leave);
                        }
                        Phase::Disabled { .. } => {
                            prop_assert!(matches!(plan, Plan::Leave | Plan::Learn));
                        }
                        Phase::Prefetching => {
                            prop_assert!(matches!(plan, Plan::Prefetch | Plan::Withhold));
                        }
                    }
                    let mut figures = figures;
                    match plan {
                        Plan::Withhold => figures.report = None,
                        Plan::Prefetch if figures.report.is_some() => {}
                        _ => continue,
                    }
                    let counts = match figures.report {
                        None => figures.warmth() != Warmth::Warm,
                        Some(_) => figures.is_prefetched() && figures.warmth() == Warmth::Cold,
                    };
                    withheld += u32::from(plan == Plan::Withhold && counts);
                    all += u32::from(counts);
                    prop_assert!(withheld * WITHHELD_ONE_IN <= all, "{withheld} of {all}");
                    app.next(now_s, &Observation::Launched { history: &history, figures: &figures })
                }
                4 => app.next(now_s, &Observation::NotLearned),
                5 => app.next(now_s, &Observation::NoEffect),
                6 => app.next(now_s, &Observation::NotRescheduled),
                7 => app.next(now_s, &Observation::Checked {
                    obsolete: figures.own_readaheads(),
                    entries: figures.read_bytes(),
                }),
                8 => app.next(now_s, &Observation::NewExecutable),
                9 => match PhaseRequest::from_byte((random % 10) as u8) {
                    // It starts the account of what is withheld anew, at nothing.
                    Some(request) => app.next(now_s, &Observation::Asked(request)),
                    None => continue,
                },
                _ => {
                    history.truncate(1);
                    app.next(now_s, &learned(&history))
                }
            };
            match decision {
                Decision::Keep => {}
                Decision::Reschedule(params) => {
                    prop_assert_eq!(app.phase(), Phase::Prefetching);
                    prop_assert!((64..=256).contains(&(params.shift_bytes >> 10)));
                    history.push(Revision { time: now_s, params });
                }
                Decision::Refresh => prop_assert_eq!(app.phase(), Phase::Prefetching),
                Decision::Relearn(_) => {
                    prop_assert_eq!(app.phase(), Phase::Learning { attempts: 0 });
                }
                Decision::SwitchedOff(off) => {
                    prop_assert_eq!(app.phase(), Phase::Disabled { off, since_s: now_s });
                }
            }
        }
    }
}
