//! Any bytes as a configuration file: an error that names a line of it, or values that go together.
use std::path::Path;

use paralfetch::model::LaunchLimits;
use paralfetch::service::config::Config;

pub fn check(bytes: &[u8]) {
    match Config::parse(Path::new("config.toml"), bytes) {
        Ok(config) => {
            let limits = LaunchLimits::from(&config.launch);
            assert!(limits.window < limits.timeout);
        }
        Err(error) => {
            let lines = bytes.split(|&byte| byte == b'\n').count();
            assert!(error.line.is_none_or(|line| line <= lines), "{error}");
        }
    }
}
