//! Which window is an app's main window.

use serde::{Deserialize, Serialize};

/// Smallest main window, in pixels, where the rule does not say otherwise. Toolkits map helper windows
/// of one or ten pixels.
const SMALLEST: u16 = 100;

/// How to tell an app's main window from its splash screen and its helper windows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowRule {
    /// What the class (either part of WM_CLASS) must be.
    pub class: Option<String>,
    /// What the title must contain.
    pub title: Option<String>,
    /// Smallest width, in pixels.
    #[serde(default)]
    pub min_width: Option<u16>,
    /// Smallest height, in pixels.
    #[serde(default)]
    pub min_height: Option<u16>,
    /// Whether window managers are to leave the window alone: games in full screen ask for it.
    #[serde(default)]
    pub override_redirect: bool,
}

/// What a window's type property says of it (_NET_WM_WINDOW_TYPE of the EWMH specification).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WindowType {
    /// Normal, or not said.
    #[default]
    Normal,
    /// A splash screen, dialog, menu, tooltip or the like.
    Other,
}

/// The known properties of a window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WindowFacts {
    /// Both parts of WM_CLASS: instance and class.
    pub class: Vec<String>,
    /// Title.
    pub title: String,
    /// Width, in pixels.
    pub width: u16,
    /// Height, in pixels.
    pub height: u16,
    /// Whether it is a menu, tooltip or splash screen that window managers are to leave alone.
    pub override_redirect: bool,
    /// Type of the window.
    pub kind: WindowType,
}

impl WindowRule {
    /// Whether a mapped window is the main window, by what is known of it now.
    pub fn matches(&self, window: &WindowFacts) -> bool {
        window.override_redirect == self.override_redirect
            && window.kind == WindowType::Normal
            && window.width >= self.min_width.unwrap_or(SMALLEST)
            && window.height >= self.min_height.unwrap_or(SMALLEST)
            && self
                .class
                .as_ref()
                .is_none_or(|class| window.class.contains(class))
            && self
                .title
                .as_ref()
                .is_none_or(|title| window.title.contains(title.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window() -> WindowFacts {
        WindowFacts {
            class: vec!["gimp-2.10".to_owned(), "Gimp-2.10".to_owned()],
            title: "GNU Image Manipulation Program".to_owned(),
            width: 1024,
            height: 700,
            ..WindowFacts::default()
        }
    }

    #[test]
    fn the_main_window_is_told_apart() {
        let rule = WindowRule {
            class: Some("Gimp-2.10".to_owned()),
            title: Some("Image Manipulation".to_owned()),
            ..WindowRule::default()
        };
        assert!(rule.matches(&window()));
        let others = [
            WindowFacts {
                override_redirect: true,
                ..window()
            },
            WindowFacts {
                kind: WindowType::Other,
                ..window()
            },
            WindowFacts {
                width: 10,
                ..window()
            },
            WindowFacts {
                height: 1,
                ..window()
            },
            WindowFacts {
                class: vec!["xterm".to_owned()],
                ..window()
            },
            WindowFacts {
                title: "GIMP Startup".to_owned(),
                ..window()
            },
        ];
        for other in others {
            assert!(!rule.matches(&other), "{other:?}");
        }
    }

    #[test]
    fn size_can_be_asked_for() {
        let rule = WindowRule {
            min_width: Some(1025),
            ..WindowRule::default()
        };
        assert!(!rule.matches(&window()));
    }
}
