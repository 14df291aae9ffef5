//! What is measured: the paper's microbenchmarks and scenarios, by name.

use std::fmt;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

use super::writer::Kind;

/// A benchmark of single operations (QASIO §3 and §6). What each does, with its sizes, is in [`super::work`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Benchmark {
    /// 500 times: create a file anew, write 4 KiB, fsync, close.
    M1,
    /// As `M1`, with 1 MiB, 200 times.
    M2,
    /// Create a file, and write 1 KiB until it has 300 MiB.
    M3,
    /// 500 times: truncate a file of 2 MiB to nothing, write 2 MiB, close.
    M4,
    /// Create a file, write 4 KiB, fsync, close, while another task truncates a large file and writes
    /// it anew.
    M5,
    /// A burst of photos, their thumbnails, and a database of them (scenario B).
    Photos,
    /// Installing a package with dpkg (scenario C).
    Dpkg,
    /// A fixed script of transactions, with a write-ahead log and with a rollback journal.
    Sqlite,
}

impl Benchmark {
    /// All, in the order of tables.
    pub const ALL: [Benchmark; 8] = [
        Benchmark::M1,
        Benchmark::M2,
        Benchmark::M3,
        Benchmark::M4,
        Benchmark::M5,
        Benchmark::Photos,
        Benchmark::Dpkg,
        Benchmark::Sqlite,
    ];

    /// Name of the benchmark on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            Benchmark::M1 => "m1",
            Benchmark::M2 => "m2",
            Benchmark::M3 => "m3",
            Benchmark::M4 => "m4",
            Benchmark::M5 => "m5",
            Benchmark::Photos => "photos",
            Benchmark::Dpkg => "dpkg",
            Benchmark::Sqlite => "sqlite",
        }
    }

    /// In a line.
    pub fn title(self) -> &'static str {
        match self {
            Benchmark::M1 => "create, write 4 KiB, fsync, close, 500 times",
            Benchmark::M2 => "create, write 1 MiB, fsync, close, 200 times",
            Benchmark::M3 => "create, write 1 KiB until the file has 300 MiB",
            Benchmark::M4 => "truncate a file of 2 MiB, write it again, close, 500 times",
            Benchmark::M5 => {
                "create, write 4 KiB, fsync, close while a large file is truncated and written anew"
            }
            Benchmark::Photos => "a burst of 30 photos with thumbnails and a database (scenario B)",
            Benchmark::Dpkg => "installing a package with dpkg, 5 times (scenario C)",
            Benchmark::Sqlite => {
                "100 transactions with a write-ahead log, 100 with a rollback journal"
            }
        }
    }

    /// The writer beside it: that which was asked for, except in [`Benchmark::M5`], which has one of its
    /// own.
    pub fn writer(self, asked: Kind) -> Kind {
        match self {
            Benchmark::M5 => Kind::Truncate,
            _ => asked,
        }
    }

    /// Reads a list such as `m1,dpkg`; `all` are all of them.
    ///
    /// # Errors
    /// Names the word that is no benchmark.
    pub fn parse_list(list: &str) -> Result<Vec<Benchmark>> {
        parse_list(list, "benchmark", &Self::ALL, Self::name)
    }
}

impl fmt::Display for Benchmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Reads a list of names, each once, in the order of the list; `all` stands for all.
pub(super) fn parse_list<T: Copy + PartialEq>(
    list: &str,
    what: &str,
    all: &[T],
    name: fn(T) -> &'static str,
) -> Result<Vec<T>> {
    let mut found: Vec<T> = Vec::new();
    for word in list.split(',') {
        let named: Vec<T> = match word {
            "all" => all.to_vec(),
            _ => all
                .iter()
                .copied()
                .filter(|one| name(*one) == word)
                .collect(),
        };
        if named.is_empty() {
            let names: Vec<&str> = all.iter().map(|one| name(*one)).collect();
            bail!(
                "there is no {what} '{word}'; there are {} and all",
                names.join(", ")
            );
        }
        for one in named {
            if !found.contains(&one) {
                found.push(one);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_name_benchmarks_once() {
        let list = |names| Benchmark::parse_list(names).unwrap();
        assert_eq!(
            list("dpkg,m1,dpkg"),
            [Benchmark::Dpkg, Benchmark::M1],
            "in the order asked for"
        );
        assert_eq!(list("all"), Benchmark::ALL);
        assert_eq!(list("sqlite,all").len(), Benchmark::ALL.len());
        let error = Benchmark::parse_list("m1,m6").unwrap_err().to_string();
        assert!(
            error.contains("'m6'") && error.contains("photos"),
            "{error}"
        );
        assert!(Benchmark::parse_list("").is_err());
    }

    #[test]
    fn records_name_them_as_the_command_line_does() {
        for benchmark in Benchmark::ALL {
            let json = serde_json::to_string(&benchmark).unwrap();
            assert_eq!(json, format!("\"{benchmark}\""));
            assert_eq!(
                Benchmark::parse_list(benchmark.name()).unwrap(),
                [benchmark]
            );
        }
    }

    #[test]
    fn only_m5_has_a_writer_of_its_own() {
        for benchmark in Benchmark::ALL {
            let own = benchmark.writer(Kind::Create) != Kind::Create;
            assert_eq!(own, benchmark == Benchmark::M5);
        }
    }
}
