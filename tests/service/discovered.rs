//! Programs that automatic mode takes for apps by what they read: by their file, whatever their path says.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::running::{Image, Running};
use crate::set_up;
use common::{Mounted, drop_caches};

/// Reads all of the image's data from an empty cache; returns the process's id.
fn read_all(image: &Image, mut reader: Command) -> u32 {
    drop_caches();
    let data = fs::read_dir(image.root.path().join("data")).unwrap();
    reader.args(data.map(|file| file.unwrap().path()));
    let mut process = reader.stdout(Stdio::null()).spawn().unwrap();
    let status = process.wait().unwrap();
    assert!(status.success(), "{reader:?}: {status}");
    process.id()
}

/// The service in automatic mode, for which each launch is large and slow enough, and too large to be learned.
fn start_automatic(image: &Image) -> Running {
    image.configure("");
    let drop_ins = image.config_dir().join("config.toml.d");
    fs::create_dir(&drop_ins).unwrap();
    let text = "mode = \"automatic\"\nprefetch.max_profile_mib = 1\n\
                [automatic]\nmin_read_mib = 1\nmin_wait_ms = 0\n";
    fs::write(drop_ins.join("automatic.toml"), text).unwrap();
    image.start()
}

#[test]
fn only_the_administrators_programs_are_discovered() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    let cat = image.root.path().join("bin/cat");
    common::copy_program(&cat, image.root.path().join("reader"));
    let opt = tempfile::tempdir_in("/opt").unwrap();
    let _opt = Mounted::bind(image.root.path(), opt.path());
    let reader = opt.path().join("reader");
    let mut service = start_automatic(&image);

    // A path that only begins like one of the system. The kernel reports it before the tool, which is refused.
    let disguised = Path::new("/usr/..").join(reader.strip_prefix("/").unwrap());
    for _ in 0..3 {
        read_all(&image, Command::new(&disguised));
    }
    read_all(&image, Command::new("/usr/bin/cat"));
    service.line(&["read much and is no app", "/usr/bin/cat"]);

    // The administrator's program is followed, and becomes an app.
    read_all(&image, Command::new(&reader));
    service.line(&["its next launches are followed"]);
    for _ in 0..2 {
        read_all(&image, Command::new(&reader));
        service.launch_of(reader.to_str().unwrap());
    }
    assert_eq!(service.heard(&["managed from its next launch on"]).len(), 1);

    service.ready_to_learn();

    // A user's own mounts put another file in its place.
    let app = reader.to_str().unwrap();
    let script = "mount --bind \"$1\" \"$2\" && shift && exec \"$@\"";
    let mut own_mounts = Command::new("unshare");
    own_mounts.args([
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        script,
        "sh",
    ]);
    own_mounts.args([Path::new("/usr/bin/cat"), &reader]);
    read_all(&image, own_mounts);
    let process = read_all(&image, Command::new(&reader));
    let line = service.line(&["launch begins", app]);
    assert!(line.contains(&format!("pid={process} ")), "{line}");
    let mut line = service.launch_of(app);
    if line.contains("its first moments were not recorded") {
        // The recorder that was ready had gone to what looked like the app.
        service.ready_to_learn();
        read_all(&image, Command::new(&reader));
        line = service.launch_of(app);
    }

    // It needs more than a program may that nobody has named.
    assert!(
        line.contains("kind=Watched") && line.contains("max_profile_mib"),
        "{line}"
    );
    assert_eq!(service.heard(&["/usr/.."]), [""; 0]);
    service.stop();
}
