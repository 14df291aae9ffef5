//! What a launch costs the processors: time and context switches of the launch tree, and of the threads that
//! prefetch for it.

use std::io;

use anyhow::{Context, Result};

use super::perf::{Count, Started, is_refused};
use crate::processes::CpuTime;
use crate::record::Effort;

/// Counts one launch, from before its prefetchers are started. Prefetchers are threads of this process: the
/// calling thread starts them before the app and none after it, so that what it starts first and what it
/// starts later can be told apart. Helpers of a session bus, which others start, are not counted.
#[derive(Debug)]
pub struct EffortMeter {
    everything: Counters,
    app: Option<Counters>,
}

/// Processor time and context switches of the tasks that a thread starts.
#[derive(Debug)]
struct Counters {
    time: Started,
    switches: Started,
}

impl Counters {
    fn begin() -> io::Result<Counters> {
        Ok(Counters {
            time: Started::count(Count::ProcessorTime)?,
            switches: Started::count(Count::Switches)?,
        })
    }

    /// Nanoseconds and context switches.
    fn so_far(&self) -> io::Result<(u64, u64)> {
        Ok((self.time.so_far()?, self.switches.so_far()?))
    }
}

impl EffortMeter {
    /// Begins to count what the calling thread starts; `None` where the kernel cannot count or does not allow it.
    ///
    /// # Errors
    /// When the system has no more counters.
    pub fn begin() -> Result<Option<EffortMeter>> {
        match Counters::begin() {
            Ok(everything) => Ok(Some(EffortMeter {
                everything,
                app: None,
            })),
            Err(error) if is_refused(&error) => Ok(None),
            Err(error) => Err(error).context("cannot count context switches"),
        }
    }

    /// Everything that prefetches was started: the app is next.
    ///
    /// # Errors
    /// When the system has no more counters.
    pub fn app_starts(&mut self) -> Result<()> {
        self.app = Some(Counters::begin().context("cannot count context switches")?);
        Ok(())
    }

    /// What was counted until now; `cpu` is the time of the launch tree as /proc tells it.
    ///
    /// # Errors
    /// When a counter cannot be read.
    pub fn so_far(&self, cpu: CpuTime) -> Result<Effort> {
        let read = |counters: &Counters| counters.so_far().context("cannot read a counter");
        // The whole first: the app runs on, and what it does in between would otherwise count as a prefetcher's, even where
        // there is none.
        let (ns, switches) = read(&self.everything)?;
        let (app_ns, app_switches) = self.app.as_ref().map(read).transpose()?.unwrap_or_default();
        Ok(Effort {
            user: cpu.user,
            system: cpu.system,
            app: app_ns as f64 / 1e9,
            switches: app_switches,
            prefetch: ns.saturating_sub(app_ns) as f64 / 1e9,
            prefetch_switches: switches.saturating_sub(app_switches),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// Context switches of the calling thread.
    fn own_switches() -> u64 {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let lines = status.lines();
        let counts = lines.filter_map(|line| line.split_once("_ctxt_switches:"));
        counts
            .map(|(_, count)| count.trim().parse::<u64>().unwrap())
            .sum()
    }

    #[test]
    fn prefetchers_are_what_is_started_before_the_app() {
        let Some(mut meter) = EffortMeter::begin().unwrap() else {
            eprintln!("SKIPPED: only root may count context switches, and not every kernel can");
            return;
        };
        // Now and then a nap is over before the processor is given away, so the thread tells how often that happened.
        let prefetcher = thread::spawn(|| {
            (0..60).for_each(|_| thread::sleep(Duration::from_micros(100)));
            own_switches()
        });
        let least = prefetcher.join().unwrap();
        meter.app_starts().unwrap();
        let app = Command::new("/bin/sleep").arg("0.01").status();
        assert!(app.unwrap().success());
        let cpu = CpuTime {
            user: 1.0,
            system: 2.0,
        };
        let effort = meter.so_far(cpu).unwrap();
        assert_eq!((effort.user, effort.system), (1.0, 2.0));
        assert!(effort.prefetch_switches >= least, "{least}: {effort:?}");
        assert!((1..least).contains(&effort.switches), "{least}: {effort:?}");
        assert!(effort.app > 0.0 && effort.prefetch > 0.0, "{effort:?}");
    }
}
