//! From a command line to an app, by the rules of launchers.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::launchers::{AppArgument, LauncherRule, Rules};
use super::lookup::{absolute, base_name};
use crate::model::{App, Identity, Key};

/// Wrappers within wrappers that are looked through.
const MAX_DEPTH: usize = 8;

/// Longest path of an app's file, in bytes: the kernel's PATH_MAX without its NUL.
const MAX_FILE: usize = 4095;

/// Longest name of an app after its launcher's, in bytes, as of a file's name.
const MAX_NAME: usize = 255;

/// Bytes with a meaning to the shell, quotes included: a line with any of them is not evaluated.
const SHELL_META: &[u8] = b"|&;<>()$`\\\"'*?[]#~{}!\n\r";

/// What the arguments of a launcher say about the app.
enum LaunchTarget<'a> {
    File(&'a OsStr),
    Name(&'a OsStr),
    /// A command line of its own. Never empty.
    Command(PathBuf, Vec<OsString>),
    Unknown,
}

/// What an option of a launcher means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OptionKind {
    Flag,
    Value,
    Attached,
    Name,
    File,
    Line,
    End,
}

/// The key of the file at `path`, which is relative to `cwd` if it is not absolute; `None` if it is empty
/// or too long.
fn of_file(path: &OsStr, cwd: &Path) -> Option<Key> {
    let file = absolute(Path::new(path), cwd);
    let usable = !path.is_empty() && file.as_os_str().len() <= MAX_FILE;
    usable.then_some(Key::File(file))
}

/// The key of the app that `launcher` calls `name`; `None` if the name is empty or too long.
fn of_name(launcher: &str, name: &OsStr) -> Option<Key> {
    let usable = !name.is_empty() && name.len() <= MAX_NAME;
    let key = || [OsStr::new(launcher), name].join(OsStr::new(":"));
    usable.then(|| Key::Name(key()))
}

/// Finds the executable that a command names, as execvp(3) does: an absolute path.
type CommandLookUp<'a> = &'a dyn Fn(&OsStr) -> Option<PathBuf>;

impl Rules {
    /// The app that is started when `file` is executed with `argv` (`argv[0]` included) by a process
    /// with the working directory `cwd`. `file` is what execve(2) was given: for a script, the script.
    /// Commands of wrappers are not looked up, so that wrappers are not looked through. Touches no file.
    pub fn identify(&self, file: &Path, argv: &[OsString], cwd: &Path) -> Identity {
        self.identify_with(file, argv, cwd, &|_| None)
    }

    /// Like [`Rules::identify`], with `look_up` to find the commands of wrappers.
    pub fn identify_with(
        &self,
        file: &Path,
        argv: &[OsString],
        cwd: &Path,
        look_up: &dyn Fn(&OsStr) -> Option<PathBuf>,
    ) -> Identity {
        self.of_program(absolute(file, cwd), argv, cwd, look_up, MAX_DEPTH)
    }

    /// Whether the app is only a launcher's executable: its profile was learned from a command line that
    /// does not tell the app, or before launchers had rules. It says nothing about other launches of it.
    pub fn is_launcher(&self, app: &App) -> bool {
        let path = Path::new(OsStr::from_bytes(&app.path));
        let directory = path.parent().unwrap_or(Path::new(""));
        app.program.is_none()
            && path.is_absolute()
            && (self.launcher(base_name(path.as_os_str())).is_some()
                || self.launcher_of_directory(directory).is_some())
    }

    fn of_program(
        &self,
        program: PathBuf,
        argv: &[OsString],
        cwd: &Path,
        look_up: CommandLookUp,
        depth: usize,
    ) -> Identity {
        let app = |key: Option<Key>| Identity {
            distinct: key.is_some(),
            key: key.unwrap_or_else(|| Key::File(program.clone())),
            program: program.clone(),
        };
        let base = base_name(program.as_os_str());
        let directory = program.parent().unwrap_or(Path::new(""));
        if let Some(launcher) = self.launcher_of_directory(directory) {
            return app(of_name(launcher, base));
        }
        let Some((launcher, rule)) = self.launcher(base) else {
            return app(Some(Key::File(program.clone())));
        };
        match rule.target(argv.get(1..).unwrap_or_default(), cwd, look_up) {
            LaunchTarget::File(path) => app(of_file(path, cwd)),
            LaunchTarget::Name(name) => app(of_name(launcher, name)),
            LaunchTarget::Command(program, argv) if depth > 0 => {
                self.of_program(program, &argv, cwd, look_up, depth - 1)
            }
            LaunchTarget::Command(..) | LaunchTarget::Unknown => app(None),
        }
    }
}

impl LauncherRule {
    fn target<'a>(
        &self,
        mut args: &'a [OsString],
        cwd: &Path,
        look_up: CommandLookUp,
    ) -> LaunchTarget<'a> {
        if self.app == AppArgument::Program {
            return wrapped_command(args, look_up);
        }
        let mut options = true;
        let mut subcommand = self.subcommand.as_deref();
        while let Some((arg, rest)) = args.split_first() {
            if options && arg == "--" {
                options = false;
                args = rest;
                continue;
            }
            if let Some((kind, attached)) = self.option(arg).filter(|_| options) {
                use OptionKind::{Attached, End, File, Flag, Line, Name, Value};
                let takes_value = matches!(kind, Value | Name | File | Line);
                let (value, behind) = match (attached, rest.split_first()) {
                    (None, Some((value, behind))) if takes_value => (value.as_os_str(), behind),
                    (attached, _) => (attached.unwrap_or_default(), rest),
                };
                match kind {
                    Flag | Attached | Value => {}
                    Name => return LaunchTarget::Name(value),
                    File => return LaunchTarget::File(value),
                    Line => return shell_command(value, cwd, look_up),
                    End => return LaunchTarget::Unknown,
                }
                args = behind;
                continue;
            }
            match subcommand {
                Some(expected) if arg == expected => {
                    subcommand = None;
                    args = rest;
                    continue;
                }
                Some(_) => return LaunchTarget::Unknown,
                None => {}
            }
            return match self.app {
                AppArgument::File => LaunchTarget::File(arg),
                AppArgument::Name if arg.as_bytes().starts_with(b"/") => LaunchTarget::File(arg),
                AppArgument::Name if arg.as_bytes().starts_with(b".") => LaunchTarget::File(arg),
                AppArgument::Name => LaunchTarget::Name(arg),
                AppArgument::Program | AppArgument::Nothing => LaunchTarget::Unknown,
            };
        }
        LaunchTarget::Unknown
    }

    /// What an argument means as an option, with the value that is attached to it; `None` if it is not an
    /// option.
    fn option<'a>(&self, arg: &'a OsStr) -> Option<(OptionKind, Option<&'a OsStr>)> {
        let bytes = arg.as_bytes();
        if let Some(kind) = self.kind(bytes) {
            return Some((kind, None));
        }
        match bytes {
            // Interpreters read the program from standard input.
            b"-" => return Some((OptionKind::End, None)),
            [b'-', ..] => {}
            _ => return None,
        }
        if self.bundled && !bytes.starts_with(b"--") {
            return Some(self.bundle(bytes));
        }
        let equals = bytes.iter().position(|&byte| byte == b'=');
        let known = equals.and_then(|at| {
            let kind = self.kind(&bytes[..at])?;
            Some((kind, Some(OsStr::from_bytes(&bytes[at + 1..]))))
        });
        Some(known.unwrap_or((OptionKind::Flag, None)))
    }

    /// The first letter of a bundle that is not a flag.
    fn bundle<'a>(&self, bytes: &'a [u8]) -> (OptionKind, Option<&'a OsStr>) {
        for (at, letter) in bytes.iter().enumerate().skip(1) {
            let Some(kind) = self.kind(&[b'-', *letter]) else {
                continue;
            };
            let behind = &bytes[at + 1..];
            // Shells read the line from the next argument, whatever follows the letter.
            let attached = !behind.is_empty() && kind != OptionKind::Line;
            return (kind, attached.then(|| OsStr::from_bytes(behind)));
        }
        (OptionKind::Flag, None)
    }

    fn kind(&self, option: &[u8]) -> Option<OptionKind> {
        let lists = [
            (&self.values, OptionKind::Value),
            (&self.attached, OptionKind::Attached),
            (&self.name_options, OptionKind::Name),
            (&self.file_options, OptionKind::File),
            (&self.line_options, OptionKind::Line),
            (&self.ends, OptionKind::End),
        ];
        let has = |list: &[String]| list.iter().any(|one| one.as_bytes() == option);
        lists
            .iter()
            .find(|(list, _)| has(list))
            .map(|(_, kind)| *kind)
    }
}

/// The command that a wrapper executes: the first argument that is a program. Its options have values
/// such as priorities and user names, which are not programs.
fn wrapped_command<'a>(args: &[OsString], look_up: CommandLookUp) -> LaunchTarget<'a> {
    let mut found = args.iter().enumerate().filter_map(|(at, arg)| {
        let is_option = arg.as_bytes().starts_with(b"-");
        let program = look_up(arg).filter(|_| !is_option)?;
        Some(LaunchTarget::Command(program, args[at..].to_vec()))
    });
    found.next().unwrap_or(LaunchTarget::Unknown)
}

/// The command of a line for the shell, if it does nothing but execute one in the shell's place.
fn shell_command<'a>(line: &OsStr, cwd: &Path, look_up: CommandLookUp) -> LaunchTarget<'a> {
    let bytes = line.as_bytes();
    if bytes.iter().any(|byte| SHELL_META.contains(byte)) {
        return LaunchTarget::Unknown;
    }
    let words = bytes.split(|byte| matches!(byte, b' ' | b'\t'));
    let mut words = words.filter(|word| !word.is_empty());
    if words.next() != Some(b"exec") {
        return LaunchTarget::Unknown;
    }
    let argv: Vec<OsString> = words.map(|word| OsStr::from_bytes(word).into()).collect();
    let program = argv.first().and_then(|command| match command.as_bytes() {
        [b'-', ..] => None,
        name if name.contains(&b'/') => Some(absolute(Path::new(command), cwd)),
        _ => look_up(command),
    });
    program.map_or(LaunchTarget::Unknown, |program| {
        LaunchTarget::Command(program, argv)
    })
}

#[cfg(test)]
#[path = "identify_tests.rs"]
mod tests;
