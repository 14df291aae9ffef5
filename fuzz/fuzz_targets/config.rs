//! Any bytes as a configuration file: an error that names a line of it, or values that go together.
#![no_main]

use std::path::Path;

use paralfetch::model::LaunchLimits;
use paralfetch::service::config::Config;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
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
});
