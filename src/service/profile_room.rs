//! Room for the profiles of one user's apps.

use crate::model::UserApp;

/// A profile of a user, as far as it matters for room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptProfile {
    /// When the app was launched last, in seconds since the epoch; 0 if it never was.
    pub last_s: u64,
    /// Bytes of its file, which are kept in memory, too.
    pub bytes: u64,
    /// Whose profile it is.
    pub key: UserApp,
}

/// The apps of a user that lose their profiles if these may take `most` bytes together: those that were launched
/// longest ago. `kept` are all that count.
pub fn without_room(mut kept: Vec<KeptProfile>, most: u64) -> Vec<UserApp> {
    kept.sort_unstable_by(|a, b| (b.last_s, &a.key).cmp(&(a.last_s, &b.key)));
    let mut taken = 0u64;
    let surplus = kept.into_iter().skip_while(|profile| {
        taken = taken.saturating_add(profile.bytes);
        taken <= most
    });
    surplus.map(|profile| profile.key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_apps_that_were_launched_longest_ago_make_room() {
        let kept = |name: &str, last_s, bytes| KeptProfile {
            last_s,
            bytes,
            key: UserApp::new(1000, name),
        };
        let all = vec![
            kept("/old", 10, 40),
            kept("/new", 30, 50),
            kept("/never", 0, 1),
            kept("/middle", 20, 30),
        ];
        let names = |most| {
            let gone = without_room(all.clone(), most);
            gone.into_iter().map(|key| key.id).collect::<Vec<_>>()
        };
        assert!(names(121).is_empty());
        assert_eq!(names(120), ["/never"]);
        assert_eq!(names(119), ["/old", "/never"]);
        assert_eq!(names(50), ["/middle", "/old", "/never"]);
        assert_eq!(names(0).len(), 4);
    }
}
