//! Properties of the phases, whatever happens in whatever order.

use proptest::prelude::*;

use super::*;
use crate::policy::WITHHELD_ONE_IN;

fn any_figures() -> impl Strategy<Value = LaunchFigures> {
    let number = || prop_oneof![0..120u64, Just(u64::MAX)];
    let of_prefetch = (number(), number(), 0..2u64, prop::bool::weighted(0.8)).prop_map(
        |(entries, switches, stale_files, done)| PrefetchFigures {
            entries,
            switches,
            stale_files,
            done,
        },
    );
    let of_launch = (number(), number(), number(), number(), number());
    (of_launch, prop::option::weighted(0.8, of_prefetch)).prop_map(
        |((duration_us, waiting_us, read_bytes, schedule_bytes, own_readaheads), prefetched)| {
            LaunchFigures {
                duration_us,
                waiting_us,
                read_bytes,
                schedule_bytes,
                own_readaheads,
                prefetched,
            }
        },
    )
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
                        Plan::Withhold => figures.prefetched = None,
                        Plan::Prefetch if figures.prefetched.is_some() => {}
                        _ => continue,
                    }
                    let done = figures.prefetched.is_none_or(|prefetched| prefetched.done);
                    let counts = match figures.prefetched {
                        None => figures.warmth() != Warmth::Warm,
                        Some(_) => done && figures.warmth() == Warmth::Cold,
                    };
                    withheld += u32::from(plan == Plan::Withhold && counts);
                    all += u32::from(counts);
                    prop_assert!(withheld * WITHHELD_ONE_IN <= all, "{withheld} of {all}");
                    app.next(now_s, &Observation::Launched { history: &history, figures })
                }
                4 => app.next(now_s, &Observation::NotLearned),
                5 => app.next(now_s, &Observation::NoEffect),
                6 => app.next(now_s, &Observation::NotRescheduled),
                7 => app.next(now_s, &Observation::Checked {
                    obsolete: figures.own_readaheads,
                    entries: figures.read_bytes,
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
