//! The command line of the laboratory.

mod args;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;
use paralfetch::schedule::formula;

use crate::apps::{self, App, Start};
use crate::drive::{self, DriveProfile};
use crate::experiment::job::Job;
use crate::experiment::launcher::Interrupted;
use crate::experiment::service_state::Serve;
use crate::experiment::session::{self, Ended, SessionOptions};
use crate::experiment::work;
use crate::machine::Awake;
use crate::namespace::private_namespace;
use crate::scenarios::Scenario;
use crate::writes::benchmark::Benchmark;
use crate::writes::measures::Measure;
use crate::writes::run::BenchmarkJob;
use crate::writes::session::WritesOptions;
use crate::writes::shielding::ShieldJob;
use crate::writes::writer::WriterJob;
use crate::{image, predict, report, writes};
use args::{Cli, Command, Data};

/// Exit status when some of what was asked for could not be had.
const INCOMPLETE: u8 = 1;

/// Runs the command line.
pub fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            if let Some(Interrupted(signal)) = error.downcast_ref() {
                return ExitCode::from(128 + *signal as u8);
            }
            eprintln!("lab: {error:#}");
            ExitCode::from(INCOMPLETE)
        }
    }
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Run(args) => return measure(args),
        Command::Writes(args) => write(args)?,
        Command::Predict { history } => print!("{}", predict::report(history.as_deref())?),
        Command::Report { dir } => report::write(&dir)?,
        Command::Compare { a, b } => print!("{}", report::compare(&a, &b)?),
        Command::CheckDrive { device, data } => check_drives(&device, &data)?,
        Command::Probe { device, data } => probe_drives(&device, &data)?,
        Command::Image { image, data } => {
            let apps = chosen(&image.apps, &data)?;
            println!("{}", image::build(&image.image_dir, &apps)?.display());
        }
        Command::List { data } => list(&data)?,
        Command::TryApps {
            image,
            linger,
            data,
        } => try_apps(&image, linger, &data)?,
        Command::Job { job } => {
            work::perform(serde_json::from_str::<Job>(&job).context("this is no job")?)?;
        }
        Command::StartApp { start } => {
            let start: Start =
                serde_json::from_str(&start).context("this is no start of an app")?;
            println!("{}", serde_json::to_string(&start.run()?)?);
        }
        Command::Service { serve } => serde_json::from_str::<Serve>(&serve)
            .context("these are no places of a service")?
            .run()?,
        Command::KeepKnobs { limit, run_dir } => {
            paralfetch::drive::keep(&run_dir, Duration::from_secs(limit))?;
        }
        Command::Shield { job } => serde_json::from_str::<ShieldJob>(&job)
            .context("this is no shield's job")?
            .run()?,
        Command::Benchmark { job } => serde_json::from_str::<BenchmarkJob>(&job)
            .context("this is no benchmark's job")?
            .run()?,
        Command::BackgroundWriter { job } => serde_json::from_str::<WriterJob>(&job)
            .context("this is no writer's job")?
            .run()?,
        Command::Flashsim { args } => drive::serve(&args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(args: args::Run) -> Result<ExitCode> {
    let all = all_apps(&args.data)?;
    let apps = choose(&args.image.apps, &all)?;
    let background = all.iter().find(|app| app.name == args.background).cloned();
    let drive = one_drive(&args.device, &args.data)?;
    let scenarios = if args.scenarios == "none" {
        String::new()
    } else {
        args.scenarios
    };
    let needs_background = !scenarios.is_empty()
        && Scenario::parse_list(&scenarios)?
            .iter()
            .any(|scenario| scenario.needs_other_app());
    paralfetch::kernel::check()?;
    let in_image: Vec<App> = match &background {
        Some(app) if needs_background && !apps.contains(app) => {
            apps.iter().chain([app]).cloned().collect()
        }
        _ => apps.clone(),
    };
    let image = image::build(&args.image.image_dir, &in_image)?;
    let asked = SessionOptions {
        drive,
        scheduler: args.drive_scheduler,
        image,
        apps,
        background,
        scenarios,
        together: args.together,
        lessons: args.lessons,
        runs: args.runs,
        launches: args.launches,
        misses: !args.no_misses,
        check: !args.no_check,
        timeout: args.timeout,
        out: args.out,
    };
    Ok(match session::run(&asked)? {
        Ended::Complete => {
            eprintln!(
                "lab: the report is {}",
                asked.out.join("report.md").display()
            );
            ExitCode::SUCCESS
        }
        Ended::Interrupted(signal) => {
            eprintln!("\nlab: interrupted; the same command goes on from here");
            ExitCode::from(128 + signal as u8)
        }
        Ended::Incomplete(failed) => {
            for what in failed {
                eprintln!("lab: failed: {what}");
            }
            ExitCode::from(INCOMPLETE)
        }
    })
}

/// Measures operations beside a writer.
fn write(args: args::Writes) -> Result<()> {
    let drive = one_drive(&args.device, &args.data)?;
    let out = args.out;
    writes::session::run(&WritesOptions {
        drive,
        scheduler: args.drive_scheduler,
        benchmarks: Benchmark::parse_list(&args.benchmarks)?,
        writer: args.writer,
        writer_bytes: args.writer_mib.map(|mib| mib << 20),
        measures: Measure::parse_list(&args.measures)?,
        runs: args.runs,
        limit: args.limit,
        settle: Duration::from_millis(args.settle_ms),
        waits: args.waits,
        image_dir: args.image_dir,
        out: out.clone(),
        json: args.json,
    })?;
    out.map_or(Ok(()), |out| report::write(&out))
}

fn all_apps(data: &Data) -> Result<Vec<App>> {
    match &data.apps_file {
        Some(path) => apps::parse(&read(path)?).with_context(|| format!("in {}", path.display())),
        None => apps::built_in(),
    }
}

fn chosen(names: &str, data: &Data) -> Result<Vec<App>> {
    choose(names, &all_apps(data)?)
}

/// The apps that a list names; `all` are those that are not marked as extra.
fn choose(names: &str, all: &[App]) -> Result<Vec<App>> {
    if names == "all" {
        return Ok(all.iter().filter(|app| !app.extra).cloned().collect());
    }
    names
        .split(',')
        .map(|name| {
            let found = all.iter().find(|app| app.name == name).cloned();
            found.with_context(|| {
                let known: Vec<&str> = all.iter().map(|app| app.name.as_str()).collect();
                format!("there is no app '{name}'; there are {}", known.join(", "))
            })
        })
        .collect()
}

fn drives(data: &Data) -> Result<Vec<DriveProfile>> {
    match &data.drives_file {
        Some(path) => drive::parse(&read(path)?).with_context(|| format!("in {}", path.display())),
        None => drive::built_in(),
    }
}

fn one_drive(name: &str, data: &Data) -> Result<DriveProfile> {
    let all = drives(data)?;
    let found = all.iter().find(|drive| drive.name == name).cloned();
    found.with_context(|| {
        let known: Vec<&str> = all.iter().map(|drive| drive.name.as_str()).collect();
        format!("there is no drive '{name}'; there are {}", known.join(", "))
    })
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Attaches each drive with an empty file system and measures it.
fn check_drives(name: &str, data: &Data) -> Result<()> {
    let drives = some_drives(name, data)?;
    let awake = Awake::set()?;
    private_namespace()?;
    let mut outside = Vec::new();
    for profile in drives {
        println!("{}: {}", profile.name, profile.title);
        let (figures, overhead) = drive::check_alone(&profile)?;
        if let Some(overhead) = overhead {
            println!("  overhead: {overhead}, which the model is shortened by");
        }
        for checked in figures {
            println!("  {checked}");
            if !checked.holds() {
                outside.push(format!("{}: {checked}", profile.name));
            }
        }
    }
    awake.restore()?;
    if !outside.is_empty() {
        bail!("not as claimed: {}", outside.join("; "));
    }
    Ok(())
}

/// The drives that a name means, which may be `all`.
fn some_drives(name: &str, data: &Data) -> Result<Vec<DriveProfile>> {
    match name {
        "all" => drives(data),
        name => Ok(vec![one_drive(name, data)?]),
    }
}

/// Attaches each drive with an empty file system, has it probed, and measures the same with fio.
fn probe_drives(name: &str, data: &Data) -> Result<()> {
    let drives = some_drives(name, data)?;
    let awake = Awake::set()?;
    private_namespace()?;
    let mut outside = Vec::new();
    for profile in drives {
        println!("{}: {}", profile.name, profile.title);
        let (probed, figures) = drive::probe_alone(&profile)?;
        println!("  {}", formula::describe(&probed.costs));
        println!(
            "  {} reads, {:.1} MiB, {:.1} s, through {}",
            probed.reads,
            probed.bytes as f64 / f64::from(1 << 20),
            probed.time.as_secs_f64(),
            probed.through
        );
        println!("  {:<28} {:>12} {:>12}", "", "probe", "fio");
        for figure in figures {
            println!("  {figure}");
            if !figure.holds() {
                outside.push(format!("{}: {}", profile.name, figure.what));
            }
        }
    }
    awake.restore()?;
    if !outside.is_empty() {
        bail!(
            "the probe and fio differ by more than 15 %: {}",
            outside.join("; ")
        );
    }
    Ok(())
}

fn list(data: &Data) -> Result<()> {
    println!("Apps");
    for app in all_apps(data)? {
        println!("  {:<12} {}", app.name, app.title);
    }
    println!("Drives");
    for drive in drives(data)? {
        println!("  {:<12} {}", drive.name, drive.title);
    }
    Ok(())
}

/// Starts each app in the image and says which windows it opens.
fn try_apps(args: &args::Image, linger: u64, data: &Data) -> Result<()> {
    let apps = chosen(&args.apps, data)?;
    let image = image::build(&args.image_dir, &apps)?;
    let mut without = Vec::new();
    image::start(
        &image,
        &apps.iter().collect::<Vec<_>>(),
        linger,
        &mut |app, started| {
            match started.seconds {
                Some(seconds) => println!("{}: {seconds:.2} s", app.name),
                None => {
                    without.push(app.name.clone());
                    let why = started.ended.as_deref().unwrap_or("it was ended");
                    println!("{}: no main window ({why})", app.name);
                }
            }
            for window in &started.windows {
                println!("  {window}");
            }
            Ok(())
        },
    )?;
    if !without.is_empty() {
        bail!("no main window of {}", without.join(", "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use paralfetch::learn::keeper_command;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    /// The service, the shield and learning have this program started as if it were `paralfetch`.
    #[test]
    fn a_keeper_is_started_as_the_product_starts_it() {
        let command = keeper_command(Path::new("/run/lab"), Duration::from_secs(90)).unwrap();
        let words = [command.get_program()]
            .into_iter()
            .chain(command.get_args());
        let Command::KeepKnobs { limit, run_dir } = Cli::parse_from(words).command else {
            panic!("{command:?}");
        };
        assert_eq!((limit, &*run_dir), (90, Path::new("/run/lab")));
    }
}
