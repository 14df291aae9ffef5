//! What the benchmarks do, each in its own file, with the paper's numbers and sizes.

mod calls;
mod database;
mod micro;
mod package;
mod photos;

use std::path::Path;

use anyhow::Result;

use super::benchmark::Benchmark;
use super::latencies::Stopwatch;

/// Name of a whole iteration among the operations.
const ALL: &str = "all";

/// A benchmark that is ready to run.
pub(super) trait Prepared {
    /// Runs it, until everything is done or the stopwatch is over.
    fn run(&mut self, watch: &mut Stopwatch) -> Result<()>;
}

/// Makes what a benchmark needs in `directory`, which is its own and on the drive.
///
/// # Errors
/// When a file cannot be written, or a tool is missing.
pub(super) fn prepare(benchmark: Benchmark, directory: &Path) -> Result<Box<dyn Prepared>> {
    Ok(match benchmark {
        Benchmark::M1 => Box::new(micro::Synced::m1(directory)),
        Benchmark::M2 => Box::new(micro::Synced::m2(directory)),
        Benchmark::M3 => Box::new(micro::Appended::new(directory)),
        Benchmark::M4 => Box::new(micro::Truncated::new(directory)?),
        Benchmark::M5 => Box::new(micro::Synced::m5(directory)),
        Benchmark::Photos => Box::new(photos::Burst::new(directory)?),
        Benchmark::Dpkg => Box::new(package::Installed::new(directory)?),
        Benchmark::Sqlite => Box::new(database::Script::new(directory)?),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Without time for more, each of them begins, does one iteration or part of it, and says that it was cut.
    #[test]
    fn each_benchmark_ends_at_its_limit() {
        for benchmark in Benchmark::ALL {
            if benchmark == Benchmark::Dpkg && !Path::new("/usr/bin/dpkg-deb").exists() {
                eprintln!("SKIPPED: {benchmark} needs dpkg-deb");
                continue;
            }
            let place = tempfile::tempdir().unwrap();
            let mut prepared = prepare(benchmark, place.path()).unwrap();
            let mut watch = Stopwatch::new(Duration::ZERO);
            prepared.run(&mut watch).unwrap();
            let operations = watch.operations();
            assert!(!operations.is_empty(), "{benchmark}");
            // A single operation leaves nothing undone.
            assert_eq!(watch.was_cut(), benchmark != Benchmark::M5, "{benchmark}");
        }
    }
}
