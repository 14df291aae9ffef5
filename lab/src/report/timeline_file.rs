//! The timelines of single launches, as `DIR/timelines/*.json` holds them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::timeline::Timeline;

/// Reads all timelines of a result directory, ordered by device, app and file name; none where there is
/// no such folder. A file that is no timeline is left out and noted.
///
/// # Errors
/// The folder or a file cannot be read.
pub fn load(dir: &Path) -> Result<(Vec<Timeline>, Vec<String>)> {
    let folder = dir.join("timelines");
    let (mut timelines, mut notes) = (Vec::new(), Vec::new());
    if !folder
        .try_exists()
        .with_context(|| format!("cannot look at {}", folder.display()))?
    {
        return Ok((timelines, notes));
    }
    let entries =
        fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .with_context(|| format!("cannot list {}", folder.display()))?;
    paths.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "json")
    });
    paths.sort();
    for path in paths {
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        match serde_json::from_slice::<Timeline>(&bytes) {
            Ok(timeline) => timelines.push(timeline),
            Err(error) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                notes.push(format!(
                    "timelines/{name} is no timeline and is left out ({error})."
                ));
            }
        }
    }
    timelines.sort_by(|a, b| (&a.device, &a.app).cmp(&(&b.device, &b.app)));
    Ok((timelines, notes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::Why;

    #[test]
    fn reads_the_format() {
        let text = r#"{"device":"qlc-sata","app":"gimp","scenario":"infill","seconds":1.23,"window":1.1,
            "completion":null,"cpu":[[0,10,2]],"waiting":[[3,4,1]],"queue":[[0,3],[5,0]],
            "prefetch":[[1,20]],"app_position":[[2,10]],"total_pages":20,"misses":[{"time_us":3,
            "wait_us":1,"what":"inode table","offset":7,"pages":1,"why":"came too late"}],
            "before":[[0,8,1,1]],"after":[[0,16,2,0]]}"#;
        let timeline: Timeline = serde_json::from_str(text).unwrap();
        assert_eq!(timeline.window, Some(1.1));
        assert_eq!(timeline.completion, None);
        assert_eq!(timeline.misses[0].what, "inode table");
        assert_eq!(timeline.misses[0].why, Why::CameTooLate);
        assert_eq!(timeline.before, [[0, 8, 1, 1]]);
    }

    #[test]
    fn a_folder_is_optional_and_a_broken_file_is_said() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(load(dir.path()).unwrap(), (vec![], vec![]));
        let folder = dir.path().join("timelines");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("a.json"), "{").unwrap();
        fs::write(
            folder.join("b.json"),
            serde_json::to_vec(&Timeline::default()).unwrap(),
        )
        .unwrap();
        fs::write(folder.join("notes.txt"), "not looked at").unwrap();
        let (timelines, notes) = load(dir.path()).unwrap();
        assert_eq!(timelines, [Timeline::default()]);
        assert_eq!(notes.len(), 1);
        assert!(notes[0].contains("a.json"), "{notes:?}");
    }
}
