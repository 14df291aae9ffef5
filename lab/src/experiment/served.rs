//! Launches one after the other with the service on, started as if there were none.

use std::os::unix::fs::MetadataExt;

use anyhow::{Result, bail};
use paralfetch::apps::{Rules, identify_command};
use paralfetch::model::Params;
use paralfetch::model::Profile;
use paralfetch::policy::TunedParameter;
use paralfetch::process::Command;
use paralfetch::service::main_class;

use super::launcher::Request;
use super::progress::Progress;
use super::service::Service;
use super::service_state::State;
use super::turns::Task;
use super::work::{PreparedApp, Work, launch_line};
use crate::apps::App;
use crate::record::{Launch, Parameter, Record, Served};
use crate::scenarios::{SERVICE, Scenario};

/// Name of the scenario of one of a round's launches, from 1.
fn name(number: u32) -> String {
    format!("{SERVICE}-{number}")
}

/// Whether this turn's round is there. Its launches build on one another, so that none is repeated by
/// itself; they are written down together, the last one last.
pub fn is_done(done: &[&Launch], task: &Task<Scenario>, launches: u32) -> bool {
    let last = name(launches);
    done.iter()
        .any(|launch| launch.turn == task.turn && launch.scenario == last)
}

/// The parameter that dynamic scheduling raises, as a profile has it.
pub(super) fn parameter_of(profile: &Profile) -> Option<Parameter> {
    let params = profile.history.last()?.params;
    parameter(TunedParameter::of(main_class(profile), &params)?, &params)
}

/// The parameter `free` with its value in `params`.
pub(super) fn parameter(free: TunedParameter, params: &Params) -> Option<Parameter> {
    let (name, value) = match free {
        TunedParameter::Shift => ("shift KiB", params.shift_bytes >> 10),
        TunedParameter::Distance => ("distance", params.merge_distance),
        TunedParameter::Hole => ("hole pages", params.infill?.hole_pages),
    };
    Some(Parameter {
        name: name.to_owned(),
        value,
    })
}

impl Work {
    /// A round: a new service that knows nothing of the app, and launches of that, cold and one after the
    /// other. One that fails begins anew.
    pub(super) fn serve(
        &mut self,
        prepared: PreparedApp<'_>,
        turn: u32,
        progress: &mut Progress,
    ) -> Result<()> {
        let what = format!("{} {SERVICE}", prepared.app.name);
        let round = self.again(&what, |work| work.round(prepared.app, turn))?;
        if let Some(last) = round.last() {
            progress.step(&launch_line(last));
        }
        for launch in round {
            self.journal.add(&Record::Launch(launch))?;
        }
        Ok(())
    }

    fn round(&mut self, app: &App, turn: u32) -> Result<Vec<Launch>> {
        let program = identify_command(&Rules::builtin(), &self.program(app)?, app.uid).app;
        let state = State::new()?;
        state.enable(&program)?;
        let mut service = self.start_service(state, &program)?;
        let mut round = Vec::new();
        for number in 1..=self.job.launches {
            let mut launch = self.plainly(app, &mut service)?;
            launch.scenario = name(number);
            launch.turn = turn;
            round.push(launch);
        }
        service.stop()?;
        Ok(round)
    }

    /// The program that is the app, as a user would enable it.
    pub(super) fn program(&self, app: &App) -> Result<Command> {
        match &app.program {
            Some(program) => self.launcher.find(std::slice::from_ref(program)),
            None => self.launcher.find(&app.command[..1]),
        }
    }

    /// Starts the service, outside of the image.
    pub(super) fn start_service(
        &mut self,
        state: State,
        app: &paralfetch::model::App,
    ) -> Result<Service> {
        let dev = std::fs::metadata(&self.job.root)?.dev();
        if let Some(costs) = self.job.costs {
            state.keep_costs(dev, costs)?;
        }
        let service = Service::start(state, app, (dev, self.job.class))?;
        // It does not end with the launches.
        self.launcher.subreaper.spare(service.pid())?;
        Ok(service)
    }

    /// Launches the app as the scenario `cold` does, with the service on. The window ends the launch, and
    /// not the completion block, which is read ahead like everything else; then the app runs on until the
    /// service, too, finds that its launch is over.
    pub(super) fn plainly(&mut self, app: &App, service: &mut Service) -> Result<Launch> {
        service.until_ready()?;
        let tuning = service.profile()?.as_ref().and_then(parameter_of);
        let command = self.launcher.find(&app.command)?;
        let bus = self.start_bus()?;
        self.launcher.empty_caches()?;
        let windows = self.watch_window(app)?.into_iter().collect();
        let mut launch = self.begin(&app.name, Scenario::Service);
        let emulator = self.emulator_cpu()?;
        let seen = self.launcher.launch(Request {
            windows,
            bus,
            service: Some(service),
            ..Request::of(&command)
        })?;
        self.complete(&mut launch, &seen, emulator)?;
        let written = service.last()?;
        if seen.window.is_none() && app.window.is_some() {
            bail!("no window was seen");
        }
        launch.served = Some(Served {
            kind: written.kind.to_string(),
            tuning,
            entries: written.entries,
            switches: written.switches,
            until_first_us: written.until_first_us,
            note: written.note.unwrap_or_default(),
        });
        Ok(launch)
    }
}

#[cfg(test)]
mod tests {
    use paralfetch::model::DriveClass;

    use super::*;

    #[test]
    fn a_round_is_there_with_its_last_launch() {
        let launch = |turn, number| Launch {
            turn,
            scenario: name(number),
            ..Launch::default()
        };
        let task = |turn| Task {
            turn,
            scenario: Scenario::Service,
        };
        let done = [launch(0, 1), launch(0, 2), launch(1, 1)];
        let done: Vec<&Launch> = done.iter().collect();
        let first = task(0);
        assert!(is_done(&done, &first, 2));
        assert!(!is_done(&done, &first, 3), "more launches are asked for");
        assert!(!is_done(&done, &task(1), 2));
    }

    #[test]
    fn the_free_parameter_is_told() {
        let of = |class, exact| {
            let params = Params::for_device(class, exact);
            TunedParameter::of(class, &params)
                .and_then(|free| parameter(free, &params))
                .map(|parameter| parameter.to_string())
        };
        assert_eq!(
            of(DriveClass::CommandQueuing, true).unwrap(),
            "shift 64 KiB"
        );
        assert_eq!(
            of(DriveClass::NoCommandQueuing, false).unwrap(),
            "distance 8"
        );
        assert_eq!(
            of(DriveClass::NoCommandQueuing, true).unwrap(),
            "hole 7 pages"
        );
        assert_eq!(of(DriveClass::Rotational, true), None);
    }
}
