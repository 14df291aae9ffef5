//! Debian's kernels in virtual machines (`scripts/vm.sh`): before and after the tracepoints for uses of cached pages, and
//! with all that the host's may lack: programs on functions, file systems as modules.
//!
//! This program is its own harness, since the same file runs on both sides: in the machine, where it
//! is called `guest`, it launches an app and prints figures; on the host it judges them.

mod compare;
mod facts;
mod guest;
mod service;
mod waits;

use std::process::ExitCode;
use std::time::Instant;

use common::machine::{self, Init};
use facts::{Facts, MARK};

/// A system whose kernel is booted, and the test that does.
struct Kernel {
    test: &'static str,
    /// As `scripts/vm.sh` knows it.
    system: &'static str,
    /// What its release begins with.
    release: &'static str,
    /// By what means uses of cached pages are seen on it.
    means: &'static str,
    /// What the wait detector cannot tell on it.
    missing: &'static [&'static str],
}

/// Before and after the tracepoints for uses of cached pages.
const KERNELS: [Kernel; 2] = [
    Kernel {
        test: "debian_12s_kernel_is_learned_from",
        system: "debian12",
        release: "6.1.",
        means: "fentry",
        missing: &["for which file a journal handle is wanted: only the file system"],
    },
    Kernel {
        test: "debian_13s_kernel_is_learned_from",
        system: "debian13",
        release: "6.12.",
        means: "tracepoint",
        missing: &[],
    },
];

fn main() -> ExitCode {
    if machine::is_guest() {
        guest::main();
        return ExitCode::SUCCESS;
    }
    machine::run_tests(&KERNELS, |kernel| (kernel.test, kernel.system), holds)
}

/// Boots the machine and says what came of it; whether all was as it should be.
fn holds(kernel: &Kernel) -> bool {
    let started = Instant::now();
    let wrong = match boot(kernel) {
        Ok(facts) => {
            println!("Linux {}", facts.doctor["kernel"].as_str().unwrap_or("?"));
            tell(&facts);
            let wrong = judge(&facts, kernel);
            if !wrong.is_empty() {
                eprintln!("{facts:#?}");
            }
            wrong
        }
        Err(error) => vec![error],
    };
    for line in &wrong {
        eprintln!("wrong: {line}");
    }
    let verdict = if wrong.is_empty() { "ok" } else { "FAILED" };
    println!(
        "test {} ... {verdict} ({:.0} s)",
        kernel.test,
        started.elapsed().as_secs_f64()
    );
    wrong.is_empty()
}

/// Prints the figures that matter most.
fn tell(facts: &Facts) {
    for (how, kind, recall) in [
        ("while held", "files", &facts.files),
        ("while held", "data file", &facts.data),
        ("while held", "metadata", &facts.metadata),
        ("live", "files", &facts.live_files),
        ("live", "metadata", &facts.live_metadata),
        ("by the service", "files", &facts.served_files),
        ("by the service", "metadata", &facts.served_metadata),
    ] {
        println!(
            "{kind}: {} pages learned on an idle system ({} of them read), {} of them {how} \
             ({} without the hooks), {:.1} %; {} more {how}, {:.1} %",
            recall.wanted,
            recall.read,
            recall.found,
            recall.added,
            100.0 * recall.found_share(),
            recall.excess,
            100.0 * recall.excess_share(),
        );
    }
    println!(
        "page faults of a warm launch: {} with windows of {} bytes, {} with pages",
        facts.knob.faults_wide, facts.knob.before, facts.knob.faults_narrow
    );
    println!(
        "the app's own read requests: {} cold, {} prefetched",
        facts.bench["results"][0]["read_requests"], facts.bench["results"][1]["read_requests"]
    );
    println!(
        "all read requests: {} cold, {} after the prefetch",
        facts.cold_reads, facts.reads_after_prefetch
    );
}

/// What the guest found with this kernel, or all that it and the machine said instead.
fn boot(kernel: &Kernel) -> Result<Facts, String> {
    let text = machine::boot(kernel.system, Init::Guest, &[])?;
    let facts = text
        .lines()
        .find_map(|line| line.strip_prefix(MARK))
        .ok_or_else(|| format!("the guest did not print what it found:\n{text}"))?;
    for line in text.lines().filter(|line| !line.starts_with(MARK)) {
        println!("{line}");
    }
    serde_json::from_str(facts.trim())
        .map_err(|error| format!("the guest printed what is not understood: {error}\n{facts}"))
}

/// What is not as it should be on this kernel.
fn judge(facts: &Facts, kernel: &Kernel) -> Vec<String> {
    let (expected_release, means) = (kernel.release, kernel.means);
    let mut wrong = Vec::new();
    let mut check = |holds: bool, what: &str| {
        if !holds {
            wrong.push(what.to_owned());
        }
    };
    let release = facts.doctor["kernel"].as_str().unwrap_or_default();
    check(
        release.starts_with(expected_release),
        &format!("the kernel is {expected_release}*, not '{release}'"),
    );
    check(facts.doctor_status == Some(0), "doctor is content");
    for place in [&facts.doctor["hooks"], &facts.hooks] {
        check(
            place["reads"] == means,
            &format!("reads are seen by {means}"),
        );
        check(
            place["faults"] == means,
            &format!("page faults are seen by {means}"),
        );
    }
    check(
        facts
            .learn_report
            .contains(&format!("reads {means}, page faults {means}")),
        "learn says by what means it saw cached pages",
    );

    // The app itself, Python and its libraries are a few thousand pages; the data file, 342.
    check(facts.idle.files > 1500, "an idle system's set is complete");
    check(
        facts.idle.unread * 100 <= facts.idle.files,
        "nothing was held on the idle system",
    );
    check(
        facts.data.wanted == 342,
        "the data pages are those that were read",
    );
    check(
        facts.data.found == facts.data.wanted,
        "held data pages are found by reads",
    );
    check(
        facts.data.added == 0,
        "without the hooks, no held data page would be found",
    );
    let share = |part: usize, whole: usize| part as f64 / whole as f64;
    check(
        share(facts.files.found, facts.files.wanted) >= 0.99,
        "held library pages are found by page faults",
    );
    check(
        share(facts.files.added, facts.files.wanted) < 0.8,
        "without the hooks, many pages of libraries would not be found",
    );
    // Metadata that the holder's inodes and directory entries stand for are not read again. Paths and
    // what data depend on tell of them: all are found, but for what a change of the file system may
    // cost.
    check(
        facts.metadata.found_share() >= 0.99,
        "metadata are found, whoever holds them",
    );
    check(
        facts.metadata.added < facts.metadata.wanted,
        "without paths and dependencies, held metadata would not be found",
    );
    for learned in [&facts.idle, &facts.held, &facts.live] {
        check(learned.paths > 300, "paths are recorded");
        // Before a cold launch, pages are taken back from the programs that run, and with one of them may
        // go a string that was about to be read.
        check(
            learned.lost_paths * 100 <= learned.paths,
            "hardly any path is lost",
        );
    }
    check(
        facts.live.lost_paths == 0,
        "no path of a live launch is lost",
    );

    // With debugfs, faults are exact, and a live set is what a cold launch reads.
    check(facts.live.exact_faults, "live faults tell the very page");
    check(
        facts.live.unread == facts.live.files,
        "all of the live launch was cached",
    );
    for (recall, what) in [
        (&facts.live_files, "pages of files"),
        (&facts.live_metadata, "metadata"),
        (&facts.served_files, "pages of files in the service"),
        (&facts.served_metadata, "metadata in the service"),
    ] {
        check(
            recall.found * 100 >= recall.wanted * 99,
            &format!(
                "{what} are found live: {} of {}, not {:?}",
                recall.found,
                recall.wanted,
                recall.missing.iter().take(8).collect::<Vec<_>>()
            ),
        );
        check(
            recall.excess_share() <= 0.05,
            &format!("few other {what} are learned live"),
        );
    }

    let knob = &facts.knob;
    check(
        knob.is_exact,
        "faults tell the very page in the service, too",
    );
    check(
        knob.killed == knob.before && knob.learned == knob.before,
        "faultaround is restored when the service is killed, and behind a learned launch",
    );

    let requests = |scenario: &str| {
        let results = facts.bench["results"].as_array();
        let mut results = results.into_iter().flatten();
        let found = results.find(|result| result["scenario"] == scenario);
        let requests = found.and_then(|result| result["read_requests"][0].as_u64());
        requests.unwrap_or(u64::MAX)
    };
    check(
        requests("cold") > 100 && requests("cold") < u64::MAX,
        "a cold launch reads",
    );
    // How much less is a race between the two for emulated processors, of which the drive needs nothing.
    check(
        requests("prefetch") < requests("cold"),
        "a launch that is prefetched meanwhile reads less itself",
    );
    check(
        facts.cold_reads > 100 && facts.reads_after_prefetch * 50 <= facts.cold_reads,
        "a launch after its prefetch reads nothing",
    );
    check(
        facts.run_report.contains("prefetched "),
        "run prefetches the learned profile",
    );

    let waits = &facts.waits;
    check(
        waits.missing == kernel.missing,
        "the wait detector says what this kernel cannot tell",
    );
    check(
        waits.fsync_is_for_the_file && waits.fsync_is_for_the_writer,
        "an fsync waits for the writer of its file",
    );
    check(
        waits.commit_is_for_the_drive && waits.lost == 0,
        "waits for a commit are seen, and none is lost",
    );
    wrong
}
