//! Properties of the phases, whatever happens in whatever order.

use proptest::prelude::*;

use super::*;

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..120u64, Just(u64::MAX)]
}

prop_compose! {
    fn any_figures()(
        [took_us, waiting_us] in [number(), number()],
        [bytes, requests, schedule_bytes, switches, scheduled] in prop::array::uniform5(number()),
        [cold_requests, usual_bytes] in [number(), number()],
        missed in prop::option::of(prop::array::uniform5(number())),
        prefetched in prop::bool::weighted(0.8),
        stale_files in 0..2u64,
        [warm, uncounted] in prop::array::uniform2(prop::bool::weighted(0.2)),
    ) -> LaunchFigures {
        let missed = missed.map(|[recurring, other_drive, once, written, unreadable]| MissedRequests {
            recurring,
            other_drive,
            once,
            written,
            unreadable,
        });
        let report = PrefetchReport { scheduled, stale_files, warm, ..PrefetchReport::default() };
        LaunchFigures {
            counts: LaunchCounts {
                waits_counted: !uncounted,
                waiting_ns: waiting_us.saturating_mul(1000),
                bytes,
                requests,
                ..LaunchCounts::default()
            },
            exited_ns: Some(took_us.saturating_mul(1000)),
            learned_completion: None,
            schedule_bytes,
            usual_bytes,
            cold_requests,
            missed,
            report: prefetched.then_some(report),
            read_before: 0,
            switches,
        }
    }
}

/// What may happen to an app: which (0 to 3 stand for launches), figures, time and random number.
type Turn = (u8, LaunchFigures, u64, u64);

fn turn() -> impl Strategy<Value = Turn> {
    let now_s = prop_oneof![9 => 0..5u64, 1 => any::<u64>()];
    (0..12u8, any_figures(), now_s, any::<u64>())
}

/// An app that anything happens to, with the account of what was withheld from it.
struct ObservedApp {
    app: Managed,
    history: Vec<Revision>,
    withheld: u32,
    all: u32,
}

impl ObservedApp {
    /// Lets it happen. `None` for a launch of which nothing is reported.
    fn turn(&mut self, turn: Turn) -> Result<Option<Decision>, TestCaseError> {
        let (event, mut figures, now_s, random) = turn;
        let observation = match event {
            0..4 => {
                let plan = self.plan(now_s, random)?;
                match plan {
                    Plan::Withhold => figures.report = None,
                    Plan::Prefetch if figures.report.is_some() => {}
                    _ => return Ok(None),
                }
                let counts = match figures.report {
                    None => figures.warmth() != Warmth::Warm,
                    Some(_) => figures.is_prefetched() && figures.warmth() == Warmth::Cold,
                };
                self.withheld += u32::from(plan == Plan::Withhold && counts);
                self.all += u32::from(counts);
                Observation::Launched {
                    history: &self.history,
                    figures: &figures,
                    rules: TuningRules::default(),
                }
            }
            4 => Observation::NotLearned,
            5 => Observation::NoEffect(TuningRules::default()),
            6 => Observation::NotRescheduled,
            7 => Observation::Checked {
                obsolete: figures.own_readaheads(),
                entries: figures.read_bytes(),
            },
            8 => Observation::NewExecutable,
            9 => match PhaseRequest::from_byte((random % 10) as u8) {
                Some(request) => Observation::Asked(request),
                None => return Ok(None),
            },
            _ => {
                self.history.truncate(1);
                learned(&self.history)
            }
        };
        Ok(Some(self.app.next(now_s, &observation)))
    }

    /// What the app's phase lets be done with a launch.
    fn plan(&mut self, now_s: u64, random: u64) -> Result<Plan, TestCaseError> {
        let before = self.app.phase();
        let plan = self.app.plan(now_s, random);
        let allowed: &[Plan] = match before {
            Phase::Learning { .. } => &[Plan::Learn],
            Phase::Disabled {
                off: Off::Asked, ..
            } => &[Plan::Leave],
            Phase::Disabled { .. } => &[Plan::Leave, Plan::Learn],
            Phase::Prefetching => &[Plan::Prefetch, Plan::Withhold],
        };
        prop_assert!(allowed.contains(&plan), "{plan:?} in {before:?}");
        Ok(plan)
    }
}

proptest! {
    /// Anything may happen in any order: what is withheld keeps to its share, an app that the user switched
    /// off is left alone, and each decision agrees with the phase that it leads to.
    #[test]
    fn the_phases_keep_their_promises(turns in prop::collection::vec(turn(), 0..300)) {
        let history = history();
        let mut observed = ObservedApp { app: prefetching(), history, withheld: 0, all: 0 };
        for turn in turns {
            let now_s = turn.2;
            let Some(decision) = observed.turn(turn)? else { continue };
            let ObservedApp { app, history, withheld, all } = &mut observed;
            // Of an app that seems no faster, every other launch.
            prop_assert!(*withheld * 2 <= *all, "{withheld} of {all}");
            let phase = match decision {
                Decision::Keep => continue,
                Decision::Reschedule(params) => {
                    prop_assert!((64..=256).contains(&(params.shift_bytes >> 10)));
                    history.push(Revision { time: now_s, params });
                    Phase::Prefetching
                }
                Decision::Refresh => Phase::Prefetching,
                Decision::Relearn(_) => Phase::Learning { attempts: 0 },
                Decision::SwitchedOff(off) => Phase::Disabled { off, since_s: now_s },
            };
            prop_assert_eq!(app.phase(), phase);
        }
    }
}
