//! What the system runs on.

use std::fs;
use std::path::Path;

/// The directory of batteries and power supplies in sysfs.
pub const SUPPLIES: &str = "/sys/class/power_supply";

/// The charge of the battery that the system runs on, in percent, of the emptiest of several; `None` on mains, and where
/// there is no battery.
pub fn battery_percent(supplies: &Path) -> Option<u64> {
    let read = |path: &Path, name: &str| {
        let text = fs::read_to_string(path.join(name)).unwrap_or_default();
        text.trim().to_owned()
    };
    let all = fs::read_dir(supplies).into_iter().flatten().flatten();
    let discharging = all.map(|supply| supply.path()).filter(|supply| {
        // Those of mice and pens have the scope Device.
        read(supply, "type") == "Battery"
            && read(supply, "scope") != "Device"
            && read(supply, "status") == "Discharging"
    });
    // One that does not tell its charge is taken for empty.
    let charges = discharging.map(|supply| read(&supply, "capacity").parse().unwrap_or(0));
    charges.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_emptiest_battery_that_is_discharged_counts() {
        let dir = tempfile::tempdir().unwrap();
        let supply = |name: &str, files: &[(&str, &str)]| {
            let supply = dir.path().join(name);
            fs::create_dir_all(&supply).unwrap();
            for (file, text) in files {
                fs::write(supply.join(file), format!("{text}\n")).unwrap();
            }
        };
        let charge = || battery_percent(dir.path());
        assert_eq!(charge(), None);
        supply("AC", &[("type", "Mains"), ("online", "0")]);
        let mouse = [
            ("type", "Battery"),
            ("scope", "Device"),
            ("status", "Discharging"),
            ("capacity", "3"),
        ];
        supply("mouse", &mouse);
        let battery = |status| [("type", "Battery"), ("status", status), ("capacity", "80")];
        supply("BAT0", &battery("Charging"));
        assert_eq!(charge(), None);
        supply("BAT0", &battery("Discharging"));
        assert_eq!(charge(), Some(80));
        let other = [
            ("type", "Battery"),
            ("status", "Discharging"),
            ("capacity", "20"),
        ];
        supply("BAT1", &other);
        assert_eq!(charge(), Some(20));
        supply("BAT1", &[("capacity", "unknown")]);
        assert_eq!(charge(), Some(0));
    }
}
