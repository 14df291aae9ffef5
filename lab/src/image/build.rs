//! Building an image, and having each app configure itself in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::lock::Lock;
use super::mount::{MountPoint, Mounted};
use crate::apps::{self, App, Start, Started};
use crate::display::Display;
use crate::drive::LoopDevice;
use crate::namespace::private_namespace;

/// Builds an image with packages; a second call finds it complete.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/image.sh");

/// Packages that every app needs: text cannot be drawn without a font.
const COMMON: [&str; 2] = ["dbus-x11", "fonts-dejavu-core"];

/// Size of the images, in GiB. They are sparse.
const SIZE_GIB: u32 = 16;

/// Longest wait for an app's first window, in seconds.
const FIRST_WINDOW: u64 = 90;

/// How long an app runs after that in its first run, in seconds.
const FIRST_LINGER: u64 = 4;

/// Finds or makes, in `directory`, an image with all these apps, configured.
///
/// # Errors
/// When it cannot be built, or an app does not start in it.
pub fn build(directory: &Path, apps: &[App]) -> Result<PathBuf> {
    let wanted: BTreeSet<&str> = apps
        .iter()
        .flat_map(|app| app.packages.iter().map(String::as_str))
        .chain(COMMON)
        .collect();
    let image = match with_packages(directory, &wanted)? {
        Some(image) => image,
        None => {
            let image = directory.join(file_name(apps, &apps::built_in()?));
            let status = Command::new(SCRIPT)
                .arg(&image)
                .arg(SIZE_GIB.to_string())
                .args(&wanted)
                .stdout(std::io::stderr())
                .status()
                .with_context(|| format!("cannot run {SCRIPT}"))?;
            ensure!(status.success(), "the image could not be built; see above");
            image
        }
    };
    configure(&image, apps)?;
    Ok(image)
}

/// An image that has all the packages.
fn with_packages(directory: &Path, wanted: &BTreeSet<&str>) -> Result<Option<PathBuf>> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Ok(None);
    };
    let mut fitting = Vec::new();
    for entry in entries {
        let stamp = entry?.path();
        let image = stamp.with_extension("");
        if stamp
            .extension()
            .is_some_and(|extension| extension == "stamp")
            && image.exists()
        {
            let text = fs::read_to_string(&stamp)?;
            if has_packages(&text, wanted) {
                fitting.push((fs::metadata(&image)?.len(), image));
            }
        }
    }
    Ok(fitting.into_iter().min().map(|(_, image)| image))
}

/// Whether a stamp of the script names all the packages.
fn has_packages(stamp: &str, wanted: &BTreeSet<&str>) -> bool {
    let there: BTreeSet<&str> = stamp
        .lines()
        .find_map(|line| line.strip_prefix("packages "))
        .map(|line| line.split(' ').collect())
        .unwrap_or_default();
    wanted.is_subset(&there)
}

/// `apps.img` for an image with all apps that are not extra, otherwise a name made of theirs.
fn file_name(apps: &[App], standard: &[App]) -> String {
    let has = |app: &App| apps.iter().any(|other| other.name == app.name);
    if standard.iter().filter(|app| !app.extra).all(has) {
        return "apps.img".to_owned();
    }
    let mut names: Vec<&str> = apps.iter().map(|app| app.name.as_str()).collect();
    names.sort_unstable();
    format!("{}.img", names.join("+"))
}

/// The apps that have configured themselves in an image.
#[derive(Default, Serialize, Deserialize)]
struct Configured {
    /// The image's file system: one that was built anew has another.
    fs_uuid: [u8; 16],
    /// As they were described then, by name.
    apps: BTreeMap<String, App>,
}

/// The UUID in an ext4 superblock (Documentation/filesystems/ext4/super.rst).
fn fs_uuid(image: &Path) -> Result<[u8; 16]> {
    const SUPERBLOCK: u64 = 1024;
    const UUID: u64 = 0x68;
    let mut uuid = [0; 16];
    File::open(image)
        .and_then(|file| file.read_exact_at(&mut uuid, SUPERBLOCK + UUID))
        .with_context(|| format!("cannot read {}", image.display()))?;
    Ok(uuid)
}

/// Has those apps configure themselves that have not done so as they are described now.
fn configure(image: &Path, apps: &[App]) -> Result<()> {
    let stamp = PathBuf::from(format!("{}.configured", image.display()));
    let mut done = match fs::read_to_string(&stamp) {
        Ok(text) => serde_json::from_str(&text)
            .with_context(|| format!("{} is damaged: remove it", stamp.display()))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Configured::default(),
        Err(error) => return Err(error.into()),
    };
    let uuid = fs_uuid(image)?;
    if done.fs_uuid != uuid {
        done = Configured {
            fs_uuid: uuid,
            apps: BTreeMap::new(),
        };
    }
    let missing: Vec<&App> = apps
        .iter()
        .filter(|app| done.apps.get(&app.name) != Some(app))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    start(image, &missing, FIRST_LINGER, &mut |app, started| {
        let Some(seconds) = started.seconds else {
            bail!(
                "{} did not start: {}; its windows: {:?}",
                app.name,
                started
                    .ended
                    .unwrap_or_else(|| format!("no window within {FIRST_WINDOW} s")),
                started.windows
            );
        };
        eprintln!(
            "lab: {} is configured (first start: {seconds:.1} s)",
            app.name
        );
        done.apps.insert(app.name.clone(), app.clone());
        fs::write(&stamp, serde_json::to_vec_pretty(&done)?)?;
        Ok(())
    })
}

/// Starts apps in an image, one after the other, for `linger` seconds each; what they write stays.
///
/// # Errors
/// When the image cannot be used; what `each` says.
pub fn start(
    image: &Path,
    apps: &[&App],
    linger: u64,
    each: &mut dyn FnMut(&App, Started) -> Result<()>,
) -> Result<()> {
    let _lock = Lock::exclusive(image)?;
    private_namespace()?;
    let device = LoopDevice::attach(&File::options().read(true).write(true).open(image)?)?;
    let point = MountPoint::new(&std::env::temp_dir())?;
    let mounted = Mounted::mount(device.node(), point.path())?;
    let display = Display::start()?;
    for app in apps {
        prepare(app, point.path())?;
        let asked = Start {
            app: (*app).clone(),
            root: point.path().to_owned(),
            timeout: FIRST_WINDOW,
            linger,
        };
        each(app, in_own_process(&asked, &display)?)?;
    }
    drop(mounted);
    Ok(())
}

/// Writes an app's files and runs its setup.
fn prepare(app: &App, root: &Path) -> Result<()> {
    for (path, content) in &app.files {
        let path = root.join(path.trim_start_matches('/'));
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, content.trim_start())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    for command in &app.setup {
        let status = Command::new("chroot")
            .arg(root)
            .args(["/bin/sh", "-c", command])
            .status()
            .context("cannot run chroot(8)")?;
        ensure!(
            status.success(),
            "the setup of {} failed: {command}",
            app.name
        );
    }
    Ok(())
}

fn in_own_process(asked: &Start, display: &Display) -> Result<Started> {
    let output = Command::new(std::env::current_exe()?)
        .arg("start-app")
        .arg(serde_json::to_string(asked)?)
        .env_clear()
        .envs(apps::environment(
            std::slice::from_ref(&asked.app),
            display.name(),
        ))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    ensure!(
        output.status.success(),
        "{} could not be started; see above",
        asked.app.name
    );
    serde_json::from_slice(&output.stdout).context("the start of an app said something else")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_with_more_packages_will_do() {
        let stamp = "recipe 1\nsuite bookworm\nsize 16 GiB\npackages gimp vlc xpdf\n";
        assert!(has_packages(stamp, &BTreeSet::from(["vlc", "gimp"])));
        assert!(!has_packages(stamp, &BTreeSet::from(["vlc", "pdf"])));
        assert!(!has_packages("", &BTreeSet::from(["vlc"])));
    }

    #[test]
    fn images_are_named_after_their_apps() {
        let all = apps::built_in().unwrap();
        assert_eq!(file_name(&all, &all), "apps.img");
        let (extra, standard): (Vec<App>, Vec<App>) =
            all.clone().into_iter().partition(|app| app.extra);
        assert_eq!(file_name(&standard, &all), "apps.img");
        assert_eq!(
            file_name(&extra, &all),
            "chromium-other+evince+mousepad+uname+xpdf.img"
        );
        assert_ne!(file_name(&standard[..5], &all), "apps.img");
    }
}
