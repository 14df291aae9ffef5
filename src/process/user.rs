//! The user on whose behalf we run as root.

use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::unistd;

use super::session;

/// Variables that name the user, and hence must not keep naming root.
const REPLACED: [&str; 4] = ["HOME", "USER", "LOGNAME", "SHELL"];

/// A user and the groups that go with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// User id; never 0.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Supplementary groups, usually with the primary group among them.
    pub groups: Vec<u32>,
    /// Login name; the number where the user has no account.
    pub name: OsString,
    /// Home directory.
    pub home: PathBuf,
    /// Login shell.
    pub shell: PathBuf,
}

impl User {
    /// The user who called us through sudo(8) or pkexec(1), by SUDO_UID and SUDO_GID or PKEXEC_UID.
    ///
    /// `None` if we are not root, so that the variables cannot be meant, or if root itself called.
    pub fn invoking() -> Option<User> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let (uid, gid) = invoker(|name| env::var_os(name))?;
        Some(Self::with_ids(uid, gid))
    }

    /// Real user id of what we start for this user, or for ourselves.
    pub fn uid_of(user: Option<&User>) -> u32 {
        user.map_or_else(|| rustix::process::getuid().as_raw(), |user| user.uid)
    }

    /// The user with this id. A user without an account, or one whose account cannot be read, gets no
    /// supplementary groups: the app is better started without them than not at all.
    fn with_ids(uid: u32, gid: Option<u32>) -> User {
        let Ok(Some(account)) = unistd::User::from_uid(uid.into()) else {
            let gid = gid.unwrap_or(uid);
            return User {
                uid,
                gid,
                groups: vec![gid],
                name: uid.to_string().into(),
                home: "/".into(),
                shell: "/bin/sh".into(),
            };
        };
        let gid = gid.unwrap_or(account.gid.as_raw());
        let or = |path: PathBuf, default: &str| match path.as_os_str().is_empty() {
            true => default.into(),
            false => path,
        };
        let groups = groups_of(&account.name, gid).unwrap_or_else(|| vec![gid]);
        User {
            uid,
            gid,
            groups,
            name: account.name.into(),
            home: or(account.dir, "/"),
            shell: or(account.shell, "/bin/sh"),
        }
    }

    /// Root's environment `vars` turned into this user's: the variables that name the user are
    /// replaced, those of sudo and pkexec dropped, and what is missing of the user's session added:
    /// its display and desktop, as the process has them that called sudo, and its runtime directory
    /// and bus, if they exist.
    pub fn environment(
        &self,
        vars: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Vec<(OsString, OsString)> {
        let session = session::variables(self.uid);
        self.environment_given(vars, session, Path::exists)
    }

    fn environment_given(
        &self,
        vars: impl IntoIterator<Item = (OsString, OsString)>,
        session: Vec<(OsString, OsString)>,
        exists: impl Fn(&Path) -> bool,
    ) -> Vec<(OsString, OsString)> {
        let is_kept = |name: &OsStr| {
            !name.as_bytes().starts_with(b"SUDO_")
                && name != "PKEXEC_UID"
                && !REPLACED.iter().any(|replaced| name == *replaced)
        };
        let mut result: Vec<(OsString, OsString)> =
            vars.into_iter().filter(|(name, _)| is_kept(name)).collect();
        if let Some((_, mail)) = result.iter_mut().find(|(name, _)| name == "MAIL") {
            *mail = Path::new("/var/mail").join(&self.name).into();
        }
        let (home, shell) = (self.home.as_os_str(), self.shell.as_os_str());
        for (name, value) in REPLACED
            .into_iter()
            .zip([home, &self.name, &self.name, shell])
        {
            result.push((name.into(), value.into()));
        }
        let runtime = PathBuf::from(format!("/run/user/{}", self.uid));
        let bus = runtime.join("bus");
        let mut added = Vec::new();
        if exists(&bus) {
            let mut address = OsString::from("unix:path=");
            address.push(&bus);
            added.push(("DBUS_SESSION_BUS_ADDRESS".into(), address));
        }
        if exists(&runtime) {
            added.push(("XDG_RUNTIME_DIR".into(), runtime.into()));
        }
        for (name, value) in added.into_iter().chain(session) {
            if !result.iter().any(|(present, _)| *present == name) {
                result.push((name, value));
            }
        }
        result
    }
}

/// All groups of the user `name`, `gid` included; `None` if they cannot be read.
fn groups_of(name: &str, gid: u32) -> Option<Vec<u32>> {
    let name = CString::new(name).ok()?;
    let groups = unistd::getgrouplist(&name, gid.into()).ok()?;
    Some(groups.into_iter().map(unistd::Gid::as_raw).collect())
}

/// User and group id of the caller, unless that is root. sudo goes first: it clears PKEXEC_UID when
/// it is the inner of the two, and pkexec clears everything.
fn invoker(var: impl Fn(&str) -> Option<OsString>) -> Option<(u32, Option<u32>)> {
    let id = |name| var(name).and_then(|text| parse_id(&text));
    let (uid, gid) = match id("SUDO_UID") {
        Some(uid) => (uid, id("SUDO_GID")),
        None => (id("PKEXEC_UID")?, None),
    };
    (uid != 0).then_some((uid, gid))
}

/// A user or group id in decimal. The largest number is no id: it means "unchanged" to the kernel.
fn parse_id(text: &OsStr) -> Option<u32> {
    let text = text.to_str()?;
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let id = digits.then(|| text.parse().ok()).flatten()?;
    (id != u32::MAX).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(vars: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        vars.iter().map(|(n, v)| (n.into(), v.into())).collect()
    }

    #[test]
    fn the_invoker_is_named_by_sudo_or_pkexec() {
        for (vars, expected) in [
            (&[][..], None),
            (&[("SUDO_UID", "7"), ("SUDO_GID", "8")], Some((7, Some(8)))),
            (&[("SUDO_UID", "7"), ("SUDO_GID", "x")], Some((7, None))),
            (&[("SUDO_UID", "0"), ("SUDO_GID", "0")], None),
            (&[("PKEXEC_UID", "9")], Some((9, None))),
            (&[("PKEXEC_UID", "9"), ("SUDO_UID", "7")], Some((7, None))),
        ] {
            let vars = pairs(vars);
            let var = |name: &str| vars.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
            assert_eq!(invoker(var), expected, "{vars:?}");
        }
    }

    #[test]
    fn only_plain_decimal_ids_are_parsed() {
        let invalid = "|-1|+1| 1|1 |0x1|4294967295|4294967296";
        for text in invalid.split('|').map(OsStr::new) {
            assert_eq!(parse_id(text), None, "{text:?}");
        }
        assert_eq!(parse_id(OsStr::from_bytes(b"1\xff")), None);
        assert_eq!(parse_id(OsStr::new("4294967294")), Some(u32::MAX - 1));
        assert_eq!(parse_id(OsStr::new("0")), Some(0));
    }

    /// Root's variables, those of the session, those that the user gets besides the account's.
    type Vars<'a> = &'a [(&'a str, &'a str)];

    #[test]
    fn roots_environment_becomes_the_users() {
        let ada = User {
            uid: 1000,
            gid: 100,
            groups: vec![100, 44],
            name: "ada".into(),
            home: "/home/ada".into(),
            shell: "/bin/zsh".into(),
        };
        let account = [
            ("HOME", "/home/ada"),
            ("LOGNAME", "ada"),
            ("SHELL", "/bin/zsh"),
            ("USER", "ada"),
        ];
        let roots = [
            ("HOME", "/root"),
            ("USER", "root"),
            ("LOGNAME", "root"),
            ("SHELL", "/bin/bash"),
            ("MAIL", "/var/mail/root"),
            ("SUDO_UID", "1000"),
            ("SUDO_COMMAND", "paralfetch"),
            ("PKEXEC_UID", "1000"),
            ("LANG", "C"),
            ("SUDOKU", "yes"),
        ];
        let runtime = ("XDG_RUNTIME_DIR", "/run/user/1000");
        let elsewhere = ("XDG_RUNTIME_DIR", "/elsewhere");
        let bus = ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/run/user/1000/bus");
        let session = [("LANG", "fr"), ("DISPLAY", ":0")];
        let kept = [("LANG", "C"), ("MAIL", "/var/mail/ada"), ("SUDOKU", "yes")];
        let cases: [(Vars, Vars, &[&str], Vars); 5] = [
            (&roots, &[], &[], &kept),
            (
                &[("LANG", "C")],
                &session,
                &[],
                &[("DISPLAY", ":0"), ("LANG", "C")],
            ),
            (&[elsewhere], &[], &["", "/bus"], &[elsewhere, bus]),
            (&[], &[], &["", "/bus"], &[runtime, bus]),
            (&[], &[], &[""], &[runtime]),
        ];
        for (root, session, existing, expected) in cases {
            let exists = |path: &Path| {
                let path = path.to_str().unwrap().strip_prefix("/run/user/1000");
                existing.contains(&path.unwrap())
            };
            let mut found = ada.environment_given(pairs(root), pairs(session), exists);
            let mut expected = pairs(&[expected, &account].concat());
            found.sort();
            expected.sort();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn an_account_has_the_primary_group_that_was_asked_for() {
        let root = User::with_ids(0, Some(12_345));
        assert_eq!((&*root.name, root.gid), (OsStr::new("root"), 12_345));
        assert!(root.groups.contains(&12_345));
        assert_eq!(User::with_ids(0, None).gid, 0);
    }

    #[test]
    fn a_user_without_an_account_has_one_group_and_a_number_as_name() {
        let is_unknown = |uid: &u32| unistd::User::from_uid((*uid).into()).unwrap().is_none();
        let uid = (3_000_000_000..).find(is_unknown).unwrap();
        let user = User::with_ids(uid, Some(5));
        assert_eq!((user.uid, user.gid, user.groups), (uid, 5, vec![5]));
        assert_eq!(user.name, OsString::from(uid.to_string()));
    }
}
