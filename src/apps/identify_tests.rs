use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;

static RULES: LazyLock<Rules> = LazyLock::new(Rules::builtin);

/// The app of a command line, as the kernel sees it executed: with `argv[0]`'s command in /usr/bin, in
/// the working directory /wd. "_" stands for a space within an argument, a space at the end for an
/// empty argument. "?" follows a key that does not tell apps apart.
fn app(line: &str) -> String {
    let words = line.split(' ').map(|word| word.replace('_', " "));
    let argv: Vec<OsString> = words.map(OsString::from).collect();
    let file = Path::new("/usr/bin").join(&argv[0]);
    shown(RULES.identify(&file, &argv, Path::new("/wd")))
}

fn shown(identity: Identity) -> String {
    let doubt = if identity.distinct { "" } else { "?" };
    format!("{}{doubt}", identity.key)
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
        ("xdg-open x.pdf", "/usr/bin/xdg-open"),
        ("gtk-launch gimp", "/usr/bin/gtk-launch"),
        ("python3-config --libs", "/usr/bin/python3-config"),
    ]);
    // A script as it is executed: its interpreter is none of the launch's matter.
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
        ("ruby -C /opt/app app.rb", "/opt/app/app.rb"),
        ("ruby -e puts_1", "/usr/bin/ruby?"),
        ("node --inspect app.js", "/wd/app.js"),
        ("node inspect app.js", "/wd/app.js"),
        ("node -r esm --import=x app.js", "/wd/app.js"),
        ("nodejs -e 1", "/usr/bin/nodejs?"),
        ("deno run --allow-net app.ts", "/wd/app.ts"),
        ("electron /usr/lib/app", "/usr/lib/app"),
        (
            "electron28 --ozone-platform=wayland /usr/lib/app/app.asar",
            "/usr/lib/app/app.asar",
        ),
        ("electron .", "/wd"),
        ("electron", "/usr/bin/electron?"),
        ("mono --debug /usr/lib/x/x.exe", "/usr/lib/x/x.exe"),
        ("dotnet exec --depsfile x app.dll", "/wd/app.dll"),
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
        ("java --source 21 Main.java", "/wd/Main.java"),
        ("java -version", "/usr/bin/java?"),
        ("java -jar", "/usr/bin/java?"),
    ]);
}

#[test]
fn wine() {
    check(&[
        (r"wine C:\foo.exe", r"wine:C:\foo.exe"),
        ("wine C:/games/foo.exe -x", "wine:C:/games/foo.exe"),
        ("wine64 /home/u/foo.exe", "/home/u/foo.exe"),
        ("wine game.EXE", "/wd/game.EXE"),
        ("wine notepad", "wine:notepad"),
        (
            r"wine C:\windows\command\start.exe /Unix /home/u/foo.lnk",
            "/home/u/foo.lnk",
        ),
        (r"wine start /wait /d C:\x C:\x\y.exe", r"wine:C:\x\y.exe"),
        ("wine --version", "/usr/bin/wine?"),
    ]);
}

#[test]
fn packaged_apps() {
    check(&[
        (
            "flatpak run --branch=stable --command=gimp org.gimp.GIMP file",
            "flatpak:org.gimp.GIMP",
        ),
        (
            "flatpak --user run --branch stable org.gimp.GIMP",
            "flatpak:org.gimp.GIMP",
        ),
        (
            "flatpak run --file-forwarding org.x.Y @@u %U @@",
            "flatpak:org.x.Y",
        ),
        ("flatpak install org.gimp.GIMP", "/usr/bin/flatpak?"),
        ("flatpak run", "/usr/bin/flatpak?"),
        (
            "/var/lib/flatpak/exports/bin/org.gimp.GIMP x",
            "flatpak:org.gimp.GIMP",
        ),
        ("snap run firefox", "snap:firefox"),
        ("snap run --shell firefox", "/usr/bin/snap?"),
        ("snap install firefox", "/usr/bin/snap?"),
        ("/snap/bin/firefox https://x", "snap:firefox"),
    ]);
    // The link followed: only argv[0] tells.
    let argv = ["/snap/bin/firefox", "--new"].map(OsString::from);
    let found = RULES.identify(Path::new("/usr/bin/snap"), &argv, Path::new("/"));
    assert_eq!(shown(found), "snap:firefox");
}

#[test]
fn wrappers_are_seen_through() {
    check(&[
        ("env -i A=b -u X gimp", "gimp"),
        ("env - A=/b /usr/bin/gimp", "/usr/bin/gimp"),
        ("env -C /opt/app bin/x", "/opt/app/bin/x"),
        ("env --chdir=/opt python3 x.py", "/opt/x.py"),
        ("env -S gimp_-x", "/usr/bin/env?"),
        ("env A=b", "/usr/bin/env?"),
        ("env", "/usr/bin/env?"),
        ("nice -n 10 gimp", "gimp"),
        ("nice -10 /opt/gimp", "/opt/gimp"),
        ("ionice -c3 -n 7 gimp", "gimp"),
        ("ionice -p 17", "/usr/bin/ionice?"),
        ("chrt -r 10 gimp", "gimp"),
        ("taskset -c 0-3 gimp", "gimp"),
        ("timeout -s KILL 10 gimp", "gimp"),
        ("nohup gimp", "gimp"),
        ("setsid -f gimp", "gimp"),
        ("stdbuf -oL -e 0 gimp", "gimp"),
        ("pkexec --user root /usr/sbin/gparted", "/usr/sbin/gparted"),
        ("sudo -Eu u A=b gimp", "gimp"),
        ("switcherooctl launch -g 1 gimp", "gimp"),
        ("systemd-run --user --scope -p A=b gimp", "gimp"),
        ("env A=b nice -n 5 python3 -m idlelib", "python3:idlelib"),
        ("env X=1 /snap/bin/firefox %u", "snap:firefox"),
        ("nohup flatpak run org.x.Y", "flatpak:org.x.Y"),
        ("env python3 -c x", "python3?"),
        ("env ", "/usr/bin/env?"),
    ]);
}

#[test]
fn shells() {
    check(&[
        ("sh script.sh -c", "/wd/script.sh"),
        ("bash -x --norc /opt/x", "/opt/x"),
        ("bash -O extglob -o pipefail /opt/x", "/opt/x"),
        ("sh -c exec_/usr/bin/gimp", "/usr/bin/gimp"),
        ("sh -c /usr/bin/gimp_-n", "/usr/bin/gimp"),
        ("sh -ec A=b_exec__env_B=c_gimp", "gimp"),
        ("sh -ce gimp", "gimp"),
        ("sh -c exec_python3_-m_idlelib", "python3:idlelib"),
        ("sh -c gimp_&", "/usr/bin/sh?"),
        (r#"sh -c exec_gimp_"$@""#, "/usr/bin/sh?"),
        ("sh -c cd_/opt", "/usr/bin/sh?"),
        ("sh -c exec_-a_x_gimp", "/usr/bin/sh?"),
        ("sh -c ", "/usr/bin/sh?"),
        ("sh -c", "/usr/bin/sh?"),
        ("sh", "/usr/bin/sh?"),
    ]);
}

#[test]
fn commands_are_looked_up_where_the_caller_can() {
    let look_up = |name: &OsStr| (name == "gimp").then(|| PathBuf::from("/opt/bin/gimp"));
    let identify = |line: &[&str]| {
        let argv: Vec<OsString> = line.iter().map(OsString::from).collect();
        RULES.identify_with(Path::new("/usr/bin/env"), &argv, Path::new("/"), &look_up)
    };
    let gimp = identify(&["env", "gimp"]);
    assert_eq!(gimp.key, Key::File("/opt/bin/gimp".into()));
    assert_eq!(gimp.program, Path::new("/opt/bin/gimp"));
    let other = identify(&["env", "nice", "other"]);
    assert_eq!(other.key, Key::Command("other".into()));
    assert_eq!(other.program, Path::new("other"));
    let launcher = identify(&["env", "/usr/bin/python3", "-m", "x"]);
    assert_eq!(launcher.program, Path::new("/usr/bin/python3"));
}

#[test]
fn wrappers_without_end_are_no_app() {
    let wrapped = |depth| "env ".repeat(depth) + "gimp";
    assert_eq!(app(&wrapped(MAX_DEPTH)), "gimp");
    assert_eq!(app(&wrapped(MAX_DEPTH + 1)), "env?");
}

/// Arguments that lead deep into the rules.
fn argument() -> impl Strategy<Value = Vec<u8>> {
    let telling = prop::sample::select(vec![
        "python3",
        "java",
        "env",
        "sh",
        "flatpak",
        "run",
        "snap",
        "wine",
        "-c",
        "-m",
        "-jar",
        "--",
        "-",
        "A=b",
        "=",
        "-u",
        "-C",
        "start.exe",
        "\\",
        "..",
        "/",
        "exec gimp",
        "C:\\x.exe",
        "timeout",
    ]);
    prop_oneof![
        telling.prop_map(|text| text.as_bytes().to_vec()),
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
            Key::Command(name) => {
                prop_assert!(!name.is_empty() && !name.as_bytes().contains(&b'/'));
            }
        }
        // Where nothing is a launcher, the file alone matters.
        let alone = Rules::none().identify(&file, &argv, &cwd);
        prop_assert_eq!(alone.key, Key::File(absolute(&file, &cwd)));
        prop_assert!(alone.distinct);
    }
}
