use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;

static RULES: LazyLock<Rules> = LazyLock::new(Rules::builtin);

/// The app of a command line, as the kernel sees it executed: with `argv[0]`'s command in /usr/bin, in
/// the working directory /wd. "_" stands for a space within an argument, a space at the end for an
/// empty argument. "?" follows a key that does not tell apps apart.
fn app(line: &str) -> String {
    let argv = words(line);
    let file = Path::new("/usr/bin").join(&argv[0]);
    shown(RULES.identify(&file, &argv, Path::new("/wd")))
}

fn words(line: &str) -> Vec<OsString> {
    let words = line.split(' ').map(|word| word.replace('_', " "));
    words.map(OsString::from).collect()
}

fn shown(identity: Identity) -> String {
    let mark = if identity.distinct { "" } else { "?" };
    format!("{}{mark}", identity.key)
}

#[track_caller]
fn check(table: &[(&str, &str)]) {
    for (line, key) in table {
        assert_eq!(app(line), *key, "{line}");
    }
}

#[test]
fn programs_are_their_own_apps() {
    check(&[
        ("gimp", "/usr/bin/gimp"),
        ("gimp -m x.png", "/usr/bin/gimp"),
        ("/opt/x/../y/bin/./app", "/opt/y/bin/app"),
        ("python3-config --libs", "/usr/bin/python3-config"),
    ]);
    // A script as it is executed: the kernel starts its interpreter later.
    let argv = ["hello.py", "-m", "x"].map(OsString::from);
    let found = RULES.identify(Path::new("./hello.py"), &argv, Path::new("/home/u"));
    assert_eq!(shown(found), "/home/u/hello.py");
}

#[test]
fn python() {
    check(&[
        ("python3 script.py", "/wd/script.py"),
        ("python3 -u script.py -m x", "/wd/script.py"),
        ("python3 -u ../a/./script.py", "/a/script.py"),
        ("python3 /usr/share/app/main.py", "/usr/share/app/main.py"),
        ("python3.11 -m idlelib x", "python3:idlelib"),
        ("python -um pip", "python3:pip"),
        ("python3 -mpip", "python3:pip"),
        ("python3 -W ignore -X dev s.py", "/wd/s.py"),
        ("python3 -Wignore -Xdev s.py", "/wd/s.py"),
        ("python3 -uW ignore s.py", "/wd/s.py"),
        ("python3 -uWm s.py", "/wd/s.py"),
        ("python3 --check-hash-based-pycs never s.py", "/wd/s.py"),
        ("python3 -- -s.py", "/wd/-s.py"),
        ("python3 -c import_x s.py", "/usr/bin/python3?"),
        ("python3 -ucimport_x s.py", "/usr/bin/python3?"),
        ("python3 -m", "/usr/bin/python3?"),
        ("python3 -", "/usr/bin/python3?"),
        ("python3 ", "/usr/bin/python3?"),
        ("python3", "/usr/bin/python3?"),
    ]);
}

#[test]
fn other_interpreters() {
    check(&[
        ("perl -w script", "/wd/script"),
        ("perl -I lib -MList::Util -T script", "/wd/script"),
        ("perl -Ilib script", "/wd/script"),
        ("perl -lne print file", "/usr/bin/perl?"),
        ("ruby -W0 -rjson -r set app.rb", "/wd/app.rb"),
        ("ruby -C /opt/app app.rb", "/usr/bin/ruby?"),
        ("ruby -e puts_1", "/usr/bin/ruby?"),
        ("node --inspect app.js", "/wd/app.js"),
        ("node inspect app.js", "/usr/bin/node?"),
        ("node -r esm --import=x app.js", "/wd/app.js"),
        ("nodejs -e 1", "/usr/bin/nodejs?"),
        ("deno run --allow-net app.ts", "/wd/app.ts"),
        ("electron /usr/lib/app", "/usr/lib/app"),
        ("electron28 --ozone-platform=x11 /app.asar", "/app.asar"),
        ("electron .", "/wd"),
        ("electron", "/usr/bin/electron?"),
        ("mono --debug /usr/lib/x/x.exe", "/usr/lib/x/x.exe"),
        ("dotnet --depsfile x app.dll", "/wd/app.dll"),
        ("gjs -m -I lib /usr/share/x/main.js", "/usr/share/x/main.js"),
        ("php8.2 -d a=b x.php", "/wd/x.php"),
        ("wish8.6 x.tcl", "/wd/x.tcl"),
    ]);
}

#[test]
fn java() {
    check(&[
        ("java -Xmx1g -cp a:b Main x.jar", "java:Main"),
        ("java -Xmx1g -jar /opt/x/x.jar -cp", "/opt/x/x.jar"),
        ("java -jar lib/x.jar", "/wd/lib/x.jar"),
        ("java --class-path=a:b org.x.Main", "java:org.x.Main"),
        ("java -p mods -m mod/org.x.Main", "java:mod/org.x.Main"),
        ("java --module=mod/Main", "java:mod/Main"),
        ("java --source 21 ./Main.java", "/wd/Main.java"),
        ("java -version", "/usr/bin/java?"),
        ("java -jar", "/usr/bin/java?"),
    ]);
}

#[test]
fn packaged_apps() {
    check(&[
        (
            "flatpak run --branch=b --command=x org.x.Y f",
            "flatpak:org.x.Y",
        ),
        (
            "flatpak --user run --branch stable org.x.Y",
            "flatpak:org.x.Y",
        ),
        (
            "flatpak run --file-forwarding org.x.Y @@u",
            "flatpak:org.x.Y",
        ),
        ("flatpak install org.gimp.GIMP", "/usr/bin/flatpak?"),
        ("flatpak run", "/usr/bin/flatpak?"),
        ("/var/lib/flatpak/exports/bin/org.x.Y x", "flatpak:org.x.Y"),
        ("snap run firefox", "snap:firefox"),
        ("snap run --shell firefox", "/usr/bin/snap?"),
        ("snap install firefox", "/usr/bin/snap?"),
        ("/snap/bin/firefox https://x", "snap:firefox"),
    ]);
}

/// As [`app`], where the commands gimp, python3, env and nice are in /usr/bin.
fn app_looked_up(line: &str) -> String {
    let argv: Vec<OsString> = words(line);
    let file = Path::new("/usr/bin").join(&argv[0]);
    let look_up = |name: &OsStr| {
        let known = words("gimp python3 env nice").contains(&name.to_owned());
        let path = Path::new("/usr/bin").join(name);
        let is_there = |directory: &&str| path.starts_with(directory);
        let directories = ["/opt/bin", "/snap/bin"];
        (known || directories.iter().any(is_there)).then_some(path)
    };
    shown(RULES.identify_with(&file, &argv, Path::new("/wd"), &look_up))
}

#[test]
fn the_entry_of_a_snap_starts_the_snap() {
    let entry = "env BAMF_DESKTOP_FILE_HINT=/var/lib/snapd/desktop/applications/firefox_firefox.desktop \
                 /snap/bin/firefox https://x";
    assert_eq!(app_looked_up(entry), "snap:firefox");
}

#[test]
fn starters_are_no_apps_and_start_what_the_entry_names_or_nothing() {
    for line in [
        "xdg-open x.pdf",
        "gtk-launch gimp",
        "gapplication launch org.gimp.GIMP",
        "distrobox-enter -n box -- gimp",
        "toolbox run gimp",
        "flatpak-spawn --host gimp",
    ] {
        let starter = line.split(' ').next().unwrap();
        assert_eq!(
            app_looked_up(line),
            format!("/usr/bin/{starter}?"),
            "{line}"
        );
    }
    check(&[
        (r"wine C:\Games\x.exe -window", r"wine:C:\Games\x.exe"),
        ("wine /games/x.exe", "/games/x.exe"),
        ("wine ./x.exe", "/wd/x.exe"),
        ("wine start /wait /unix /games/x.exe", "/games/x.exe"),
        (r"wine start C:\x.exe", r"wine:C:\x.exe"),
        ("wine winecfg", "/usr/bin/wine?"),
        ("ld.so --library-path /opt/lib /opt/app", "/opt/app"),
        (
            "ld-linux-x86-64.so.2 --list /opt/app",
            "/usr/bin/ld-linux-x86-64.so.2?",
        ),
    ]);
}

#[test]
fn wrappers_are_looked_through_where_commands_are_looked_up() {
    for (line, key) in [
        ("env -i A=b -u X gimp", "/usr/bin/gimp"),
        ("env A=/b /opt/bin/app gimp", "/opt/bin/app"),
        ("env A=b nice -n 5 python3 -m idlelib", "python3:idlelib"),
        ("pkexec --user root gimp", "/usr/bin/gimp"),
        ("taskset -c 0-3 env python3 x.py", "/wd/x.py"),
        ("xvfb-run -s -screen_0 gimp", "/usr/bin/gimp"),
        ("env python3 -c x", "/usr/bin/python3?"),
        ("env A=b", "/usr/bin/env?"),
        ("nice unknown", "/usr/bin/nice?"),
        ("uwsm-app -- gimp", "/usr/bin/gimp"),
        ("numactl --cpunodebind=0 gimp", "/usr/bin/gimp"),
        ("sh -c exec_gimp_-n", "/usr/bin/gimp"),
        ("sh -ec exec_python3_-m_idlelib", "python3:idlelib"),
    ] {
        assert_eq!(app_looked_up(line), key, "{line}");
    }
    // The service sees the wrapped program's own execve.
    check(&[
        ("env gimp", "/usr/bin/env?"),
        ("nice -n 10 gimp", "/usr/bin/nice?"),
    ]);
}

#[test]
fn shells() {
    check(&[
        ("sh script.sh -c", "/wd/script.sh"),
        ("bash -x --norc /opt/x", "/opt/x"),
        ("bash -O extglob -o pipefail /opt/x", "/opt/x"),
        ("sh -c exec_/usr/bin/gimp", "/usr/bin/gimp"),
        ("sh -ce exec_bin/gimp_-n", "/wd/bin/gimp"),
        ("sh -c /usr/bin/gimp", "/usr/bin/sh?"),
        ("sh -c exec_gimp_&", "/usr/bin/sh?"),
        (r#"sh -c exec_gimp_"$@""#, "/usr/bin/sh?"),
        ("sh -c exec_-a_x_gimp", "/usr/bin/sh?"),
        ("sh -c exec", "/usr/bin/sh?"),
        ("sh -c", "/usr/bin/sh?"),
        ("sh", "/usr/bin/sh?"),
    ]);
}

#[test]
fn wrappers_and_keys_have_bounds() {
    let wrapped = |depth| "env ".repeat(depth) + "gimp";
    assert_eq!(app_looked_up(&wrapped(MAX_DEPTH)), "/usr/bin/gimp");
    assert_eq!(app_looked_up(&wrapped(MAX_DEPTH + 2)), "/usr/bin/env?");
    let long = "x".repeat(5000);
    check(&[
        (&format!("python3 {long}"), "/usr/bin/python3?"),
        (&format!("java {long}"), "/usr/bin/java?"),
        ("python3 -m ", "/usr/bin/python3?"),
    ]);
}

#[test]
fn a_launchers_own_executable_is_told_from_apps() {
    let app = |path: &str, program: Option<&str>| App {
        path: path.into(),
        program: program.map(Into::into),
        ..App::default()
    };
    assert!(RULES.is_launcher(&app("/usr/bin/python3.11", None)));
    assert!(RULES.is_launcher(&app("/snap/bin/firefox", None)));
    assert!(!RULES.is_launcher(&app("/usr/bin/gimp", None)));
    assert!(!RULES.is_launcher(&app("/opt/a.py", Some("/usr/bin/python3"))));
    assert!(!RULES.is_launcher(&app("announced:python3", None)));
}

/// Arguments that lead deep into the rules.
fn argument() -> impl Strategy<Value = Vec<u8>> {
    let telling = "python3 java env sh flatpak run snap -c -m -jar -- - A=b = -u -C \\ .. / exec_gimp timeout";
    let telling = prop::sample::select(words(telling));
    prop_oneof![
        telling.prop_map(OsString::into_encoded_bytes),
        prop::collection::vec(any::<u8>(), 0..12),
    ]
}

proptest! {
    #[test]
    fn any_command_line_has_an_identity(
        file in argument(),
        argv in prop::collection::vec(argument(), 0..12),
        cwd in argument(),
    ) {
        let argv: Vec<OsString> =
            argv.iter().map(|arg| OsStr::from_bytes(arg).into()).collect();
        let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
        let (file, cwd) = (path(&file), path(&cwd));
        let found = RULES.identify(&file, &argv, &cwd);
        match &found.key {
            Key::File(path) => {
                prop_assert!(path.is_absolute());
                prop_assert_eq!(&absolute(path, Path::new("/")), path);
            }
            Key::Name(name) => prop_assert!(name.as_bytes().contains(&b':')),
        }
        // Without launchers, only the file matters.
        let alone = Rules::none().identify(&file, &argv, &cwd);
        prop_assert_eq!(alone.key, Key::File(absolute(&file, &cwd)));
        prop_assert!(alone.distinct);
    }
}
