//! Scenario C: installing a package (QASIO §3), with the real dpkg(1) into a root on the drive.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::{ALL, Prepared};
use crate::child::{end, ended_within};
use crate::noise::noise;
use crate::writes::latencies::Stopwatch;

/// How often it is installed; removed in between.
const TIMES: u32 = 5;

/// The files of the package: how many, and of how many bytes. About 40 MB, as a game of the paper's time:
/// mostly small files, and some large ones that hold nearly all of it.
const FILES: [(u32, usize); 3] = [(300, 6 << 10), (60, 100 << 10), (8, 4 << 20)];

/// Where they are installed. Below /usr/share/doc the administrator may have dpkg leave files out.
const PLACE: &str = "opt/paralfetch-lab";

const PACKAGE: &str = "paralfetch-lab";

/// Longest run of dpkg after the benchmark's limit.
const PATIENCE: Duration = Duration::from_secs(300);

/// A package, and a root to install it into.
pub(super) struct Installed {
    root: PathBuf,
    package: PathBuf,
}

impl Installed {
    /// Builds both in `directory`.
    pub(super) fn new(directory: &Path) -> Result<Self> {
        let root = directory.join("root");
        let database = root.join("var/lib/dpkg");
        for part in ["updates", "info", "triggers"] {
            fs::create_dir_all(database.join(part))?;
        }
        for file in ["status", "available"] {
            fs::write(database.join(file), "")?;
        }
        let package = directory.join("game.deb");
        build(&directory.join("game"), &package)?;
        Ok(Installed { root, package })
    }

    /// dpkg(1) on that root. It syncs what it installs, whatever the administrator's configuration says.
    fn dpkg(&self, watch: &Stopwatch, action: &[&str]) -> Result<()> {
        let mut command = Command::new("dpkg");
        command
            .arg(format!("--root={}", self.root.display()))
            .arg(format!("--log={}", self.root.join("dpkg.log").display()))
            .args([
                "--force-not-root",
                "--force-bad-path",
                "--no-force-unsafe-io",
            ])
            .args(action);
        run(command, watch.left() + PATIENCE)
    }
}

impl Prepared for Installed {
    fn run(&mut self, watch: &mut Stopwatch) -> Result<()> {
        let package = self.package.to_string_lossy().into_owned();
        for done in 0..TIMES {
            if done > 0 {
                if watch.is_over() {
                    return Ok(());
                }
                let begun = Instant::now();
                self.dpkg(watch, &["--purge", PACKAGE])?;
                watch.note("purge", begun.elapsed());
                if watch.is_over() {
                    return Ok(());
                }
            }
            let begun = Instant::now();
            self.dpkg(watch, &["--install", &package])?;
            watch.note(ALL, begun.elapsed());
        }
        Ok(())
    }
}

/// Builds the package from a tree that is removed again.
fn build(tree: &Path, package: &Path) -> Result<()> {
    let control = tree.join("DEBIAN");
    fs::create_dir_all(&control)?;
    fs::write(
        control.join("control"),
        format!(
            "Package: {PACKAGE}\nVersion: 1\nArchitecture: all\nMaintainer: nobody <nobody@localhost>\n\
             Description: files to install\n"
        ),
    )?;
    for (kind, (files, bytes)) in (0..).zip(FILES) {
        let directory = tree.join(PLACE).join(format!("kind-{kind}"));
        fs::create_dir_all(&directory)?;
        for number in 0..files {
            let content = noise(bytes, kind * 1000 + u64::from(number));
            fs::write(directory.join(format!("file-{number}")), content)?;
        }
    }
    let mut command = Command::new("dpkg-deb");
    command
        .args(["-Znone", "--root-owner-group", "--build"])
        .args([tree, package]);
    run(command, PATIENCE)?;
    fs::remove_dir_all(tree)?;
    Ok(())
}

fn run(mut command: Command, limit: Duration) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    command
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot run {name}(1)"))?;
    let Some(status) = ended_within(&mut child, limit)? else {
        end(&mut child)?;
        bail!("{name}(1) took longer than {} s", limit.as_secs());
    };
    if !status.success() {
        bail!("{name}(1): {status}: see its message above");
    }
    Ok(())
}
