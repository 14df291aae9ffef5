//! Any bytes as a configuration file: an error that names a line of it, or values that go together.
#![no_main]

use std::path::Path;

use paralfetch::model::LaunchLimits;
use paralfetch::service::config::{Config, ConfigError};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    match Config::parse(Path::new("config.toml"), bytes) {
        Ok(config) => {
            let limits = LaunchLimits::from(&config.launch);
            assert!(limits.window < limits.timeout);
        }
        Err(ConfigError::Invalid { line, .. }) => {
            assert!(line <= bytes.split(|&byte| byte == b'\n').count());
        }
        Err(ConfigError::TooLong { .. } | ConfigError::Together { .. }) => {}
        Err(error) => panic!("not an error of the contents: {error}"),
    }
});
