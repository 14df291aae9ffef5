//! Main windows are recognised on a real X server.

use std::path::Path;

use lab::display::{Display, Mapped, Watch, WindowRule};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use x11rb::connection::Connection;
use x11rb::protocol::xproto::{
    AtomEnum, ConnectionExt, CreateWindowAux, PropMode, Window, WindowClass,
};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

/// An app that opens windows.
struct Client {
    connection: RustConnection,
    screen: usize,
}

impl Client {
    fn new(display: &Display) -> Client {
        let (connection, screen) = x11rb::connect(Some(display.name())).unwrap();
        Client { connection, screen }
    }

    fn window(&self, width: u16, height: u16, override_redirect: bool) -> Window {
        let window = self.connection.generate_id().unwrap();
        let screen = &self.connection.setup().roots[self.screen];
        let how = CreateWindowAux::new().override_redirect(u32::from(override_redirect));
        self.connection
            .create_window(
                0,
                window,
                screen.root,
                0,
                0,
                width,
                height,
                0,
                WindowClass::INPUT_OUTPUT,
                0,
                &how,
            )
            .unwrap();
        window
    }

    fn class(&self, window: Window) {
        self.text(window, AtomEnum::WM_CLASS.into(), "editor\0Editor\0");
    }

    fn title(&self, window: Window, title: &str) {
        self.text(window, AtomEnum::WM_NAME.into(), title);
    }

    fn text(&self, window: Window, property: u32, text: &str) {
        self.connection
            .change_property8(
                PropMode::REPLACE,
                window,
                property,
                AtomEnum::STRING,
                text.as_bytes(),
            )
            .unwrap();
    }

    fn splash(&self, window: Window) {
        let atom = |name: &str| {
            let cookie = self.connection.intern_atom(false, name.as_bytes()).unwrap();
            cookie.reply().unwrap().atom
        };
        let (kind, splash) = (
            atom("_NET_WM_WINDOW_TYPE"),
            atom("_NET_WM_WINDOW_TYPE_SPLASH"),
        );
        self.connection
            .change_property32(PropMode::REPLACE, window, kind, AtomEnum::ATOM, &[splash])
            .unwrap();
    }

    fn map(&self, window: Window) {
        self.connection.map_window(window).unwrap();
        self.settle();
    }

    /// Returns when the server has done all that it was asked to.
    fn settle(&self) {
        self.connection.sync().unwrap();
    }
}

/// The main window, once everything that has happened so far has reached the watch.
fn main_window(watch: &mut Watch, windows: usize) -> Option<Mapped> {
    loop {
        let found = watch.poll().unwrap();
        if found.is_some() || watch.mapped().len() >= windows {
            return found;
        }
        let limit = Timespec {
            tv_sec: 10,
            tv_nsec: 0,
        };
        let ready = poll(&mut [PollFd::new(&watch.fd(), PollFlags::IN)], Some(&limit)).unwrap();
        assert!(ready > 0, "{:?}", watch.mapped());
    }
}

#[test]
fn the_main_window_is_found_among_others() {
    if !Path::new("/usr/bin/Xvfb").exists() {
        common::skipped("this test needs Xvfb");
        return;
    }
    let display = Display::start().unwrap();
    let rule = WindowRule {
        class: Some("Editor".to_owned()),
        title: Some("Untitled".to_owned()),
        ..WindowRule::default()
    };
    let mut watch = display.watch(&rule).unwrap();
    let client = Client::new(&display);

    let splash = client.window(400, 300, false);
    client.class(splash);
    client.title(splash, "Untitled");
    client.splash(splash);
    client.map(splash);
    let helper = client.window(10, 10, false);
    client.class(helper);
    client.title(helper, "Untitled");
    client.map(helper);
    let menu = client.window(300, 300, true);
    client.class(menu);
    client.title(menu, "Untitled");
    client.map(menu);
    assert_eq!(main_window(&mut watch, 3), None);

    // Its title comes after it was mapped: the time is that of the mapping.
    let main = client.window(800, 600, false);
    client.class(main);
    client.map(main);
    assert_eq!(main_window(&mut watch, 4), None);
    let mapped_ns = watch.mapped()[3].at_ns;
    client.title(main, "Untitled 1 - Editor");
    client.settle();
    let found = main_window(&mut watch, 5).expect("it is a main window now");
    assert_eq!(found.at_ns, mapped_ns);
    assert_eq!((found.window.width, found.window.height), (800, 600));

    // One that watches from now on hears of no window, and of the next one only when it is mapped.
    let mut late = display.watch(&rule).unwrap();
    assert_eq!(late.poll().unwrap(), None);
    let second = client.window(500, 500, false);
    client.class(second);
    client.title(second, "Untitled 2 - Editor");
    client.map(second);
    let found = main_window(&mut late, 1).expect("a main window");
    assert_eq!(found.window.width, 500);
}
