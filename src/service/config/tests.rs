use std::os::unix::fs::symlink;

use proptest::prelude::*;

use super::*;

/// The file that is shipped.
const SHIPPED: &str = include_str!("../../../dist/config.toml");

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(Path::new("file"), text.as_bytes())
}

fn refused(text: &str) -> String {
    parse(text).expect_err(text).to_string()
}

/// A directory with these files, by their paths in it.
fn files(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join(DROP_INS)).unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    }
    dir
}

/// The shipped file with the comment signs before its values taken off: prose has a space behind them.
fn uncommented() -> String {
    let value = |line: &'static str| match line.strip_prefix('#') {
        Some(value) if !value.is_empty() && !value.starts_with(' ') => value,
        _ => line,
    };
    SHIPPED.lines().map(value).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_shipped_file_changes_nothing_and_names_every_value_with_its_default() {
    assert_eq!(parse(SHIPPED).expect("right"), Config::default());
    let as_is: Table = toml::from_str(SHIPPED).unwrap();
    let set = as_is.values().filter_map(Value::as_table).map(Table::len);
    assert_eq!(set.sum::<usize>(), 0, "a value is not commented out");

    assert_eq!(parse(&uncommented()).expect("right"), Config::default());
    let named: Table = toml::from_str(&uncommented()).unwrap();
    assert_eq!(named, Table::try_from(Config::default()).unwrap());
}

#[test]
fn the_shipped_file_and_the_manual_name_every_value_with_its_default_and_range() {
    let manual = include_str!("../../../man/paralfetch.toml.5");
    let mut numbers = 0;
    for (section, keys) in Table::try_from(Config::default()).unwrap() {
        let Value::Table(keys) = keys else {
            continue;
        };
        for (key, default) in keys {
            let (_, entry) = manual.split_once(&format!("\\fB{key}\\fR = ")).expect(&key);
            let entry = entry.split("\n.TP").next().unwrap();
            let entry = entry.split("\n.SS").next().unwrap().replace('\n', " ");
            assert!(
                entry.contains(&format!("Default: {default}.")),
                "{key}: {entry:?}"
            );
            if !matches!(default, Value::Integer(_) | Value::Float(_)) {
                continue;
            }
            let error = refused(&format!("[{section}]\n{key} = 1000000000"));
            let (_, range) = error.split_once(" from ").expect(&error);
            assert!(entry.contains(&format!(" {range}. ")), "{key}: {entry:?}");
            let prose = SHIPPED.split(&format!("\n#{key} = ")).next().unwrap();
            let prose = prose.rsplit("\n\n").next().unwrap().replace("\n# ", " ");
            let end = prose.rsplit(" From ").next().unwrap();
            assert!(end.starts_with(range), "{key}: {range} is not in {prose:?}");
            numbers += 1;
        }
    }
    assert_eq!(numbers, 24);
}

#[test]
fn later_files_win_value_by_value() {
    let dir = files(&[
        (
            MAIN,
            "mode = \"manual\"\n[launch]\ntimeout_s = 20\nquiet_reads = 5\n",
        ),
        ("config.toml.d/20-b.toml", "[launch]\ntimeout_s = 40\n"),
        (
            "config.toml.d/10-a.toml",
            "[launch]\ntimeout_s = 39\nquiet_reads = 6\n",
        ),
        ("config.toml.d/.hidden.toml", "nonsense"),
        ("config.toml.d/30-c.toml.dpkg-old", "nonsense"),
    ]);
    let missing = dir.path().join("missing");
    assert_eq!(Config::load(&missing).expect("right"), Config::default());
    let config = Config::load(dir.path()).expect("right");
    let mut expected = Config {
        mode: Mode::Manual,
        ..Config::default()
    };
    expected.launch.timeout_s = 40;
    expected.launch.quiet_reads = 6;
    assert_eq!(config, expected);
}

#[test]
fn errors_name_file_and_line_and_what_would_be_right() {
    for (text, expected) in [
        (
            "\n[prefetch]\nmax_memory_percent = 91\n",
            "line 3: invalid value: 91, expected a whole number from 1 to 90",
        ),
        (
            "[history]\nmax_days = \"all\"\n",
            "line 2: invalid value: \"all\", expected a whole number from 1 to 3650",
        ),
        (
            "[launch]\nquiet_reads = -1",
            "line 2: invalid value: -1, expected a whole number from 1 to 1000",
        ),
        (
            "# first\nmode = \"auto\"\n",
            "line 2: unknown variant `auto`, expected `manual` or `automatic`",
        ),
        (
            "[log]\nlevel = \"info\"\nlevle = \"info\"\n",
            "line 3: unknown field `levle`, expected `level`",
        ),
        ("\n\nmoed = 1", "line 3: unknown field `moed`, expected"),
        ("\n[lunch]\n", "line 2: unknown field `lunch`"),
        ("[launch]\ntimeout_s = 1\ntimeout_s = 2\n", "line 3: dup"),
        ("\n\n[launch\n", "line 3: "),
        ("launch = 1", "line 1: invalid type: integer `1`"),
    ] {
        let error = refused(text);
        assert!(error.starts_with(&format!("file, {expected}")), "{error}");
    }
    for value in ["-1", "nan", "inf", "100.1", "\"1\""] {
        let error = refused(&format!("[prefetch]\npressure_percent = {value}"));
        assert!(
            error.ends_with("expected a number from 0 to 100"),
            "{error}"
        );
    }
    let whole = parse("[prefetch]\npressure_percent = 7").expect("right");
    assert_eq!(whole.prefetch.pressure_percent, 7.0);
    let error = Config::parse(Path::new("file"), b"\n# \xff").unwrap_err();
    assert_eq!(error.to_string(), "file, line 2: the text is not UTF-8");
}

#[test]
fn a_file_must_be_right_even_if_a_later_one_replaces_its_value() {
    let dir = files(&[
        (MAIN, "[history]\nmax_days = 0\n"),
        ("config.toml.d/1.toml", "[history]\nmax_days = 1\n"),
    ]);
    let error = Config::load(dir.path()).unwrap_err().to_string();
    let path = dir.path().join(MAIN);
    assert!(
        error.starts_with(&format!("{}, line 2: ", path.display())),
        "{error}"
    );
}

#[test]
fn a_window_must_fit_into_the_launch() {
    let window = "[launch]\nquiet_window_ms = 30000\n";
    let error = refused(window);
    assert!(
        error.contains("quiet_window_ms is 30000 ms and must be shorter"),
        "{error}"
    );
    let dir = files(&[
        (MAIN, window),
        ("config.toml.d/1.toml", "[launch]\ntimeout_s = 31"),
    ]);
    let limits = LaunchLimits::from(&Config::load(dir.path()).expect("right").launch);
    assert_eq!(
        (limits.window.as_secs(), limits.timeout.as_secs()),
        (30, 31)
    );
}

#[test]
fn the_defaults_are_those_of_a_launch_by_hand() {
    assert_eq!(
        LaunchLimits::from(&LaunchConfig::default()),
        LaunchLimits::default()
    );
}

#[test]
fn nothing_is_taken_from_files_that_others_could_have_made() {
    let dir = files(&[("elsewhere", "mode = \"manual\"\n")]);
    let main = dir.path().join(MAIN);
    let untrusted = |what: &str| {
        let error = Config::load(dir.path()).expect_err(what).to_string();
        assert!(error.contains(what), "{error}");
        assert!(error.contains(main.to_str().unwrap()), "{error}");
    };
    symlink("elsewhere", &main).unwrap();
    untrusted("symbolic link");
    fs::remove_file(&main).unwrap();
    fs::create_dir(&main).unwrap();
    untrusted("not a regular file");
    fs::remove_dir(&main).unwrap();
    fs::write(&main, "").unwrap();
    for mode in [0o620, 0o602] {
        fs::set_permissions(&main, fs::Permissions::from_mode(mode)).unwrap();
        untrusted("others may write it");
    }
    if rustix::process::geteuid().is_root() {
        fs::set_permissions(&main, fs::Permissions::from_mode(0o644)).unwrap();
        std::os::unix::fs::chown(&main, Some(65534), None).unwrap();
        untrusted("belongs to another user");
    }
}

#[test]
fn a_file_has_64_kib_at_most() {
    let fits = "#".repeat(MAX_FILE_BYTES);
    let dir = files(&[(MAIN, &fits)]);
    assert_eq!(Config::load(dir.path()).expect("right"), Config::default());
    fs::write(dir.path().join(MAIN), fits + "#").unwrap();
    let error = Config::load(dir.path()).unwrap_err().to_string();
    assert!(error.contains("is longer than 64 KiB"), "{error}");
}

#[test]
fn drop_ins_that_cannot_be_listed_are_an_error() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(DROP_INS), "").unwrap();
    let error = Config::load(dir.path()).unwrap_err().to_string();
    assert!(error.starts_with("cannot read "), "{error}");
}

#[test]
fn the_mode_is_changed_for_good_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("paralfetch");
    set_mode(&dir, Mode::Manual).expect("written");
    let path = dir.join("config.toml.d/90-mode.toml");
    let permissions = fs::metadata(&path).unwrap().permissions();
    assert_eq!(permissions.mode() & 0o777, 0o644);
    let text = "mode = \"automatic\"\n[launch]\ntimeout_s = 20\n";
    fs::write(dir.join(MAIN), text).unwrap();
    let config = Config::load(&dir).expect("right");
    assert_eq!((config.mode, config.launch.timeout_s), (Mode::Manual, 20));
    set_mode(&dir, Mode::Automatic).expect("written again");
    let config = Config::load(&dir).expect("right");
    let expected = (Mode::Automatic, 20);
    assert_eq!((config.mode, config.launch.timeout_s), expected);
    let left = fs::read_dir(dir.join(DROP_INS)).unwrap().count();
    assert_eq!(left, 1, "a temporary file was left behind");
}

#[test]
fn a_mode_that_would_not_take_effect_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    set_mode(dir.path(), Mode::Manual).unwrap();
    let path = dir.path().join(DROP_INS).join("90-mode.toml");
    let before = fs::read(&path).unwrap();
    let later = path.with_file_name("95-site.toml");

    fs::write(&later, "mode = \"manual\"\n").unwrap();
    let error = set_mode(dir.path(), Mode::Automatic).unwrap_err();
    let expected = format!("{} sets the mode", later.display());
    assert!(error.to_string().starts_with(&expected), "{error}");
    fs::write(&later, "mood = 1\n").unwrap();
    let error = set_mode(dir.path(), Mode::Automatic).unwrap_err();
    assert_eq!(error.line, Some(1), "{error}");
    assert_eq!(fs::read(&path).unwrap(), before);

    fs::write(&later, "[log]\nlevel = \"debug\"\n").unwrap();
    fs::write(&path, "damaged").unwrap();
    set_mode(dir.path(), Mode::Automatic).expect("replaced");
    assert_eq!(Config::load(dir.path()).unwrap().mode, Mode::Automatic);
}

/// A line that may be right, or nearly.
fn line() -> impl Strategy<Value = String> {
    let words = "mode launch timeout_s quiet_window_ms prefetch pressure_percent log level [ ] [[ { } = . \
        \"manual\" \" 1e309 -1 20 18446744073709551616 # ''' \u{0} \r 1979-05-27";
    let word = prop::sample::select(words.split(' ').collect::<Vec<_>>());
    prop::collection::vec(word, 0..6).prop_map(|words| words.join(" "))
}

proptest! {
    #[test]
    fn any_bytes_are_an_error_or_a_configuration(
        bytes in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..300),
            prop::collection::vec(line(), 0..8).prop_map(|lines| lines.join("\n").into_bytes()),
        ],
    ) {
        match Config::parse(Path::new("file"), &bytes) {
            Ok(config) => {
                // What is accepted stands in one file as well as in several.
                let again = Table::try_from(&config).unwrap();
                prop_assert_eq!(finish(Path::new("file"), again).expect("right"), config);
            }
            Err(ConfigError { line: Some(line), text }) => {
                let count = bytes.split(|&byte| byte == b'\n').count();
                prop_assert!((1..=count).contains(&line) && text.starts_with("file, line "));
            }
            Err(error) => prop_assert!(error.to_string().contains("do not go together"), "{error}"),
        }
    }
}
