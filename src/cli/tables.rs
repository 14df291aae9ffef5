//! Apps and launches in tables, for `status`, `stats`, `list` and `watch`.
//!
//! What has a bound comes first and names come last: without long names, rows fit into 80 columns.

use crate::cli::format;
use crate::cli::format::{date, day, kib, mib, recent};
use crate::cli::terminal::cut_behind;
use crate::service::control::bus::EVERYBODY;
use crate::service::control::{AppState, FileReads, LaunchRecord, ReadKind, word};

/// One line for each app, one for why it is in its phase and one for its anticipated launches, below a heading; with its user, if those of several are
/// shown.
pub fn apps_table(apps: &[AppState], shows_users: bool) -> Vec<String> {
    if apps.is_empty() {
        return vec!["no app is managed".to_owned()];
    }
    let mut lines = vec![format!(
        "{:<11} {:>8} {:<10} {:>8} {:>13}  {}app",
        "phase",
        "launches",
        "last",
        "typical",
        "gain",
        heading(shows_users),
    )];
    for app in apps {
        lines.push(format!(
            "{:<11} {:>8} {:<10} {:>8} {:>13}  {}{}",
            app.phase,
            app.launches,
            app.last_s.map_or_else(|| "never".to_owned(), day),
            duration(app.duration_us),
            gain(app),
            user_column(app.uid, shows_users),
            app.app,
        ));
        lines.extend((!app.why.is_empty()).then(|| format!("    {}", app.why)));
        lines.extend(anticipated(app).map(|anticipated| format!("    {anticipated}")));
    }
    lines
}

/// One line for each launch and one for its note, below a heading; with its user and its app, if those of several are
/// shown.
pub fn launches_table(
    launches: &[LaunchRecord],
    shows_users: bool,
    shows_apps: bool,
) -> Vec<String> {
    if launches.is_empty() {
        return vec!["no launch was recorded".to_owned()];
    }
    let head = format!(
        "{:<11} {:<20} {:<6} {:>8} {:>8} {:>10}  {}{}",
        "time",
        "done",
        "caches",
        "took",
        "waited",
        "read",
        heading(shows_users),
        if shows_apps { "app" } else { "" }
    );
    let mut lines = vec![head.trim_end().to_owned()];
    for launch in launches {
        let app = if shows_apps { &*launch.app } else { "" };
        let when = recent(launch.time_s);
        let line = format!("{when:<11} {}{app}", figures(launch, shows_users));
        lines.push(line.trim_end().to_owned());
        lines.extend(launch.note.iter().map(|note| format!("    {note}")));
    }
    lines
}

/// What the newest launch of which that is known read itself, a line for each file; empty if none is known.
pub fn own_reads_table(launches: &[LaunchRecord], columns: Option<usize>) -> Vec<String> {
    let known = |launch: &LaunchRecord| Some((launch.time_s, launch.own_reads.clone()?));
    let Some((time_s, files)) = launches.iter().find_map(known) else {
        return Vec::new();
    };
    let when = date(time_s);
    if files.is_empty() {
        return vec![format!(
            "The prefetched launch of {when} read nothing itself."
        )];
    }
    let mut lines = vec![
        format!("What the prefetched launch of {when} still read itself:"),
        format!(
            "{:>6} {:>10} {:>14}  file",
            "reads", "read", "not in profile"
        ),
    ];
    const BEFORE_NAME: usize = 6 + 1 + 10 + 1 + 14 + 2;
    lines.extend(files.iter().map(|file| {
        let name = cut_behind(read_name(file), BEFORE_NAME, columns);
        format!(
            "{:>6} {:>10} {:>14}  {name}",
            file.reads,
            kib(file.bytes),
            kib(file.not_in_profile_bytes),
        )
    }));
    lines
}

/// What was read, in words.
pub fn read_name(file: &FileReads) -> &str {
    match (file.kind, file.path.as_str()) {
        (ReadKind::Metadata, _) => "metadata of the file system",
        (ReadKind::Data, "") => "a file whose name is not known",
        (ReadKind::Data, path) => path,
    }
}

/// One launch of any app, which was over just now.
pub fn launch_line(launch: &LaunchRecord, shows_user: bool) -> String {
    let note = launch.note.as_ref();
    let note = note.map_or(String::new(), |note| format!(" ({note})"));
    let when = format::time_of_day(launch.time_s);
    format!("{when} {}{}{note}", figures(launch, shows_user), launch.app)
}

fn figures(launch: &LaunchRecord, shows_user: bool) -> String {
    format!(
        "{:<20} {:<6} {:>8} {:>8} {:>10}  {}",
        launch.done(),
        launch.warmth.map_or(String::new(), word),
        duration(launch.duration_us),
        duration(launch.waiting_us),
        mib(launch.read_bytes),
        user_column(launch.uid, shows_user),
    )
}

fn heading(shows_users: bool) -> String {
    match shows_users {
        true => format!("{:<10} ", "user"),
        false => String::new(),
    }
}

/// The name of a user in a column of its own, if the users of several are shown.
pub fn user_column(uid: u32, shows_user: bool) -> String {
    match shows_user {
        true => format!("{:<10} ", user_name(uid)),
        false => String::new(),
    }
}

/// The name of a user, or his number where he has no account.
pub fn user_name(uid: u32) -> String {
    if uid == EVERYBODY {
        return "all".to_owned();
    }
    let account = nix::unistd::User::from_uid(uid.into());
    let account = account.ok().flatten();
    account.map_or_else(|| uid.to_string(), |account| account.name)
}

/// What prefetching saves of each cold launch, as a share of its time and in seconds.
fn gain(app: &AppState) -> String {
    let Some(percent) = app.gain_percent else {
        return "-".to_owned();
    };
    match (app.cold_with_us, app.cold_without_us) {
        (Some(with_us), Some(without_us)) => {
            let saved_us = without_us as f64 - with_us as f64;
            format!("{percent} % {:.2} s", saved_us / 1e6)
        }
        _ => format!("{percent} %"),
    }
}

/// How many of an app's launches found their pages read before they began, if any, and what that has saved as far as
/// it is known.
pub fn anticipated(app: &AppState) -> Option<String> {
    let launches = format::counted(app.anticipated, "launch", "launches");
    let saved = match app.anticipated_saved_us {
        0 => String::new(),
        saved_us => format!(", {:.1} s saved", saved_us as f64 / 1e6),
    };
    (app.anticipated > 0).then(|| format!("{launches} anticipated{saved}"))
}

/// A time in microseconds, if it is known.
pub fn duration(us: Option<u64>) -> String {
    us.map_or_else(|| "-".to_owned(), format::seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::history::Kind;

    #[test]
    fn why_an_app_is_in_its_phase_stands_below_it() {
        let app = |app: &str, why: &str| AppState {
            app: app.to_owned(),
            why: why.to_owned(),
            ..AppState::default()
        };
        let lines = apps_table(&[app("/a", "for a reason"), app("/b", "")], false);
        assert_eq!(lines.len(), 4);
        assert!(lines[1].ends_with("/a") && lines[3].ends_with("/b"));
        assert_eq!(lines[2], "    for a reason");
    }

    #[test]
    fn anticipated_launches_stand_below_their_app_if_there_were_any() {
        let app = |anticipated, anticipated_saved_us| AppState {
            phase: "learning".to_owned(),
            why: "for a reason".to_owned(),
            anticipated,
            anticipated_saved_us,
            ..AppState::default()
        };
        let lines = apps_table(&[app(1, 0), app(3, 4_200_000), app(0, 0)], false);
        let notes = lines.iter().filter(|line| line.starts_with("    "));
        assert_eq!(
            notes.map(|note| note.trim()).collect::<Vec<_>>(),
            [
                "for a reason",
                "1 launch anticipated",
                "for a reason",
                "3 launches anticipated, 4.2 s saved",
                "for a reason",
            ]
        );
    }

    #[test]
    fn unknown_figures_are_dashes() {
        let app = AppState {
            app: "/a".to_owned(),
            phase: "learning".to_owned(),
            ..AppState::default()
        };
        let lines = apps_table(&[app], false);
        let words: Vec<&str> = lines[1].split_whitespace().collect();
        assert_eq!(words, ["learning", "0", "never", "-", "-", "/a"]);
        assert_eq!(lines.len(), 2, "nothing hinders it");
        let app = AppState {
            gain_percent: Some(60),
            cold_with_us: Some(280_000),
            cold_without_us: Some(700_000),
            ..AppState::default()
        };
        assert_eq!(gain(&app), "60 % 0.42 s");
    }

    #[test]
    fn launches_have_their_app_and_user_where_there_are_several() {
        let launch = LaunchRecord {
            waiting_us: Some(1_250_000),
            app: "/a".to_owned(),
            kind: Kind::Learned,
            note: Some("n".to_owned()),
            ..LaunchRecord::default()
        };
        for (shows_user, app) in [(false, "/a"), (true, "root /a")] {
            let line = launch_line(&launch, shows_user);
            let words: Vec<&str> = line.split_whitespace().skip(1).collect();
            let expected = format!("learned - 1.250 s 0.0 MiB {app} (n)");
            assert_eq!(words.join(" "), expected);
        }
        let table = launches_table(&[launch], false, false);
        assert!(!table.join("\n").contains("/a"), "{table:?}");
        assert_eq!(table.last().unwrap(), "    n");
    }

    #[test]
    fn the_newest_launch_whose_own_reads_are_known_is_shown() {
        let of = |own_reads| LaunchRecord {
            own_reads,
            ..LaunchRecord::default()
        };
        let file = |kind, path: &str| FileReads {
            kind,
            path: path.to_owned(),
            reads: 2,
            bytes: 40 << 10,
            not_in_profile_bytes: 8 << 10,
        };
        let files = vec![
            file(ReadKind::Data, "/usr/lib/a.so"),
            file(ReadKind::Metadata, ""),
            file(ReadKind::Data, ""),
        ];
        let table = |launches: &[LaunchRecord]| own_reads_table(launches, None);
        let lines = table(&[of(None), of(Some(files)), of(Some(Vec::new()))]);
        assert_eq!(
            lines[1..],
            [
                " reads       read not in profile  file",
                "     2     40 KiB          8 KiB  /usr/lib/a.so",
                "     2     40 KiB          8 KiB  metadata of the file system",
                "     2     40 KiB          8 KiB  a file whose name is not known",
            ]
        );
        let nothing = table(&[of(Some(Vec::new()))]).concat();
        assert!(nothing.ends_with(" read nothing itself."), "{nothing}");
        assert!(table(&[of(None)]).is_empty());
    }

    #[test]
    fn rows_fit_into_80_columns() {
        let app = AppState {
            app: "/usr/bin/gimp".to_owned(),
            phase: "prefetching".to_owned(),
            launches: 99_999,
            last_s: Some(1_700_000_000),
            duration_us: Some(99_999_000),
            gain_percent: Some(100),
            cold_with_us: Some(1),
            cold_without_us: Some(10_000_000),
            ..AppState::default()
        };
        let launch = LaunchRecord {
            time_s: 1_700_000_000,
            duration_us: Some(99_999_000),
            waiting_us: Some(99_999_000),
            read_bytes: 2000 << 20,
            kind: Kind::Prefetched,
            warmth: Some(crate::policy::Warmth::Partly),
            ..LaunchRecord::default()
        };
        let own_reads = vec![FileReads {
            path: "/usr/lib/".to_owned() + &"long/".repeat(20),
            reads: 512,
            bytes: 512 << 20,
            not_in_profile_bytes: 512 << 20,
            ..FileReads::default()
        }];
        let launch = LaunchRecord {
            own_reads: Some(own_reads),
            ..launch
        };
        let mut lines = apps_table(&[app], true);
        lines.extend(own_reads_table(std::slice::from_ref(&launch), Some(80)));
        lines.extend(launches_table(&[launch], true, false));
        let long = lines.iter().find(|line| line.chars().count() > 80);
        assert_eq!(long, None);
    }
}
