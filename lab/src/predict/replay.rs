//! Launches of the past, from the database of a service.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use rusqlite::{Connection, OpenFlags};

use super::Group;
use super::histories::AppUse;

/// The launches of each user, in order of time, which is made the local one. When an app was closed nobody knows: each
/// counts as closed at once.
///
/// # Errors
/// The file is no history of the service, or has no launches.
pub fn users(database: &Path) -> Result<Vec<Group>> {
    let offset = TimeZone::system().to_offset(Timestamp::now());
    let groups = read(database, offset.seconds())
        .with_context(|| format!("cannot read the history {}", database.display()))?;
    ensure!(
        !groups.is_empty(),
        "the history {} has no launches",
        database.display()
    );
    Ok(groups)
}

fn read(database: &Path, utc_offset_s: i32) -> rusqlite::Result<Vec<Group>> {
    let db = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut launches = db.prepare("SELECT uid, app, time_s FROM launches ORDER BY time_s, id")?;
    let mut rows = launches.query([])?;
    let mut users: BTreeMap<u32, (BTreeMap<String, u32>, Vec<AppUse>)> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let (numbers, history) = users.entry(row.get("uid")?).or_default();
        let number = numbers.len() as u32;
        let app = *numbers.entry(row.get("app")?).or_insert(number);
        let time_s: i64 = row.get("time_s")?;
        let at_s = 0_u64.saturating_add_signed(time_s.saturating_add(i64::from(utc_offset_s)));
        let until_s = at_s;
        history.push(AppUse { app, at_s, until_s });
    }
    let group = |(uid, (_, history))| Group {
        name: format!("uid {uid}"),
        histories: vec![history],
    };
    Ok(users.into_iter().map(group).collect())
}

#[cfg(test)]
mod tests {
    use paralfetch::service::config::HistoryConfig;
    use paralfetch::service::history::{History, LaunchRecord};

    use super::*;

    fn launch(uid: u32, app: &str, time_s: u64) -> LaunchRecord {
        LaunchRecord {
            time_s,
            uid,
            app: app.to_owned(),
            ..LaunchRecord::default()
        }
    }

    #[test]
    fn users_of_a_services_history_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.sqlite");
        let (mut history, _) = History::open(&path, HistoryConfig::default()).unwrap();
        let launches = [
            launch(1000, "/usr/bin/vlc", 100_000),
            launch(1001, "/usr/bin/gimp", 100_010),
            launch(1000, "/usr/bin/gimp", 100_030),
            launch(1000, "/usr/bin/vlc", 100_020),
        ];
        history.add(&launches).unwrap();
        drop(history);
        let groups = read(&path, -3600).unwrap();
        let found: Vec<(&str, Vec<(u32, u64)>)> = groups
            .iter()
            .map(|group| {
                let uses = group.histories[0].iter();
                let uses = uses.map(|used| (used.app, used.at_s)).collect();
                (group.name.as_str(), uses)
            })
            .collect();
        assert_eq!(
            found,
            [
                ("uid 1000", vec![(0, 96_400), (0, 96_420), (1, 96_430)]),
                ("uid 1001", vec![(0, 96_410)])
            ]
        );
    }

    #[test]
    fn what_is_no_history_is_said_with_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.sqlite");
        let complaint = |path: &Path| format!("{:#}", users(path).err().unwrap());
        assert!(complaint(&path).contains("history.sqlite"));
        History::open(&path, HistoryConfig::default()).unwrap();
        assert!(complaint(&path).ends_with("has no launches"));
    }
}
