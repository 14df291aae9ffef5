//! Fills that are told apart by pattern as well as by colour.

use maud::{Markup, PreEscaped, html};

/// Name, and marks on a tile of 6 × 6.
const PATTERNS: &[(&str, &str)] = &[
    (
        "gsoc",
        "<circle cx='1.5' cy='1.5' r='1'/><circle cx='4.5' cy='4.5' r='1'/>",
    ),
    ("sorted", "<path d='M0 1.5H6M0 4.5H6'/>"),
    ("fast", "<path d='M-1 1L1 -1M-1 7L7 -1M5 7L7 5'/>"),
    ("traced", "<circle cx='3' cy='3' r='.8'/>"),
    ("shift", "<path d='M-1 5L1 7M-1 -1L7 7M5 -1L7 1'/>"),
    ("merge", "<path d='M0 3H6M3 0V6'/>"),
    ("exact", "<path d='M1.5 0V6M4.5 0V6'/>"),
    ("infill", ""),
    ("dynamic", "<path d='M-1 5L1 7M-1 -1L7 7M5 -1L7 1'/>"),
    ("ssd", "<path d='M0 3H6'/>"),
    (
        "bound",
        "<path d='M-1 1L1 -1M-1 7L7 -1M5 7L7 5M-1 5L1 7M-1 -1L7 7M5 -1L7 1'/>",
    ),
    ("warm", ""),
    ("cold", ""),
    ("other", "<path d='M0 4L3 1L6 4'/>"),
];

/// Definitions that fills refer to, once a page.
pub fn definitions() -> Markup {
    html! {
        svg.hidden width="0" height="0" aria-hidden="true" {
            defs {
                @for (name, marks) in PATTERNS {
                    pattern.{ "p p-" (name) } id={ "p-" (name) } width="6" height="6"
                        patternUnits="userSpaceOnUse" {
                        rect width="6" height="6" {}
                        g { (PreEscaped(marks)) }
                    }
                }
            }
        }
    }
}
