//! One launch, moment by moment: its picture with what belongs to it.

use maud::{Markup, html};

use super::super::format::seconds;
use super::super::scenarios;
use super::{misses, picture, sequence};
use crate::timeline::Timeline;

/// The picture of a launch with its misses and its sequence before and after scheduling.
pub fn timeline(timeline: &Timeline, open: bool) -> Markup {
    let label = scenarios::label(&timeline.scenario);
    let mut facts = Vec::new();
    facts.extend(
        timeline
            .window
            .map(|time| format!("window {} s", seconds(time))),
    );
    facts.extend(
        timeline
            .completion
            .map(|time| format!("completion {} s", seconds(time))),
    );
    facts.extend(
        timeline
            .background_us
            .map(|us| format!("waits for writes {} s", seconds(us as f64 / 1e6))),
    );
    facts.push(match timeline.misses.len() {
        1 => "1 miss".to_owned(),
        count => format!("{count} misses"),
    });
    let title = format!(
        "Timeline of {}, {label}, on {}",
        timeline.app, timeline.device
    );
    html! {
        details.timeline open[open] {
            summary { strong { (timeline.app) } " · " (label) span.facts { (facts.join(" · ")) } }
            div.scroll tabindex="0" role="group" aria-label=(title) {
                div style={ "--natural:" (picture::WIDTH) "px" } { (picture::draw(timeline, &title)) }
            }
            (misses::table(&timeline.misses))
            (sequence::before_and_after(timeline))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_timeline_is_a_picture_too() {
        let markup = timeline(&Timeline::default(), true).into_string();
        assert!(markup.contains("0 misses") && markup.contains("</svg>"));
    }
}
