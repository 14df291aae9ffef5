//! Watching windows: events of the X server, no polling.

use std::os::fd::{AsFd, BorrowedFd};

use anyhow::{Context, Result};
use x11rb::connection::Connection;
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{
    Atom, AtomEnum, ChangeWindowAttributesAux, ConnectionExt, EventMask, Window,
};
use x11rb::rust_connection::RustConnection;

use super::window::{WindowFacts, WindowRule, WindowType};
use crate::clock::monotonic_ns;

x11rb::atom_manager! {
    /// The atoms that tell what a window is.
    Atoms:
    AtomsCookie {
        _NET_WM_NAME,
        UTF8_STRING,
        _NET_WM_WINDOW_TYPE,
        _NET_WM_WINDOW_TYPE_NORMAL,
    }
}

/// Longest property that is read, in 4-byte units.
const MAX_PROPERTY: u32 = 256;

/// The main window, mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// When we heard of its mapping, CLOCK_MONOTONIC in nanoseconds.
    pub at_ns: u64,
    /// The window.
    pub window: WindowFacts,
}

/// A window that was seen.
#[derive(Clone, Debug)]
pub struct Seen {
    id: Window,
    /// When its mapping was heard of, CLOCK_MONOTONIC in nanoseconds.
    pub at_ns: u64,
    /// Known properties of the window.
    pub window: WindowFacts,
}

/// Watches for one main window.
pub struct Watch {
    connection: RustConnection,
    atoms: Atoms,
    rule: WindowRule,
    mapped: Vec<Seen>,
}

impl Watch {
    pub(super) fn new(display: &str, rule: WindowRule) -> Result<Self> {
        let (connection, screen) = x11rb::connect(Some(display))
            .with_context(|| format!("cannot reach the X server {display}"))?;
        let root = connection.setup().roots[screen].root;
        let select = ChangeWindowAttributesAux::new().event_mask(EventMask::SUBSTRUCTURE_NOTIFY);
        let atoms = Atoms::new(&connection)?.reply()?;
        connection
            .change_window_attributes(root, &select)?
            .check()?;
        Ok(Watch {
            connection,
            atoms,
            rule,
            mapped: Vec::new(),
        })
    }

    /// Readable when [`Self::poll`] has something to do.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.connection.stream().as_fd()
    }

    /// Takes in what has happened, without waiting; the main window, once it is mapped.
    ///
    /// A window may get its title or class after it was mapped: then the time is still that of its
    /// mapping.
    ///
    /// # Errors
    /// When the X server has gone.
    pub fn poll(&mut self) -> Result<Option<Mapped>> {
        while let Some(event) = self.connection.poll_for_event()? {
            let at_ns = monotonic_ns();
            match event {
                Event::MapNotify(map) => {
                    self.follow(map.window);
                    self.mapped.retain(|seen| seen.id != map.window);
                    self.mapped.push(Seen {
                        id: map.window,
                        at_ns,
                        window: WindowFacts::default(),
                    });
                    self.look(map.window);
                }
                Event::PropertyNotify(property) => self.look(property.window),
                Event::ConfigureNotify(configure) => self.look(configure.window),
                Event::UnmapNotify(unmap) => self.mapped.retain(|seen| seen.id != unmap.window),
                _ => {}
            }
        }
        let found = self
            .mapped
            .iter()
            .find(|seen| self.rule.matches(&seen.window));
        Ok(found.map(|seen| Mapped {
            at_ns: seen.at_ns,
            window: seen.window.clone(),
        }))
    }

    /// All windows that are mapped, for those who write a rule.
    pub fn mapped(&self) -> &[Seen] {
        &self.mapped
    }

    /// Asks for events of a window's properties. A window that is gone has none.
    fn follow(&self, window: Window) {
        let select = ChangeWindowAttributesAux::new().event_mask(EventMask::PROPERTY_CHANGE);
        if let Ok(cookie) = self.connection.change_window_attributes(window, &select) {
            cookie.ignore_error();
        }
    }

    /// Finds out what a mapped window is. One that is gone meanwhile stays as it was known.
    fn look(&mut self, window: Window) {
        let Some(index) = self.mapped.iter().position(|seen| seen.id == window) else {
            return;
        };
        if let Ok(facts) = self.facts(window) {
            self.mapped[index].window = facts;
        }
    }

    fn facts(&self, window: Window) -> Result<WindowFacts> {
        // Ask for everything first, then wait once.
        let attributes = self.connection.get_window_attributes(window)?;
        let geometry = self.connection.get_geometry(window)?;
        let class = self.property(window, AtomEnum::WM_CLASS.into())?;
        let title = self.property(window, self.atoms._NET_WM_NAME)?;
        let old_title = self.property(window, AtomEnum::WM_NAME.into())?;
        let kind = self.property(window, self.atoms._NET_WM_WINDOW_TYPE)?;
        let (attributes, geometry) = (attributes.reply()?, geometry.reply()?);
        let class = class.reply()?.value;
        let mut title = title.reply()?.value;
        let old_title = old_title.reply()?.value;
        if title.is_empty() {
            title = old_title;
        }
        let kinds: Vec<Atom> = kind.reply()?.value32().into_iter().flatten().collect();
        let is_normal = kinds.is_empty() || kinds.contains(&self.atoms._NET_WM_WINDOW_TYPE_NORMAL);
        Ok(WindowFacts {
            class: class
                .split(|&byte| byte == 0)
                .filter(|part| !part.is_empty())
                .map(|part| String::from_utf8_lossy(part).into_owned())
                .collect(),
            title: String::from_utf8_lossy(&title).into_owned(),
            width: geometry.width,
            height: geometry.height,
            override_redirect: attributes.override_redirect,
            kind: if is_normal {
                WindowType::Normal
            } else {
                WindowType::Other
            },
        })
    }

    fn property(
        &self,
        window: Window,
        property: Atom,
    ) -> Result<
        x11rb::cookie::Cookie<'_, RustConnection, x11rb::protocol::xproto::GetPropertyReply>,
        x11rb::errors::ConnectionError,
    > {
        self.connection
            .get_property(false, window, property, AtomEnum::ANY, 0, MAX_PROPERTY)
    }
}
