//! What a wrong profile costs (FAST §5.2).

use super::super::app::App;
use super::super::summary::Device;
use super::figures::grouped;
use super::{Section, present};
use crate::scenarios::{self, Kind};

/// Launches with wrong profiles beside those with the right one.
pub fn wrong(device: &Device) -> Option<Section> {
    let wrong = device.of_kinds(&[Kind::Wrong]);
    let apps: Vec<&App> = device
        .launched()
        .filter(|app| wrong.iter().any(|name| app.normalized(name).is_some()))
        .collect();
    if apps.is_empty() {
        return None;
    }
    let columns = [&present(device, &["infill"])[..], &wrong].concat();
    let text = "Launched cold with a profile whose data are not what the app needs. Above 1, it is slower than without \
                any prefetching.";
    let title = "Harm of a wrong profile (FAST §5.2)";
    let mut section = grouped(title, text, &apps, &columns, true)?;
    section.text.extend(worst(&apps, &wrong));
    Some(section)
}

/// The launch that lost most, if one lost anything.
fn worst(apps: &[&App], wrong: &[&str]) -> Option<String> {
    let launches = apps.iter().flat_map(|app| {
        let pairs = wrong.iter().map(move |&name| (*app, name));
        pairs.filter_map(|(app, name)| Some((app.normalized(name)?.value, app, name)))
    });
    let (value, app, name) = launches.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let label = scenarios::label(name);
    let app = &app.name;
    Some(match value > 1.0 {
        true => {
            format!("The worst is {app} with the profile {label}: {value:.2} of a cold launch.")
        }
        false => "No app is slower than when it is launched cold.".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::samples::{launch, launched};
    use super::*;

    fn section(launches: &[(&str, f64)]) -> Option<Section> {
        let launches = launches.iter();
        let launches = launches.map(|(scenario, seconds)| launch("vlc", scenario, 0, *seconds));
        wrong(&launched(launches.collect()))
    }

    #[test]
    fn the_worst_is_named_if_it_is_worse_than_nothing() {
        let harmed = [
            ("cold", 2.0),
            ("infill", 1.0),
            ("wrong-page", 1.5),
            ("wrong-app", 2.5),
        ];
        let found = section(&harmed).unwrap();
        assert_eq!(
            found.text[1],
            "The worst is vlc with the profile another app's: 1.25 of a cold launch."
        );
        assert_eq!(found.tables[0].rows[0].len(), 4);
        let unharmed = section(&[("cold", 2.0), ("wrong-page", 1.5)]).unwrap();
        assert!(unharmed.text[1].starts_with("No app"));
        assert_eq!(section(&[("cold", 2.0), ("infill", 1.0)]), None);
    }
}
