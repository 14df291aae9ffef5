//! Several apps launched at once (FAST Figure 8).

use anyhow::Result;

use super::launcher::Request;
use super::progress::Progress;
use super::turns::{launches, missing};
use super::work::{Work, launch_line};
use crate::record::Record;
use crate::scenarios::{Scenario, TOGETHER};

impl Work {
    /// Several apps at once, each with what was learned of it before.
    pub(super) fn together(&mut self, records: &[Record]) -> Result<()> {
        let name = self.job.name();
        let done = launches(records, &self.job.device, &name);
        let tasks = missing(&done, |_| TOGETHER.to_vec(), self.job.runs);
        let apps = self.job.apps.clone();
        if !tasks.is_empty() {
            apps.iter().try_for_each(|app| self.settle(app))?;
        }
        let shelves = apps
            .iter()
            .map(|app| {
                let asked = TOGETHER.map(|together| match together.method() {
                    Some(method) => Scenario::Prefetched(method),
                    None => Scenario::Cold,
                });
                self.learn_all(app, &asked)
            })
            .collect::<Result<Vec<_>>>()?;
        let commands: Vec<String> = apps.iter().map(|app| quoted(&app.command)).collect();
        let script = format!("{} & wait", commands.join(" & "));
        let command = self
            .launcher
            .find(&["/bin/sh".into(), "-c".into(), script])?;
        let mut progress = Progress::new(tasks.len());
        for task in tasks {
            let method = task.scenario.method();
            let plans = match method {
                Some(method) => shelves
                    .iter()
                    .map(|store| self.plan(method, task.scenario, store, None))
                    .collect::<Result<Vec<_>>>()?,
                None => vec![],
            };
            let bus = self.start_bus()?;
            self.launcher.empty_caches()?;
            let windows = apps
                .iter()
                .filter_map(|app| app.window.as_ref())
                .map(|rule| self.display.watch(rule))
                .collect::<Result<Vec<_>>>()?;
            let mut record = self.begin(&name, task.scenario);
            record.turn = task.turn;
            let emulator = self.emulator_cpu()?;
            let seen = self.launcher.launch(Request {
                windows,
                plans: &plans.iter().collect::<Vec<_>>(),
                bus,
                ..Request::of(&command)
            })?;
            self.complete(&mut record, &seen, emulator)?;
            self.journal.add(&Record::Launch(record.clone()))?;
            progress.step(&launch_line(&record));
        }
        Ok(())
    }
}

/// A command as a shell reads it.
fn quoted(command: &[String]) -> String {
    let words: Vec<String> = command
        .iter()
        .map(|word| format!("'{}'", word.replace('\'', r"'\''")))
        .collect();
    words.join(" ")
}
