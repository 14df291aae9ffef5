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
        let or = |path: PathBuf, default: &str| {
            if path.as_os_str().is_empty() {
                default.into()
            } else {
                path
            }
        };
        User {
            uid,
            gid,
            groups: groups_of(&account.name, gid).unwrap_or_else(|| vec![gid]),
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
        let mut result = self.environment_given(vars, Path::exists);
        for (name, value) in session::variables(self.uid) {
            if !result.iter().any(|(present, _)| *present == name) {
                result.push((name, value));
            }
        }
        result
    }

    fn environment_given(
        &self,
        vars: impl IntoIterator<Item = (OsString, OsString)>,
        exists: impl Fn(&Path) -> bool,
    ) -> Vec<(OsString, OsString)> {
        let mail = Path::new("/var/mail").join(&self.name).into_os_string();
        let mut result: Vec<(OsString, OsString)> = vars
            .into_iter()
            .filter(|(name, _)| {
                !name.as_bytes().starts_with(b"SUDO_")
                    && name != "PKEXEC_UID"
                    && !REPLACED.iter().any(|replaced| name == replaced)
            })
            .map(|(name, value)| {
                let value = if name == "MAIL" { mail.clone() } else { value };
                (name, value)
            })
            .collect();
        let values = [
            self.home.as_os_str(),
            &self.name,
            &self.name,
            self.shell.as_os_str(),
        ];
        for (name, value) in REPLACED.into_iter().zip(values) {
            result.push((name.into(), value.into()));
        }
        let runtime = PathBuf::from(format!("/run/user/{}", self.uid));
        let bus = runtime.join("bus");
        let mut bus_address = OsString::from("unix:path=");
        bus_address.push(&bus);
        for (name, path, value) in [
            ("XDG_RUNTIME_DIR", &runtime, runtime.clone().into()),
            ("DBUS_SESSION_BUS_ADDRESS", &bus, bus_address),
        ] {
            if exists(path) && !result.iter().any(|(present, _)| present == name) {
                result.push((name.into(), value));
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

    fn ada() -> User {
        User {
            uid: 1000,
            gid: 100,
            groups: vec![100, 44],
            name: "ada".into(),
            home: "/home/ada".into(),
            shell: "/bin/zsh".into(),
        }
    }

    fn sorted(mut vars: Vec<(OsString, OsString)>) -> Vec<(OsString, OsString)> {
        vars.sort();
        vars
    }

    #[test]
    fn the_invoker_is_named_by_sudo_or_pkexec() {
        let called = |vars: &[(&str, &str)]| {
            let vars = pairs(vars);
            invoker(|name| vars.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone()))
        };
        assert_eq!(called(&[]), None);
        assert_eq!(
            called(&[("SUDO_UID", "7"), ("SUDO_GID", "8")]),
            Some((7, Some(8)))
        );
        assert_eq!(
            called(&[("SUDO_UID", "7"), ("SUDO_GID", "x")]),
            Some((7, None))
        );
        assert_eq!(called(&[("SUDO_UID", "0"), ("SUDO_GID", "0")]), None);
        assert_eq!(called(&[("PKEXEC_UID", "9")]), Some((9, None)));
        assert_eq!(
            called(&[("PKEXEC_UID", "9"), ("SUDO_UID", "7")]),
            Some((7, None))
        );
    }

    #[test]
    fn only_plain_decimal_ids_are_parsed() {
        for text in [
            "",
            "-1",
            "+1",
            " 1",
            "1 ",
            "0x1",
            "4294967295",
            "4294967296",
        ] {
            assert_eq!(parse_id(OsStr::new(text)), None, "{text:?}");
        }
        assert_eq!(parse_id(OsStr::from_bytes(b"1\xff")), None);
        assert_eq!(parse_id(OsStr::new("4294967294")), Some(u32::MAX - 1));
        assert_eq!(parse_id(OsStr::new("0")), Some(0));
    }

    #[test]
    fn roots_environment_becomes_the_users() {
        let root = pairs(&[
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
        ]);
        let expected = pairs(&[
            ("HOME", "/home/ada"),
            ("LANG", "C"),
            ("LOGNAME", "ada"),
            ("MAIL", "/var/mail/ada"),
            ("SHELL", "/bin/zsh"),
            ("SUDOKU", "yes"),
            ("USER", "ada"),
        ]);
        assert_eq!(sorted(ada().environment_given(root, |_| false)), expected);
    }

    #[test]
    fn the_session_is_added_if_it_exists_and_is_not_named() {
        let named = pairs(&[("XDG_RUNTIME_DIR", "/elsewhere")]);
        let find = |vars: &[(OsString, OsString)], name: &str| {
            let found = vars.iter().find(|(n, _)| n == name);
            found.map(|(_, value)| value.clone())
        };
        let vars = ada().environment_given(named, |_| true);
        assert_eq!(find(&vars, "XDG_RUNTIME_DIR"), Some("/elsewhere".into()));
        assert_eq!(
            find(&vars, "DBUS_SESSION_BUS_ADDRESS"),
            Some("unix:path=/run/user/1000/bus".into())
        );
        let no_bus = |path: &Path| path == Path::new("/run/user/1000");
        let vars = ada().environment_given([], no_bus);
        assert_eq!(
            find(&vars, "XDG_RUNTIME_DIR"),
            Some("/run/user/1000".into())
        );
        assert_eq!(find(&vars, "DBUS_SESSION_BUS_ADDRESS"), None);
    }

    #[test]
    fn an_account_has_the_primary_group_that_was_asked_for() {
        let root = User::with_ids(0, Some(12_345));
        assert_eq!(root.name, "root");
        assert_eq!(root.gid, 12_345);
        assert!(root.groups.contains(&12_345));
        assert_eq!(User::with_ids(0, None).gid, 0);
    }

    #[test]
    fn a_user_without_an_account_has_one_group_and_a_number_as_name() {
        let uid = (3_000_000_000..)
            .find(|&uid| unistd::User::from_uid(uid.into()).unwrap().is_none())
            .unwrap();
        let user = User::with_ids(uid, Some(5));
        assert_eq!((user.uid, user.gid, user.groups), (uid, 5, vec![5]));
        assert_eq!(user.name, OsString::from(uid.to_string()));
    }
}
