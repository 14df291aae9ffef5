use std::os::unix::fs::{PermissionsExt, symlink};

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
fn the_shipped_file_names_the_ranges_that_are_enforced() {
    let defaults = Table::try_from(Config::default()).unwrap();
    let mut numbers = 0;
    for (section, values) in &defaults {
        let Value::Table(values) = values else {
            continue;
        };
        for (key, default) in values {
            if !matches!(default, Value::Integer(_) | Value::Float(_)) {
                continue;
            }
            let error = refused(&format!("[{section}]\n{key} = 1000000000"));
            let (_, range) = error.split_once(" from ").expect(&error);
            let prose = SHIPPED.split(&format!("\n#{key} = ")).next().unwrap();
            let prose = prose.rsplit("\n\n").next().unwrap().replace("\n# ", " ");
            let end = prose.rsplit(" From ").next().unwrap();
            assert!(end.starts_with(range), "{key}: {range} is not in {prose:?}");
            numbers += 1;
        }
    }
    assert_eq!(numbers, 11);
}

#[test]
fn the_manual_names_every_value_with_its_default_and_range() {
    let manual = include_str!("../../../man/paralfetch.toml.5");
    let described = |key: &str, default: &Value| {
        let (_, text) = manual.split_once(&format!("\\fB{key}\\fR = ")).expect(key);
        let text = text.split("\n.TP").next().unwrap();
        let text = text.split("\n.SS").next().unwrap().replace('\n', " ");
        let said = text.contains(&format!("Default: {default}."));
        assert!(said, "{key}: {default} is not in {text:?}");
        text
    };
    for (section, values) in &Table::try_from(Config::default()).unwrap() {
        let Value::Table(values) = values else {
            described(section, values);
            continue;
        };
        for (key, default) in values {
            let text = described(key, default);
            if matches!(default, Value::Integer(_) | Value::Float(_)) {
                let error = refused(&format!("[{section}]\n{key} = 1000000000"));
                let (_, range) = error.split_once(" from ").expect(&error);
                assert!(
                    text.contains(&format!(" {range}. ")),
                    "{key}: {range} is not in {text:?}"
                );
            }
        }
    }
}

#[test]
fn no_file_means_the_defaults() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(Config::load(dir.path()).expect("right"), Config::default());
    let missing = dir.path().join("missing");
    assert_eq!(Config::load(&missing).expect("right"), Config::default());
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
    let error = refused("\n[prefetch]\nmax_memory_percent = 91\n");
    assert_eq!(
        error,
        "file, line 3: invalid value: integer `91`, expected a whole number from 1 to 90"
    );
    let error = refused("[history]\nmax_days = \"all\"\n");
    assert_eq!(
        error,
        "file, line 2: invalid type: string \"all\", expected a whole number from 1 to 3650"
    );
    let error = refused("# first\nmode = \"auto\"\n");
    assert_eq!(
        error,
        "file, line 2: unknown variant `auto`, expected `manual` or `automatic`"
    );
    let error = refused("[log]\nlevel = \"info\"\nlevle = \"info\"\n");
    assert_eq!(
        error,
        "file, line 3: unknown field `levle`, expected `level`"
    );
    assert!(refused("\n\nmoed = 1").starts_with("file, line 3: unknown field `moed`, expected"));
    assert!(refused("\n[lunch]\n").starts_with("file, line 2: unknown field `lunch`"));
    assert!(refused("[launch]\ntimeout_s = 1\ntimeout_s = 2\n").starts_with("file, line 3: dup"));
    assert!(refused("\n\n[launch\n").starts_with("file, line 3: "));
    assert!(refused("launch = 1").starts_with("file, line 1: invalid type: integer `1`"));
    for value in ["-1", "nan", "inf", "100.1"] {
        let error = refused(&format!("[prefetch]\npressure_percent = {value}"));
        assert!(
            error.ends_with("expected a number from 0 to 100"),
            "{error}"
        );
    }
    let whole = parse("[prefetch]\npressure_percent = 7").expect("right");
    assert_eq!(whole.prefetch.pressure_percent, 7.0);
    let negative = refused("[launch]\nquiet_reads = -1");
    assert!(negative.contains("integer `-1`"), "{negative}");
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
    let error = Config::load(dir.path()).unwrap_err();
    assert!(matches!(error, ConfigError::TooLong { .. }), "{error}");
}

#[test]
fn drop_ins_that_cannot_be_listed_are_an_error() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(DROP_INS), "").unwrap();
    let error = Config::load(dir.path()).unwrap_err().to_string();
    assert!(error.starts_with("cannot read "), "{error}");
}

/// A line that may be right, or nearly.
fn line() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "mode",
        "launch",
        "timeout_s",
        "quiet_window_ms",
        "prefetch",
        "pressure_percent",
        "log",
        "level",
        "[",
        "]",
        "[[",
        "{",
        "}",
        "=",
        ".",
        "\"manual\"",
        "\"",
        "1e309",
        "-1",
        "20",
        "18446744073709551616",
        "#",
        "'''",
        "\u{0}",
        "\r",
        "1979-05-27",
    ]);
    prop::collection::vec(word, 0..6).prop_map(|words| words.join(" "))
}

proptest! {
    #[test]
    fn any_bytes_are_an_error_or_a_configuration(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Err(error) = Config::parse(Path::new("file"), &bytes) {
            prop_assert!(error.to_string().contains("file"));
        }
    }

    #[test]
    fn any_lines_are_an_error_of_one_of_them_or_a_configuration(
        lines in prop::collection::vec(line(), 0..8),
    ) {
        match parse(&lines.join("\n")) {
            Ok(config) => {
                // What is accepted stands in one file as well as in several.
                let again = Table::try_from(&config).unwrap();
                prop_assert_eq!(finish(Path::new("file"), again).expect("right"), config);
            }
            Err(ConfigError::Invalid { line, .. }) => {
                let count = lines.join("\n").split('\n').count();
                prop_assert!((1..=count).contains(&line));
            }
            Err(error) => prop_assert!(matches!(error, ConfigError::Together { .. }), "{error}"),
        }
    }

    /// Values that are split over files in any way give what one file with all of them gives.
    #[test]
    fn files_add_up(
        (timeout, reads) in (31u64..100, 1u64..100),
        (mode, level) in (any::<bool>(), any::<bool>()),
        places in prop::collection::vec(0usize..3, 4),
    ) {
        let mode = if mode { Mode::Manual } else { Mode::Automatic };
        let level = if level { LogLevel::Error } else { LogLevel::Debug };
        let values = [
            format!("mode = \"{mode}\"\n"),
            format!("launch.timeout_s = {timeout}\n"),
            format!("launch.quiet_reads = {reads}\n"),
            format!("log.level = \"{level}\"\n"),
        ];
        let mut texts = [String::new(), String::new(), String::new()];
        for (value, place) in values.iter().zip(places) {
            texts[place].push_str(value);
        }
        let dir = files(&[
            (MAIN, &texts[0]),
            ("config.toml.d/a.toml", &texts[1]),
            ("config.toml.d/b.toml", &texts[2]),
        ]);
        let whole = parse(&values.concat()).expect("right");
        prop_assert_eq!(Config::load(dir.path()).expect("right"), whole);
    }
}
