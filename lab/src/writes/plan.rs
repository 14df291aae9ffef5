//! The runs that are still to be made, in order: quiet and written in turns, every measure in each turn.

use super::benchmark::Benchmark;
use super::measures::Measure;
use super::writer::Kind;
use crate::record::Written;

/// One run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Number of the turn, from 0.
    pub turn: u32,
    /// What is measured.
    pub benchmark: Benchmark,
    /// What writes meanwhile; `None`: the drive is quiet.
    pub writer: Option<Kind>,
    /// What is done against waits.
    pub measure: Measure,
}

/// Everything that was asked for: in each turn each benchmark, quiet first, then with the writer and each of
/// the measures.
pub fn tasks(benchmarks: &[Benchmark], writer: Kind, measures: &[Measure], runs: u32) -> Vec<Task> {
    let mut all = Vec::new();
    for turn in 0..runs {
        for &benchmark in benchmarks {
            all.push(Task {
                turn,
                benchmark,
                writer: None,
                measure: Measure::None,
            });
            all.extend(measures.iter().map(|&measure| Task {
                turn,
                benchmark,
                writer: Some(benchmark.writer(writer)),
                measure,
            }));
        }
    }
    all
}

/// Leaves those that `done`, the records of this drive and scheduler, lack.
pub fn missing(tasks: Vec<Task>, done: &[&Written]) -> Vec<Task> {
    let is_there = |task: &Task| done.iter().any(|written| task.is(written));
    tasks.into_iter().filter(|task| !is_there(task)).collect()
}

impl Task {
    fn is(&self, written: &Written) -> bool {
        written.turn == self.turn
            && written.benchmark == self.benchmark.name()
            && written.writer.as_deref() == self.writer.map(Kind::name)
            && written.measure == self.measure.name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(task: &Task) -> Written {
        Written {
            turn: task.turn,
            benchmark: task.benchmark.name().to_owned(),
            writer: task.writer.map(|kind| kind.name().to_owned()),
            measure: task.measure.name().to_owned(),
            ..Written::default()
        }
    }

    #[test]
    fn quiet_and_written_take_turns() {
        let measures = [Measure::None, Measure::Requests];
        let all = tasks(&[Benchmark::M1], Kind::Create, &measures, 2);
        let writers: Vec<bool> = all.iter().map(|task| task.writer.is_some()).collect();
        assert_eq!(writers, [false, true, true, false, true, true]);
        assert_eq!(all[2].measure, Measure::Requests);
        assert_eq!((all[0].turn, all[3].turn), (0, 1));
    }

    #[test]
    fn m5_has_its_own_writer() {
        let all = tasks(&[Benchmark::M5], Kind::Fsyncs, &[Measure::None], 1);
        assert_eq!(all[1].writer, Some(Kind::Truncate));
    }

    #[test]
    fn what_is_there_is_not_measured_again() {
        let all = tasks(&Benchmark::ALL, Kind::Create, &Measure::ALL, 2);
        // Quiet, and with each measure.
        assert_eq!(all.len(), 2 * 8 * (1 + Measure::ALL.len()));
        let done: Vec<Written> = all.iter().skip(3).map(record).collect();
        let done: Vec<&Written> = done.iter().collect();
        assert_eq!(missing(all.clone(), &done), all[..3]);
        assert_eq!(missing(all.clone(), &[]), all);
    }
}
